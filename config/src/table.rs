//! The table of keys for the documentation.

use std::fmt::Write as _;

use crate::key::{Declaration, Initial, Kind};
use crate::keys;

/// All keys as Markdown: for each what it is for, its values, its default, who may set it, and what existing clients
/// call
/// it.
pub fn key_table() -> String {
    let mut page = String::new();
    for key in keys::all() {
        // Writing to a string cannot fail.
        let _ = write_key(&mut page, key);
    }
    page
}

fn write_key(page: &mut String, key: &Declaration) -> std::fmt::Result {
    writeln!(page, "### `{}`\n", key.name)?;
    let doc = key.doc.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    writeln!(page, "{}\n", doc.trim().replace(". ", ".\n"))?;
    let base = match key.kind {
        Kind::Path { base: crate::key::Base::Start } => "; a relative one begins where the program was started",
        Kind::Path { base: crate::key::Base::Workspace } => "; a relative one begins in the workspace",
        _ => "",
    };
    writeln!(page, "- Value: {}{base}", key.expected())?;
    writeln!(page, "- Default: {}", initial(key))?;
    writeln!(page, "- Set by: {}", key.who.name())?;
    writeln!(page, "- Variable: `{}`", key.linn_variable())?;
    let client = client_names(key);
    if !client.is_empty() {
        writeln!(page, "- Existing clients: {}", client.join(", "))?;
    }
    writeln!(page)
}

fn initial(key: &Declaration) -> String {
    match key.initial {
        Initial::Absent => "none".to_owned(),
        Initial::Bool(it) => format!("`{it}`"),
        Initial::Integer(it) => format!("`{it}`"),
        Initial::Number(it) => format!("`{it}`"),
        Initial::Text(it) => format!("`\"{it}\"`"),
        Initial::List(it) => format!("`{}`", serde_json::Value::from_iter(it.iter().copied())),
    }
}

fn client_names(key: &Declaration) -> Vec<String> {
    let mut names: Vec<String> = key.client.keys.iter().map(|it| format!("key `{it}`")).collect();
    names.extend([key.client.flag, key.client.opposite_flag].into_iter().flatten().map(|it| format!("flag `{it}`")));
    names.extend(key.client.variable.map(|it| format!("variable `{it}`")));
    names.extend(key.client.command.map(|it| format!("`set_config` `{it}`")));
    names
}
