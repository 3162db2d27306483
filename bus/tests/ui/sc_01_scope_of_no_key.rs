//! SC-01 and SC-13: a scope has a key that a context minted, and an event that scopes filter carries one.
use linn_bus::{Context, Event, ScopeKey};

#[derive(Event)]
#[event(name = "ui/asked", mode = Bail, output = u32, subject = agent)]
struct Asked {
    agent: ScopeKey,
}

#[derive(Event)]
#[event(name = "ui/named", mode = Emit, subject = agent)]
struct Named {
    agent: String,
}
//~ `&String` names no scope
//~ `subject = ..` points at a `ScopeKey`, an `Option<ScopeKey>`, or a reference to one of them

fn sc_01_a_string_is_no_key(ctx: &Context) {
    let _ = ctx.scope_for("agent"); //~ `&ScopeKey`
    let _ = ctx.scope_for(&None); //~ `&ScopeKey`
}

fn sc_13_a_bare_subject_is_no_event(ctx: &Context, agent: &ScopeKey) {
    let _ = ctx.bail::<Asked>(agent); //~ expected `&Asked`
    let _ = ctx.bail(agent); //~ `ScopeKey` is not an event
}

fn main() {}
