//! `docs/events.md` lists the bus's own events as their declarations say. `UPDATE_DOCS=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use linn_bus::{EventDescriptor, event_catalogue};

const HEAD: &str = "\
# Events of the bus

Generated from the declarations in `bus/src`; `UPDATE_DOCS=1 cargo test -p linn-bus --test catalogue` writes it anew.
Observers of `internal/dispatch` see none of these.

| event | mode | scope | answer | type |
| --- | --- | --- | --- | --- |
";

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
        writeln!(page, "| [`{name}`](#{}) | {mode} | {scope} | {answer} | `{type_name}` |", name.replace('/', ""))
            .expect("text takes it");
    }
    for event in events {
        write!(page, "\n## {}\n\n{}", event.name, rewrapped(&without_links(event.docs))).expect("text takes it");
    }
    page
}

#[test]
fn the_catalogue_of_the_bus_is_up_to_date() {
    let mut events = event_catalogue();
    events.retain(|it| it.name.starts_with("internal/"));
    let page = render(&events);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/events.md is stale; run `UPDATE_DOCS=1 cargo test -p linn-bus --test catalogue`");
}

#[test]
fn every_event_of_the_bus_says_the_five_things() {
    for event in event_catalogue().iter().filter(|it| it.name.starts_with("internal/")) {
        for item in ["- Mode: ", "- Scope: ", "- Emitted by: ", "- On listener error or panic: ", "- Cancelled by: "] {
            assert!(event.docs.lines().any(|it| it.trim().starts_with(item)), "{} lacks `{item}..`", event.name);
        }
        let mode = format!("- Mode: {}", event.mode);
        assert!(event.docs.lines().any(|it| it.trim().starts_with(&mode)), "{} is of mode {}", event.name, event.mode);
    }
}
