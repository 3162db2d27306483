//! Which program says what is wrong with which project.

use linn_bus::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewest seconds that a run gets.
const MIN_TIMEOUT_S: u64 = 5;

/// What [`DiagnosticsPlugin`](crate::DiagnosticsPlugin) is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DiagnosticsConfig {
    /// After how many seconds a run is ended; at least 5.
    pub timeout_s: u64,
    /// The programs; of several that fit a folder the first is run.
    pub checks: Vec<Check>,
}

/// A program for projects that a file marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Name of the file that marks a project.
    pub marker: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Default for DiagnosticsConfig {
    fn default() -> Self {
        let check = |marker: &str, command: &[&str]| Check {
            marker: marker.to_owned(),
            command: command.iter().map(|it| (*it).to_owned()).collect(),
        };
        Self {
            timeout_s: 120,
            checks: vec![
                check("Cargo.toml", &["cargo", "check", "--quiet", "--all-targets", "--message-format=short"]),
                check("tsconfig.json", &["npx", "--no-install", "tsc", "--noEmit", "--pretty", "false"]),
                check("go.mod", &["go", "vet", "./..."]),
                check("pyproject.toml", &["ruff", "check", "--output-format=concise", "."]),
            ],
        }
    }
}

impl DiagnosticsConfig {
    pub(crate) fn timeout_s(&self) -> u64 {
        self.timeout_s.max(MIN_TIMEOUT_S)
    }

    /// Says what is wrong with values that cannot be meant.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let bad = |why: String| Err(Fault::msg(why).with_code("DIAGNOSTICS_CONFIG"));
        for check in &self.checks {
            if check.marker.is_empty() || check.marker.contains(['/', '\\']) {
                return bad(format!(
                    "`checks.marker` is the name of a file, without a folder, and not `{}`",
                    check.marker
                ));
            }
            if check.command.first().is_none_or(String::is_empty) {
                return bad(format!("`checks.command` for `{}` names no program", check.marker));
            }
        }
        Ok(())
    }
}
