//! What a call is about, as rules see it.

use linn_bus::Svc;
use linn_services::fs::Fs;
use linn_services::tools::ToolClass;
use serde_json::Value;

use crate::command::{self, Line, SimpleCommand, Unclear};

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Name of the tool in small letters.
    pub(crate) tool: String,
    /// Whether the tool changes anything; `None` if there is no such tool.
    pub(crate) class: Option<ToolClass>,
    /// The command line, as it was written.
    pub(crate) command: Option<String>,
    /// Why it cannot be told what the command line runs.
    pub(crate) unclear: Option<Unclear>,
    /// What rules are held against. To be allowed, a call has each of them allowed.
    pub(crate) units: Vec<Unit>,
}

/// One thing that a call is about.
#[derive(Debug, Clone)]
pub(crate) enum Unit {
    /// It runs this.
    Command(SimpleCommand),
    /// It reads or changes this.
    Path(PathUnit),
    /// It looks for this.
    Text(String),
    /// It is about nothing that a rule could name.
    Whole,
}

/// A path of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathUnit {
    /// As it was written.
    pub(crate) written: String,
    /// Without `.` and empty parts; `..` takes the part before it away.
    pub(crate) plain: String,
    /// It went up somewhere.
    pub(crate) goes_up: bool,
    /// Where it leads when links are followed, if that is known.
    pub(crate) resolved: Option<String>,
}

impl PathUnit {
    fn new(written: &str) -> Self {
        let mut parts: Vec<&str> = Vec::new();
        let mut goes_up = false;
        for part in written.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    goes_up = true;
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        let root = if written.starts_with('/') { "/" } else { "" };
        let plain = format!("{root}{}", parts.join("/"));
        Self { written: written.to_owned(), plain, goes_up, resolved: None }
    }
}

impl Subject {
    /// Reads the arguments of a call.
    pub(crate) fn of(tool: &str, class: Option<ToolClass>, arguments: &Value) -> Self {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        let mut subject = Self {
            tool: tool.to_lowercase(),
            class,
            command: text("command").map(str::to_owned),
            unclear: None,
            units: Vec::new(),
        };
        if let Some(line) = &subject.command {
            match command::read(line) {
                Line::Simple(commands) => subject.units.extend(commands.into_iter().map(Unit::Command)),
                Line::Unclear(why) => subject.unclear = Some(why),
            }
        }
        let paths = ["path", "from", "to"].into_iter().filter_map(text).chain(listed_paths(arguments));
        subject.units.extend(paths.map(|it| Unit::Path(PathUnit::new(it))));
        if subject.units.is_empty() && subject.unclear.is_none() {
            subject.units.push(text("pattern").map_or(Unit::Whole, |it| Unit::Text(it.to_owned())));
        }
        subject
    }

    /// Looks where its paths lead.
    pub(crate) async fn resolve(&mut self, fs: &Svc<dyn Fs>) {
        for unit in &mut self.units {
            if let Unit::Path(path) = unit {
                // A path that cannot be resolved is refused by the tool, or is none of the workspace.
                path.resolved = fs.resolve(&path.written).await.ok().map(|it| it.display_path);
            }
        }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathUnit> {
        self.units.iter().filter_map(|it| if let Unit::Path(path) = it { Some(path) } else { None })
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = &SimpleCommand> {
        self.units.iter().filter_map(|it| if let Unit::Command(command) = it { Some(command) } else { None })
    }
}

/// Paths in lists: of names, and of objects that have one each.
fn listed_paths(arguments: &Value) -> impl Iterator<Item = &str> {
    let list = |key: &str| arguments.get(key).and_then(Value::as_array).into_iter().flatten();
    let named = list("paths").filter_map(Value::as_str);
    let keys = ["path", "from", "to"];
    let of_objects = ["files", "edits", "paths"].into_iter().flat_map(list);
    named.chain(of_objects.flat_map(move |it| keys.into_iter().filter_map(move |key| it.get(key)?.as_str())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_found_wherever_tools_have_them() {
        for (arguments, paths) in [
            (json!({ "path": "./a//b/../c" }), vec!["a/c"]),
            (json!({ "from": "a", "to": "b" }), vec!["a", "b"]),
            (json!({ "paths": ["a", "b"] }), vec!["a", "b"]),
            (json!({ "files": [{ "path": "a", "content": "" }] }), vec!["a"]),
            (json!({ "edits": [{ "path": "a" }, { "search": "b" }] }), vec!["a"]),
            (json!({ "path": "/etc/x" }), vec!["/etc/x"]),
        ] {
            let subject = Subject::of("t", None, &arguments);
            let found: Vec<_> = subject.paths().map(|it| it.plain.as_str()).collect();
            assert_eq!(found, paths, "{arguments}");
        }
        assert!(Subject::of("t", None, &json!({ "path": "a/../b" })).paths().next().unwrap().goes_up);
    }

    #[test]
    fn a_call_is_about_something_in_any_case() {
        assert!(matches!(Subject::of("t", None, &json!({})).units[..], [Unit::Whole]));
        assert!(matches!(Subject::of("t", None, &json!({ "pattern": "x" })).units[..], [Unit::Text(_)]));
        let unclear = Subject::of("t", None, &json!({ "command": "$(a)" }));
        assert!(unclear.units.is_empty() && unclear.unclear.is_some());
    }
}
