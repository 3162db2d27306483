//! `docs/protocol.md` names every command that is understood and every event that is emitted, with all its fields.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// What stands between backticks in the page.
fn named(page: &str) -> BTreeSet<&str> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .flat_map(|it| it.split([' ', ',', ':', '{', '}', '.', '[', ']', '"', '?']))
        .collect()
}

/// `SomeName` as `some_name`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn commands() -> Vec<String> {
    let code = read("src/wire/commands.rs");
    let (_, list) = code.split_once("\ncommands! {\n").unwrap();
    let (list, _) = list.split_once("\n}\n").unwrap();
    list.split(',').map(|it| snake(it.trim())).filter(|it| !it.is_empty()).collect()
}

/// Each event with the names of its fields.
fn events() -> Vec<(String, Vec<String>)> {
    let mut events = Vec::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire/events")).unwrap() {
        let code = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (_, declared) = code.split_once("wire_events! {").unwrap();
        for check in ["\", plain {", "\", checked {"] {
            for (at, _) in declared.match_indices(check) {
                let (_, name) = declared[..at].rsplit_once('"').unwrap();
                let (body, _) = declared[at + check.len()..].split_once('}').unwrap();
                events.push((name.to_owned(), fields_of(body)));
            }
        }
    }
    events
}

/// The names of the fields of an event; none of one that is made of a value.
fn fields_of(body: &str) -> Vec<String> {
    let field = |line: &str| {
        let (name, _) = line.trim().split_once(": ")?;
        name.chars().all(|it| it.is_ascii_lowercase() || it == '_').then(|| name.to_owned())
    };
    let lines = body.split([',', '\n']).filter(|_| !body.contains("serde(flatten)"));
    lines.filter_map(field).collect()
}

#[test]
fn every_command_is_in_the_page() {
    let (page, commands) = (read("../docs/protocol.md"), commands());
    assert!(commands.len() > 70, "{commands:?}");
    let named = named(&page);
    let missing: Vec<_> = commands.iter().filter(|it| !named.contains(it.as_str())).collect();
    assert!(missing.is_empty(), "docs/protocol.md does not name the commands {missing:?}");
}

#[test]
fn every_event_is_in_the_page_with_its_fields() {
    let (page, events) = (read("../docs/protocol.md"), events());
    assert!(events.len() > 60, "{events:?}");
    assert!(events.iter().any(|(name, fields)| name == "delta" && *fields == ["text"]), "{events:?}");
    let named = named(&page);
    let fields = |(name, fields): &(String, Vec<String>)| {
        let all = std::iter::once(name.clone()).chain(fields.clone());
        all.filter(|it| !named.contains(it.as_str())).map(|it| format!("{name}: {it}")).collect::<Vec<_>>()
    };
    let missing: Vec<_> = events.iter().flat_map(fields).collect();
    assert!(missing.is_empty(), "docs/protocol.md does not name {missing:#?}");
}

#[test]
fn the_page_names_no_event_that_is_never_emitted() {
    let page = read("../docs/protocol.md");
    let known: BTreeSet<String> = events().into_iter().map(|(name, _)| name).collect();
    let (_, tables) = page.split_once("\n## Events\n").unwrap();
    let (tables, _) = tables.split_once("\n## ").unwrap();
    let rows = tables.lines().filter(|it| it.starts_with("| `"));
    let told = rows.flat_map(|it| it.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let unknown: Vec<_> = told.filter(|it| !known.contains(*it)).collect();
    assert!(unknown.is_empty(), "docs/protocol.md tells of events that there are not: {unknown:?}");
}
