//! The flags of a command line that are configuration. Others belong to someone else and are passed over.

use std::sync::Arc;

use crate::key::{Declaration, Kind};
use crate::keys;
use crate::node::Node;
use crate::origin::Place;
use crate::problem::Problem;

/// What the command line says, in its order.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// `--config FILE`: read instead of the files of existing clients.
    pub(crate) client_file: Option<String>,
    /// Flags of existing clients.
    pub(crate) client: Vec<(&'static Declaration, Node)>,
    /// `--set KEY=VALUE`.
    pub(crate) set: Vec<(String, Node)>,
    /// `--plugin TABLE`, `--enable ID` and `--disable ID`.
    pub(crate) entries: Vec<EntryFlag>,
}

/// A flag that concerns an entry of the plugin tree.
#[derive(Debug)]
pub(crate) enum EntryFlag {
    /// The entry as a table of TOML.
    Table(Node),
    /// Disabled, or enabled, by its id.
    Switch { id: String, is_disabled: bool, place: Place },
}

impl Arguments {
    /// Reads the flags up to an argument `--`.
    pub(crate) fn read(arguments: &[String], problems: &mut Vec<Problem>) -> Self {
        let mut read = Self::default();
        let mut rest = arguments.iter().take_while(|it| *it != "--");
        while let Some(argument) = rest.next() {
            let (flag, inline) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let Some(known) = Known::find(flag) else {
                continue;
            };
            let place = Place::Flag(Arc::from(flag));
            if let Known::Switch(key, is_on) = known {
                let text = inline.unwrap_or_else(|| "true".to_owned());
                // A value given to the opposite flag means the opposite.
                let text = match (is_on, text.as_str()) {
                    (false, "true") => "false".to_owned(),
                    (false, "false") => "true".to_owned(),
                    _ => text,
                };
                read.client.push((key, Node::text(text, place)));
                continue;
            }
            let Some(value) = inline.or_else(|| rest.next().cloned()) else {
                problems.push(Problem::MissingValue { flag: flag.to_owned(), expected: known.expected() });
                continue;
            };
            read.take(known, value, place, problems);
        }
        read
    }

    fn take(&mut self, known: Known, value: String, place: Place, problems: &mut Vec<Problem>) {
        match known {
            Known::Config => self.client_file = Some(value),
            Known::Client(key) | Known::Switch(key, _) => self.client.push((key, Node::text(value, place))),
            Known::Set => match value.split_once('=') {
                Some((key, value)) => self.set.push((key.trim().to_owned(), Node::text(value, place))),
                None => {
                    problems.push(Problem::MissingValue { flag: format!("--set {value}"), expected: known.expected() })
                }
            },
            Known::Plugin => match crate::read_toml::read_value(&place, &value) {
                Ok(node) => self.entries.push(EntryFlag::Table(node)),
                Err(problem) => problems.push(problem),
            },
            Known::Enable(is_enabled) => {
                self.entries.push(EntryFlag::Switch { id: value, is_disabled: !is_enabled, place });
            }
        }
    }
}

/// The flags that are configuration.
#[derive(Debug, Clone, Copy)]
enum Known {
    Config,
    Client(&'static Declaration),
    Switch(&'static Declaration, bool),
    Set,
    Plugin,
    Enable(bool),
}

impl Known {
    fn find(flag: &str) -> Option<Self> {
        match flag {
            "--config" => return Some(Self::Config),
            "--set" => return Some(Self::Set),
            "--plugin" => return Some(Self::Plugin),
            "--enable" => return Some(Self::Enable(true)),
            "--disable" => return Some(Self::Enable(false)),
            _ => {}
        }
        keys::all().iter().find_map(|key| match (key.kind, key.client.flag, key.client.opposite_flag) {
            (Kind::Bool, Some(it), _) if it == flag => Some(Self::Switch(key, true)),
            (Kind::Bool, _, Some(it)) if it == flag => Some(Self::Switch(key, false)),
            (_, Some(it), _) if it == flag => Some(Self::Client(key)),
            _ => None,
        })
    }

    fn expected(self) -> String {
        match self {
            Self::Config => "a path".to_owned(),
            Self::Client(key) | Self::Switch(key, _) => key.expected(),
            Self::Set => "KEY=VALUE".to_owned(),
            Self::Plugin => "an entry of the plugin tree, as `{id = \"..\", ..}`".to_owned(),
            Self::Enable(_) => "the id of an entry of the plugin tree".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags read from `line`, then what is wrong with it.
    fn check(line: &str, expected: &str) {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut problems = Vec::new();
        let read = Arguments::read(&arguments, &mut problems);
        let mut seen: Vec<String> = read.client_file.iter().map(|it| format!("config {it}")).collect();
        seen.extend(read.client.iter().map(|(key, it)| format!("{} {}", key.name, it.shown())));
        seen.extend(read.set.iter().map(|(key, it)| format!("set {key} {}", it.shown())));
        seen.extend(read.entries.iter().map(|it| match it {
            EntryFlag::Table(node) => node.shown(),
            EntryFlag::Switch { id, is_disabled, .. } => format!("{id} {is_disabled}"),
        }));
        seen.extend(problems.iter().map(ToString::to_string));
        assert_eq!(seen.join("; "), expected, "{line}");
    }

    #[test]
    fn wp_3_2_flags_of_clients_are_known() {
        check(
            "--approval always --no-network --bash-timeout 9",
            r#"approval "always"; sandbox.no_network "true"; shell.timeout_secs "9""#,
        );
        check("--approval=always --config a.json", r#"config a.json; approval "always""#);
        check(
            "--trust-project-plugins --no-trust-project-plugins",
            r#"script_plugins.trust_project "true"; script_plugins.trust_project "false""#,
        );
    }

    #[test]
    fn wp_3_1_unknown_flags_are_passed_over() {
        check("serve --frobnicate 1 --model m -x --also=2", r#"model "m""#);
        check("--model m -- --model n", r#"model "m""#);
    }

    #[test]
    fn a_flag_without_its_value_is_a_problem() {
        check("--model", "--model needs a value: text that is not empty");
        check("--set shell.timeout_secs", "--set shell.timeout_secs needs a value: KEY=VALUE");
    }

    #[test]
    fn flags_of_linn_are_known() {
        check("--set a.b=c=d --disable git --enable web", r#"set a.b "c=d"; git true; web false"#);
        check("--plugin {id='a'}", r#"{id = "a"}"#);
        check("--plugin {id=", "--plugin: unclosed inline table, expected `}`");
    }
}
