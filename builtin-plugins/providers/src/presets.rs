//! What one can log in to with a key.

use linn_services::providers::ProviderSpec;
use secrecy::SecretString;

/// The wire most endpoints speak.
pub(crate) const OPENAI: &str = "openai";

/// The wire of Claude models.
pub(crate) const ANTHROPIC: &str = "anthropic";

/// An endpoint known by name.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) id: &'static str,
    pub(crate) label: &'static str,
    pub(crate) base_url: &'static str,
    /// The variable that may hold a key; empty if none is needed.
    pub(crate) env: &'static str,
    pub(crate) description: &'static str,
    /// A second provider at the same address, which speaks the wire of Claude models.
    pub(crate) twin: Option<&'static str>,
}

/// All of them. Other endpoints are added by their address, and plugins bring those that need more than a key.
pub(crate) const PRESETS: &[Preset] = &[
    Preset {
        id: "umans",
        label: "Umans (GLM-5.2)",
        base_url: "https://api.code.umans.ai/v1",
        env: "UMANS_API_KEY",
        description: "Coding models of Umans, by plan",
        twin: None,
    },
    Preset {
        id: "opencode-go",
        label: "OpenCode Go",
        base_url: "https://opencode.ai/zen/go/v1",
        env: "OPENCODE_GO_API_KEY",
        description: "Open models of OpenCode, by subscription",
        twin: Some("opencode-go-anthropic"),
    },
    Preset {
        id: "openrouter",
        label: "OpenRouter",
        base_url: "https://openrouter.ai/api/v1",
        env: "OPENROUTER_API_KEY",
        description: "Models of many vendors behind one key",
        twin: None,
    },
    Preset {
        id: "deepseek",
        label: "DeepSeek",
        base_url: "https://api.deepseek.com",
        env: "DEEPSEEK_API_KEY",
        description: "Models of DeepSeek, by use",
        twin: None,
    },
];

impl Preset {
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|it| it.id == id)
    }

    /// The providers that a login configures, the one to be active first.
    pub(crate) fn specs(&self, key: Option<&SecretString>) -> Vec<ProviderSpec> {
        let spec = |name: &str, kind: &str| ProviderSpec {
            name: name.to_owned(),
            base_url: self.base_url.to_owned(),
            kind: kind.to_owned(),
            api_key: key.cloned(),
            api_key_env: Some(self.env.to_owned()),
            ..ProviderSpec::default()
        };
        let twin = self.twin.map(|name| spec(name, ANTHROPIC));
        std::iter::once(spec(self.id, OPENAI)).chain(twin).collect()
    }
}

/// The providers that come and go together with the one of this name, itself first.
pub(crate) fn family(name: &str) -> Vec<&str> {
    let preset = PRESETS.iter().find(|it| it.id == name || it.twin == Some(name));
    let others = preset.into_iter().flat_map(|it| std::iter::once(it.id).chain(it.twin)).filter(|it| *it != name);
    std::iter::once(name).chain(others).collect()
}
