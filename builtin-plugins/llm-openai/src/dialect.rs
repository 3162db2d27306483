//! What endpoints want beside the common wire, by their host and model.

use linn_services::llm::wire::{Endpoint, is_effort_off};
use serde_json::{Map, Value, json};

/// Whose wire an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// No fields beside the common ones: servers without a dialect refuse them.
    Plain,
    /// Takes `reasoning_effort`.
    Umans,
    /// `api.kimi.com`, `api.moonshot.ai`.
    Kimi,
    /// `api.deepseek.com`.
    DeepSeek,
    /// `api.z.ai` and `open.bigmodel.*`.
    Zhipu,
    /// `api.minimax.io`, `api.minimaxi.com`.
    MiniMax,
    /// A MiniMax model on another host.
    MiniMaxProxy,
}

impl Dialect {
    pub(crate) fn of(endpoint: &Endpoint, model: &str) -> Self {
        let host = endpoint.host();
        let is_loopback = matches!(&*host, "localhost" | "127.0.0.1" | "[::1]");
        match &*host {
            "umans.ai" => Self::Umans,
            it if it.ends_with(".umans.ai") => Self::Umans,
            _ if is_loopback && endpoint.path() == "/cursor/v1" => Self::Umans,
            "api.kimi.com" | "api.moonshot.ai" => Self::Kimi,
            "api.deepseek.com" => Self::DeepSeek,
            "api.z.ai" | "open.bigmodel.cn" | "open.bigmodel.com" => Self::Zhipu,
            "api.minimax.io" | "api.minimaxi.com" => Self::MiniMax,
            _ if model.to_ascii_lowercase().contains("minimax") => Self::MiniMaxProxy,
            _ => Self::Plain,
        }
    }

    /// Puts the fields for how hard to think into a body.
    pub(crate) fn put_effort(self, model: &str, effort: &str, body: &mut Map<String, Value>) {
        let model = model.to_ascii_lowercase();
        let is_off = is_effort_off(effort);
        let switch = |on: &str| json!({ "type": if is_off { "disabled" } else { on } });
        let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
        match self {
            Self::Plain => {}
            Self::Umans if effort.is_empty() => {}
            Self::Umans => put("reasoning_effort", effort.into()),
            Self::Kimi if model.contains("k3") => {
                let effort = match effort {
                    _ if is_off => "low",
                    it if it.eq_ignore_ascii_case("medium") => "high",
                    it => it,
                };
                put("reasoning_effort", effort.into());
            }
            Self::Kimi if model.contains("k2.7-code") || model.contains("for-coding") => {
                put("thinking", json!({ "type": "enabled", "keep": "all" }));
            }
            Self::Kimi => put("thinking", switch("enabled")),
            Self::DeepSeek => {
                if !is_off {
                    put("reasoning_effort", effort.into());
                }
                put("thinking", switch("enabled"));
            }
            Self::Zhipu => {
                put("thinking", switch("enabled"));
                if !is_off && model.contains("glm-5.2") {
                    put("reasoning_effort", effort.into());
                }
            }
            Self::MiniMax | Self::MiniMaxProxy => {
                put("thinking", switch("adaptive"));
                if self == Self::MiniMax && !is_off {
                    put("reasoning_split", true.into());
                }
            }
        }
    }

    /// Whether usage may be asked for in the stream.
    pub(crate) fn takes_stream_options(self) -> bool {
        self != Self::Zhipu
    }

    /// The field for the limit of an answer.
    pub(crate) fn max_tokens_field(self) -> &'static str {
        match self {
            Self::Kimi | Self::MiniMax | Self::MiniMaxProxy => "max_completion_tokens",
            Self::Plain | Self::Umans | Self::DeepSeek | Self::Zhipu => "max_tokens",
        }
    }

    /// How earlier thinking is sent back.
    pub(crate) fn thinking(self) -> EarlierThinking {
        match self {
            Self::Plain | Self::Umans => EarlierThinking::Dropped,
            Self::Kimi | Self::DeepSeek | Self::Zhipu | Self::MiniMax => EarlierThinking::Field,
            Self::MiniMaxProxy => EarlierThinking::Tags,
        }
    }
}

/// How earlier thinking is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlierThinking {
    /// Not at all.
    Dropped,
    /// As `reasoning_content`.
    Field,
    /// Between `<think>` tags before the text.
    Tags,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(url: &str, model: &str, effort: &str) -> Value {
        let endpoint = Endpoint::new("e", url, ["*"]);
        let mut body = Map::new();
        Dialect::of(&endpoint, model).put_effort(model, effort, &mut body);
        body.into()
    }

    #[test]
    fn each_host_is_told_how_hard_to_think_in_its_own_way() {
        let on = || json!({ "type": "enabled" });
        let off = || json!({ "thinking": { "type": "disabled" } });
        for (url, model, effort, expected) in [
            ("https://h.invalid/v1", "gpt", "high", json!({})),
            ("https://api.code.umans.ai/v1", "glm", "high", json!({ "reasoning_effort": "high" })),
            ("https://notumans.ai/v1", "glm", "high", json!({})),
            ("https://umans.ai/v1", "glm", "", json!({})),
            ("http://127.0.0.1:4000/cursor/v1/", "m", "low", json!({ "reasoning_effort": "low" })),
            ("http://127.0.0.1:4000/v1", "m", "low", json!({})),
            ("https://api.kimi.com/v1", "kimi-k3", "none", json!({ "reasoning_effort": "low" })),
            ("https://api.kimi.com/v1", "kimi-k3", "medium", json!({ "reasoning_effort": "high" })),
            ("https://api.kimi.com/v1", "kimi-k3", "low", json!({ "reasoning_effort": "low" })),
            (
                "https://api.kimi.com/v1",
                "kimi-for-coding",
                "",
                json!({ "thinking": { "type": "enabled", "keep": "all" } }),
            ),
            (
                "https://api.moonshot.ai/v1",
                "k2.7-code",
                "high",
                json!({ "thinking": { "type": "enabled", "keep": "all" } }),
            ),
            ("https://api.moonshot.ai/v1", "kimi-k2", "high", json!({ "thinking": on() })),
            ("https://api.moonshot.ai/v1", "kimi-k2", "none", off()),
            ("https://api.deepseek.com", "deepseek", "", off()),
            ("https://api.deepseek.com", "deepseek", "high", json!({ "reasoning_effort": "high", "thinking": on() })),
            ("https://api.z.ai/v4", "glm-5.2", "high", json!({ "reasoning_effort": "high", "thinking": on() })),
            ("https://open.bigmodel.cn/v4", "glm-5", "high", json!({ "thinking": on() })),
            ("https://open.bigmodel.com/v4", "glm-5.2", "none", off()),
            (
                "https://api.minimax.io/v1",
                "m",
                "high",
                json!({ "thinking": { "type": "adaptive" }, "reasoning_split": true }),
            ),
            ("https://api.minimaxi.com/v1", "m", "", off()),
            ("https://proxy.invalid/v1", "x/MiniMax-M2", "high", json!({ "thinking": { "type": "adaptive" } })),
        ] {
            assert_eq!(fields(url, model, effort), expected, "{url} {model} {effort}");
        }
    }
}
