//! Skills, agents, memory and plugins.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::bare;

bare! {
    ListSkills ListAgents ListMemory RefreshMemory ListPlugins ReloadPlugins ListPluginCommands PluginTrustPrompt
    ListMarketplaceSkills AcceptSkillDisclaimer
}

/// Declares commands that name a plugin.
macro_rules! named {
    ($($name:ident)*) => {$(
        #[derive(Deserialize)]
        pub(crate) struct $name {
            pub(crate) name: String,
        }
    )*};
}

named! { RemovePlugin EnablePlugin DisablePlugin }

#[derive(Deserialize)]
pub(crate) struct InstallPlugin {
    pub(crate) path: String,
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct PluginTrustDecisions {
    pub(crate) decisions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(crate) struct PluginCommand {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) args: String,
}

#[derive(Deserialize)]
pub(crate) struct SaveMemory {
    pub(crate) text: String,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ForgetMemory {
    pub(crate) id: String,
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the field is checked, and there is no marketplace yet")]
pub(crate) struct SearchMarketplaceSkills {
    query: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are checked, and there is no marketplace yet")]
pub(crate) struct InstallMarketplaceSkill {
    source: String,
    name: String,
    scope: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are checked, and there is no marketplace yet")]
pub(crate) struct UpdateMarketplaceSkill {
    name: String,
    scope: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are checked, and there is no marketplace yet")]
pub(crate) struct RemoveMarketplaceSkill {
    name: String,
    scope: String,
}
