//! Declarations of events that the derive refuses.
use linn_bus::Event;

#[derive(Event)]
struct Nothing;
//~ an event needs a name: `#[event(name = "area/name", ..)]`, as in "tools/pre-execute"
//~ an event needs a mode: `#[event(.., mode = Emit)]`

#[derive(Event)]
#[event(name = "UI Name", mode = Emit)] //~ use lower-case letters, digits and `-`, in two segments or more separated by `/`
struct BadName;

#[derive(Event)]
#[event(name = "alone", mode = Emit)] //~ `alone` is no event name
struct NoArea;

#[derive(Event)]
#[event(name = "ui/mode", mode = Waterfal, output = u32)] //~ there is no mode `Waterfal`
struct BadMode;

#[derive(Event)]
#[event(name = "ui/answer", mode = Bail)] //~ a `Bail` event needs `output = Type`
struct NoOutput;

#[derive(Event)]
#[event(name = "ui/silent", mode = Emit, output = u32)] //~ a `Emit` event has no output
struct Output;

#[derive(Event)]
#[event(name = "ui/generic", mode = Emit)]
struct Generic<T>(T); //~ an event is one type: remove the parameters

#[derive(Event)]
#[event(name = "ui/key", mode = Emit, scope = agent)] //~ an event has no key `scope`
struct BadKey;

fn main() {}
