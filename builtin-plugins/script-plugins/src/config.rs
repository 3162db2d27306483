//! What can be set about script plugins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::system::own_environment;

/// What can be set about script plugins. A repository may set none of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ScriptPluginsConfig {
    /// The folder that the harness works for, an absolute path; without one there are no plugins of a workspace.
    pub workspace: Option<PathBuf>,
    /// Where the plugins of the workspace are; a relative path begins at the workspace.
    pub dir: PathBuf,
    /// Plugins that do not run until they are enabled, by name.
    pub disabled: Vec<String>,
    /// Whether every plugin that a repository brings may run. By default `CATALYST_CODE_TRUST_PROJECT_PLUGINS` decides.
    pub trust_project: Option<bool>,
    /// The environment of the harness as scripts are given parts of it; by default that of its process.
    pub environment: Option<BTreeMap<String, String>>,
    /// Where releases are asked for.
    pub github_api: String,
}

impl Default for ScriptPluginsConfig {
    fn default() -> Self {
        Self {
            workspace: None,
            dir: ".catalyst-code/plugins".into(),
            disabled: Vec::new(),
            trust_project: None,
            environment: None,
            github_api: "https://api.github.com".to_owned(),
        }
    }
}

/// The variable that trusts every plugin of a repository.
const TRUST: &str = "CATALYST_CODE_TRUST_PROJECT_PLUGINS";

/// The config with what it leaves to the system.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) config: ScriptPluginsConfig,
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

impl Setting {
    pub(crate) fn new(config: ScriptPluginsConfig) -> Self {
        let given = config.environment.as_ref();
        let environment = given.map(|it| it.iter().map(|(name, value)| (name.into(), value.into())).collect());
        Self { environment: environment.unwrap_or_else(own_environment), config }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(std::ffi::OsStr::new(name)).and_then(|it| it.to_str())
    }

    /// The folder of the user, if there is one.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        let set = |name| self.variable(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        set("HOME").or_else(|| set("USERPROFILE"))
    }

    pub(crate) fn workspace(&self) -> Option<&Path> {
        self.config.workspace.as_deref()
    }

    /// The workspace as scripts are told it.
    pub(crate) fn workspace_text(&self) -> String {
        self.workspace().map(|it| it.display().to_string()).unwrap_or_default()
    }

    /// Whether every plugin of a repository may run.
    pub(crate) fn trusts_project(&self) -> bool {
        self.config.trust_project.unwrap_or_else(|| {
            self.variable(TRUST).is_some_and(|it| matches!(it.to_ascii_lowercase().as_str(), "" | "1" | "true"))
        })
    }

    /// Where the plugins of the user are.
    pub(crate) fn global_root(&self) -> Option<PathBuf> {
        self.home().map(|it| it.join(".catalyst-code/plugins"))
    }

    /// Where the plugins of the workspace are.
    pub(crate) fn workspace_root(&self) -> Option<PathBuf> {
        match self.workspace() {
            Some(workspace) => Some(workspace.join(&self.config.dir)),
            None => self.config.dir.is_absolute().then(|| self.config.dir.clone()),
        }
    }

    /// Where what the user decided is kept.
    pub(crate) fn kept_folder(&self) -> Option<PathBuf> {
        self.home().map(|it| it.join(".config/catalyst-code"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_2_3_the_variable_trusts_when_it_is_empty_or_says_so() {
        for (value, trusts) in
            [(Some(""), true), (Some("1"), true), (Some("TRUE"), true), (Some("yes"), false), (None, false)]
        {
            let environment = value.map(|it| (TRUST.to_owned(), it.to_owned())).into_iter().collect();
            let config = ScriptPluginsConfig { environment: Some(environment), ..ScriptPluginsConfig::default() };
            assert_eq!(Setting::new(config.clone()).trusts_project(), trusts, "{value:?}");
            let said = ScriptPluginsConfig { trust_project: Some(!trusts), ..config };
            assert_eq!(Setting::new(said).trusts_project(), !trusts, "the config is asked before the variable");
        }
    }
}
