//! Keys of an event that need a feature of the bus which is off.
use linn_bus::Event;

#[derive(Event)]
#[event(name = "ui/shown", mode = Emit, view)] //~ `view` needs the feature `json` of linn-bus
struct Shown;

#[derive(Event)]
#[event(name = "ui/shown-by", mode = Bail, output = u32, output_view = show)] //~ `output_view` needs the feature `json`
struct ShownBy;

#[derive(Event)]
#[event(name = "ui/typed", mode = Emit, schema)] //~ `schema` needs the feature `json` of linn-bus
struct Typed;
//~ write `linn-bus = { .., features = ["json"] }` in Cargo.toml

fn main() {}
