//! `docs/events.md` lists every event that exists, as its declaration says. `UPDATE_DOCS=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use linn::Harness;
use linn::bus::{EventDescriptor, event_catalogue};

const HEAD: &str = "\
# Events

Every event there is, generated from the declarations; `UPDATE_DOCS=1 cargo test --test catalogue` writes it anew.
Those marked `+` are Linn's own; the others have the names and modes that plugins of this family know.
Observers of `internal/dispatch` see none whose name begins with `internal/`.
`exit`, `hmr/change`, `hmr/reload`, `loader/config-update`, `loader/entry-init`, `loader/partial-dispose` and `loader/patch-context` come with the loader.

| event | mode | scope | answer | type | |
| --- | --- | --- | --- | --- | --- |
";

/// The events that the harness shares with others of its family, and their modes.
const SHARED: &[(&str, &str)] = &[
    ("agent/created", "emit"),
    ("agent/disposed", "emit"),
    ("agent/error", "emit"),
    ("agent/pre-step", "serial"),
    ("agent/prompt-submit", "waterfall"),
    ("agent/queued", "emit"),
    ("agent/request", "waterfall"),
    ("agent/session-prefix", "waterfall"),
    ("agent/session-start", "emit"),
    ("agent/status", "emit"),
    ("agent/step-result", "waterfall"),
    ("agent/turn-continuation", "waterfall"),
    ("agent/turn-stop", "serial"),
    ("approval/request", "waterfall"),
    ("fs/edit-intent", "waterfall"),
    ("fs/observed", "emit"),
    ("fs/write-intent", "waterfall"),
    ("llm/stream", "waterfall"),
    ("session/created", "emit"),
    ("session/event", "emit"),
    ("session/flush", "parallel"),
    ("skill/provider-added", "emit"),
    ("skill/provider-removed", "emit"),
    ("subagent/provider-added", "emit"),
    ("subagent/provider-removed", "emit"),
    ("subagent/start", "emit"),
    ("subagent/end", "emit"),
    ("system-prompt/assemble", "waterfall"),
    ("system-prompt/change", "emit"),
    ("tools/change", "emit"),
    ("tools/execute", "waterfall"),
    ("tools/post-execute", "waterfall"),
    ("tools/pre-execute", "waterfall"),
    ("tools/result", "parallel"),
    ("workflow/start", "emit"),
    ("workflow/phase", "emit"),
    ("workflow/log", "emit"),
    ("workflow/agent-start", "emit"),
    ("workflow/agent-end", "emit"),
    ("workflow/end", "emit"),
];

/// Events of the bus that others of its family have too.
const SHARED_INTERNAL: &[&str] = &[
    "internal/dispatch",
    "internal/get",
    "internal/listener",
    "internal/plugin",
    "internal/service",
    "internal/set",
    "internal/status",
    "internal/update",
];

/// Every event but those that registries collect their entries with.
fn events() -> Vec<&'static EventDescriptor> {
    // The built-in plugins are linked because the harness names them.
    drop(Harness::builder());
    let mut events = event_catalogue();
    events.retain(|it| it.name.strip_prefix("internal/").is_none_or(|it| !it.contains('/')));
    events.retain(|it| !it.type_path.contains("test"));
    events
}

fn is_shared(name: &str) -> bool {
    SHARED.iter().any(|it| it.0 == name) || SHARED_INTERNAL.contains(&name)
}

/// What only rustdoc can follow, as plain code: [`a`](crate::a) and [`a`] become `a`.
fn without_links(docs: &str) -> String {
    let mut text = String::new();
    let mut rest = docs;
    while let Some((before, link)) = rest.split_once("[`") {
        text.push_str(before);
        let (name, after) = link.split_once("`]").expect("a link ends");
        write!(text, "`{name}`").expect("text takes it");
        let target = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    text + rest
}

/// Doc comments break lines at a width, pages of this folder at the end of a sentence or an item.
fn rewrapped(docs: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in docs.lines().map(str::trim) {
        match lines.last_mut() {
            Some(last) if !line.is_empty() && !line.starts_with("- ") && !last.is_empty() => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    let mut text = String::new();
    for line in lines {
        let line = if line.starts_with("- ") { line } else { line.replace(". ", ".\n") };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn render(events: &[&EventDescriptor]) -> String {
    let mut page = HEAD.to_owned();
    for EventDescriptor { name, mode, output, scoped, type_path, .. } in events {
        let scope = if *scoped { "subject" } else { "everybody" };
        let answer = if *output == "()" { String::new() } else { format!("`{output}`") };
        let type_name = type_path.rsplit("::").next().unwrap_or(type_path);
        let mark = if is_shared(name) { "" } else { "+" };
        let link = name.replace('/', "");
        writeln!(page, "| [`{name}`](#{link}) | {mode} | {scope} | {answer} | `{type_name}` | {mark} |")
            .expect("text takes it");
    }
    for event in events {
        write!(page, "\n## {}\n\n{}", event.name, rewrapped(&without_links(event.docs))).expect("text takes it");
    }
    page
}

#[test]
fn the_catalogue_is_up_to_date() {
    let page = render(&events());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/events.md is stale; run `UPDATE_DOCS=1 cargo test --test catalogue`");
}

#[test]
fn the_shared_events_exist_with_their_modes() {
    let events = events();
    for (name, mode) in SHARED {
        let event = events.iter().find(|it| it.name == *name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(event.mode.to_string(), *mode, "{name}");
    }
    for name in SHARED_INTERNAL {
        assert!(events.iter().any(|it| it.name == *name), "{name} is missing");
    }
}

#[test]
fn every_event_says_the_five_things() {
    for event in events() {
        for item in ["- Mode: ", "- Scope: ", "- Emitted by: ", "- On listener error or panic: ", "- Cancelled by: "] {
            assert!(event.docs.lines().any(|it| it.trim().starts_with(item)), "{} lacks `{item}..`", event.name);
        }
        let mode = format!("- Mode: {}", event.mode);
        assert!(event.docs.lines().any(|it| it.trim().starts_with(&mode)), "{} is of mode {}", event.name, event.mode);
    }
}

#[test]
fn every_event_of_the_harness_can_be_shown_as_json() {
    for event in events().iter().filter(|it| !it.name.starts_with("internal/")) {
        assert!(event.has_view, "{} has no view", event.name);
    }
}
