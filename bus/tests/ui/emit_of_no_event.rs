//! Dispatch of something that is no event.
use linn_bus::{Context, Event};

struct Plain;

fn emit(ctx: &Context) {
    ctx.emit(&Plain); //~ `Plain` is not an event
    ctx.emit(&"text"); //~ `&str` is not an event
    //~ declare it with `#[derive(Event)] #[event(name = "area/name", mode = Emit)]`
}

#[derive(Event)]
#[event(name = "ui/thread-bound", mode = Emit)]
struct ThreadBound(std::rc::Rc<u8>); //~ `Rc<u8>` cannot be sent between threads safely

fn main() {}
