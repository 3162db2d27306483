//! `linn events`: every event there is.

use linn::bus::event_catalogue;
use serde_json::json;

use crate::cli::terminal::Terminal;

/// Lists the events that are declared in the program, by name.
pub(crate) fn events(json: bool, terminal: &Terminal) {
    let mut all = event_catalogue();
    all.retain(|it| !it.name.starts_with("internal/"));
    all.sort_by_key(|it| it.name);
    let summary = |docs: &str| docs.trim().lines().next().unwrap_or_default().trim().to_owned();
    if json {
        let shown = all.iter().map(|it| {
            json!({
                "name": it.name, "mode": it.mode.to_string(), "scoped": it.scoped, "output": it.output,
                "type": it.type_path, "crate": it.krate, "summary": summary(it.docs),
            })
        });
        let shown: serde_json::Value = shown.collect();
        return terminal.plain(&format!("{shown:#}"));
    }
    for it in all {
        let scope = if it.scoped { ", scoped" } else { "" };
        terminal.say(&format!("{}  {}{scope}", it.name, it.mode));
        terminal.explain(&format!("    {}", summary(it.docs)));
    }
}
