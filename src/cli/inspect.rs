//! `linn inspect`: everything that is on the bus of a harness.

use anyhow::Context as _;
use linn::Harness;
use linn::bus::{EffectInfo, FiberInfo, Inspection};
use serde_json::{Value, json};

use crate::cli::InspectArguments;
use crate::cli::terminal::Terminal;

/// Names of fibers that are scopes.
const SCOPES: [&str; 2] = ["scope", "scope host"];

/// Builds the harness that the configuration makes, shows it, and ends it.
pub(crate) async fn inspect(arguments: &InspectArguments, terminal: &Terminal) -> anyhow::Result<()> {
    let config = arguments.settings.load()?;
    let workspace = config.workspace().to_owned();
    let harness = Harness::builder().workspace(workspace).config(config).look_for_libraries().build().await?;
    let seen = harness.context().inspect();
    if arguments.json {
        terminal.plain(&format!("{:#}", as_json(&seen)));
    } else {
        show(&seen, terminal);
    }
    harness.shutdown().await.context("the harness did not end quietly")
}

/// Shows it as text.
pub(crate) fn show(seen: &Inspection, terminal: &Terminal) {
    terminal.say("fibers");
    for fiber in &seen.fibers {
        let indent = "  ".repeat(fiber.place.len() + 1);
        terminal.plain(&format!("{indent}{}  {}, {} effects", fiber.name, fiber.state, fiber.effects.len()));
        for waiting in &fiber.waits_for {
            terminal.warn(&format!("{indent}  waits: {waiting}"));
        }
        if let Some(error) = &fiber.error {
            terminal.warn(&format!("{indent}  {error}"));
        }
    }
    terminal.say("services");
    for service in &seen.services {
        let realm = if service.realm == 0 { String::new() } else { format!(", in realm {}", service.realm) };
        terminal.plain(&format!("  {}  by {}{realm}", service.name, service.provider));
    }
    terminal.say("events, with who listens in order");
    for event in &seen.events {
        let listeners = event.listeners.iter().map(|it| {
            let scoped = if it.scoped { " (in a scope)" } else { "" };
            format!("{}{scoped}", it.plugin)
        });
        terminal.plain(&format!("  {}  {}", event.name, listeners.collect::<Vec<_>>().join(", ")));
    }
    terminal.say("scopes");
    for scope in scopes(seen) {
        let owner = owner(seen, scope).map_or("", |it| &*it.name);
        terminal.plain(&format!("  {} {}  of {owner}", scope.name, scope.id));
    }
}

fn scopes(seen: &Inspection) -> impl Iterator<Item = &FiberInfo> {
    seen.fibers.iter().filter(|it| SCOPES.contains(&it.name.as_ref()))
}

/// The fiber that one is mounted below.
fn owner<'a>(seen: &'a Inspection, fiber: &FiberInfo) -> Option<&'a FiberInfo> {
    let above = |it: &&FiberInfo| it.place.len() < fiber.place.len() && fiber.place.starts_with(&it.place);
    seen.fibers.iter().filter(above).max_by_key(|it| it.place.len())
}

fn as_json(seen: &Inspection) -> Value {
    let fibers = seen.fibers.iter().map(|it| {
        json!({
            "id": it.id,
            "name": &*it.name,
            "below": owner(seen, it).map(|it| it.id),
            "place": &*it.place,
            "state": it.state.as_str(),
            "waitsFor": it.waits_for.iter().map(|it| {
                json!({ "service": it.service, "why": it.to_string() })
            }).collect::<Vec<_>>(),
            "error": it.error.as_ref().map(ToString::to_string),
            "effects": effects(&it.effects),
        })
    });
    let services =
        seen.services.iter().map(|it| json!({ "name": it.name, "provider": &*it.provider, "realm": it.realm }));
    let events = seen.events.iter().map(|it| {
        let listeners = it.listeners.iter().map(|it| json!({ "plugin": &*it.plugin, "scoped": it.scoped }));
        json!({ "name": it.name, "listeners": listeners.collect::<Vec<_>>() })
    });
    let scopes = scopes(seen).map(|it| json!({ "id": it.id, "below": owner(seen, it).map(|it| it.id) }));
    json!({
        "fibers": fibers.collect::<Vec<_>>(),
        "services": services.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
        "scopes": scopes.collect::<Vec<_>>(),
    })
}

fn effects(all: &[EffectInfo]) -> Value {
    all.iter().map(|it| json!({ "label": it.label, "owns": effects(&it.children) })).collect()
}
