//! Which tools wait.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The word for all that can be loaded.
pub(crate) const ALL: &str = "all";

/// What [`LoadToolsPlugin`](crate::LoadToolsPlugin) is configured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoadToolsConfig {
    /// Tools that are loaded together, by the name of their group.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Tools that are loaded by their own name.
    pub single: Vec<String>,
}

impl Default for LoadToolsConfig {
    fn default() -> Self {
        let group = |name: &str, tools: &[&str]| (name.to_owned(), tools.iter().map(|it| (*it).to_owned()).collect());
        Self {
            groups: [
                group("bulk", &["bulk", "bulk_read", "bulk_write", "bulk_edit"]),
                group("git", &["git_status", "git_diff", "git_log", "git_add", "git_commit"]),
                group("web", &["fetch", "web_search"]),
            ]
            .into(),
            single: ["diagnostics", "spawn", "workspace_activity", "test_env"].map(str::to_owned).to_vec(),
        }
    }
}

impl LoadToolsConfig {
    /// Whether a tool waits until it is loaded.
    pub(crate) fn waits(&self, tool: &str) -> bool {
        self.single.iter().chain(self.groups.values().flatten()).any(|it| it == tool)
    }

    /// The tools that a name stands for: a group, all, or a tool itself. Nothing if it stands for none that waits.
    pub(crate) fn expand(&self, name: &str) -> Vec<&str> {
        if name == ALL {
            return self.single.iter().chain(self.groups.values().flatten()).map(String::as_str).collect();
        }
        if let Some(tools) = self.groups.get(name) {
            return tools.iter().map(String::as_str).collect();
        }
        let all = self.single.iter().chain(self.groups.values().flatten());
        all.filter(|it| *it == name).take(1).map(String::as_str).collect()
    }

    /// The names of groups, and the word for all.
    pub(crate) fn group_names(&self) -> String {
        let names: BTreeSet<&str> = self.groups.keys().map(String::as_str).collect();
        names.into_iter().chain([ALL]).collect::<Vec<_>>().join(", ")
    }

    /// What the model learns of what can be loaded.
    pub(crate) fn description(&self) -> String {
        let groups = self.groups.iter().map(|(name, tools)| format!("{name} ({})", tools.join(", ")));
        let all = groups.chain(self.single.iter().cloned()).collect::<Vec<_>>().join("; ");
        format!(
            "Makes more tools available from the next answer on, for the rest of the session. Name groups or tools, or \
             `{ALL}`. There are, as far as they are installed: {all}."
        )
    }
}
