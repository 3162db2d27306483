//! Which model a prompt is for.

use linn_services::llm::Llm;
use linn_services::providers::{ModelInfo, ProviderInfo, Providers};

use crate::bridge::Bridge;

/// The effort that is asked for if none is named.
pub(crate) const DEFAULT_EFFORT: &str = "medium";

/// A model and how hard it shall think.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) model: ModelInfo,
    /// The name under which the harness asks it.
    pub(crate) asked_as: String,
    pub(crate) effort: String,
}

/// What is said of a model that nobody describes.
fn undescribed(id: &str) -> ModelInfo {
    ModelInfo {
        id: id.to_owned(),
        name: id.to_owned(),
        reasoning: true,
        context_window: 200_000,
        max_tokens: 8_192,
        thinking_levels: Vec::new(),
        vision: false,
        provider: "default".to_owned(),
    }
}

impl Bridge {
    /// The models that can be asked.
    pub(crate) fn models(&self) -> Vec<ModelInfo> {
        if let Some(providers) = self.service::<dyn Providers>() {
            return providers.models().unwrap_or_default();
        }
        let models = self.service::<dyn Llm>().and_then(|it| it.models().ok()).unwrap_or_default();
        models.iter().filter(|it| !it.as_str().ends_with('*')).map(|it| undescribed(it.as_str())).collect()
    }

    /// The model that is asked for; `None` if nobody has it.
    pub(crate) fn route(&self, model: &str, provider: Option<&str>, effort: Option<&str>) -> Option<Choice> {
        let effort = effort.unwrap_or(DEFAULT_EFFORT).to_owned();
        if let Some(providers) = self.service::<dyn Providers>() {
            let model = providers.route(model, provider).ok().flatten()?;
            return Some(Choice { asked_as: model.qualified(), model, effort });
        }
        let known = self.service::<dyn Llm>()?.models().ok()?;
        let fits = |it: &str| it == model || it.strip_suffix('*').is_some_and(|start| model.starts_with(start));
        let is_known = !model.is_empty() && known.iter().any(|it| fits(it.as_str()));
        is_known.then(|| Choice { model: undescribed(model), asked_as: model.to_owned(), effort })
    }

    /// The provider that is asked first.
    pub(crate) fn active_provider(&self) -> ProviderInfo {
        let active = self.service::<dyn Providers>().and_then(|it| it.active().ok());
        active.unwrap_or_else(|| ProviderInfo {
            name: "default".to_owned(),
            kind: "openai".to_owned(),
            base_url: String::new(),
            has_key: false,
            is_logged_in: false,
        })
    }
}
