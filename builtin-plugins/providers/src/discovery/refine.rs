//! What is made of what is told of a model: gaps are filled, then the user's word counts, then nonsense is put right.

use std::collections::HashSet;

use linn_services::providers::{ModelInfo, ProviderSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::curated::known;
use super::{Listed, ToldModel, count, first_words, text};

/// What is taken for the window of a model nobody knows.
const CONTEXT_WINDOW: u64 = 200_000;

/// What is taken for its longest answer.
const MAX_TOKENS: u64 = 8192;

/// The longest answer that is made up for a model whose own is nonsense.
const MAX_MADE_UP: u64 = 65_536;

/// A model without gaps, and without what the user says of it: what is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownModel {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) reasoning: bool,
    pub(crate) context_window: u64,
    pub(crate) max_tokens: u64,
    pub(crate) thinking_levels: Vec<String>,
    pub(crate) vision: bool,
}

/// Whether neither the endpoint nor this program knows the sizes of a model.
fn is_generic(told: &ToldModel, curated: Option<&ToldModel>) -> bool {
    told.context_window.is_none() && told.max_tokens.is_none() && curated.is_none()
}

/// Fills the gaps: by what is known of the vendor, else by `list`, which is asked for models whose sizes nobody knows.
pub(crate) fn resolve(spec: &ProviderSpec, told: ToldModel, list: impl FnOnce(&str) -> Option<Listed>) -> KnownModel {
    let curated = known(spec, &told.id);
    let listed = if is_generic(&told, curated.as_ref()) { list(&told.id) } else { None }.unwrap_or_default();
    let curated = curated.unwrap_or_default();
    KnownModel {
        name: told.name.or(curated.name).or(listed.name).unwrap_or_else(|| told.id.clone()),
        reasoning: told.reasoning.or(curated.reasoning).or(listed.reasoning).unwrap_or(true),
        context_window: told
            .context_window
            .or(curated.context_window)
            .or(listed.context_window)
            .unwrap_or(CONTEXT_WINDOW),
        max_tokens: told.max_tokens.or(curated.max_tokens).or(listed.max_tokens).unwrap_or(MAX_TOKENS),
        thinking_levels: told.thinking_levels.or(curated.thinking_levels).unwrap_or_default(),
        vision: told.vision.or(curated.vision).or(listed.vision).unwrap_or(false),
        id: told.id,
    }
}

/// The models of a provider as they are offered: with what the user says of them, each once, and with sizes that can be.
pub(crate) fn finish(spec: &ProviderSpec, models: Vec<KnownModel>) -> Vec<ModelInfo> {
    let mut seen = HashSet::new();
    let mut finished: Vec<ModelInfo> = Vec::new();
    let listed = models.into_iter().map(|it| info(spec, it));
    let added = spec.models_override.iter().filter(|(id, _)| !id.is_empty()).map(|(id, _)| {
        let told = ToldModel { id: id.clone(), ..ToldModel::default() };
        info(spec, resolve(spec, told, |_| None))
    });
    for mut model in listed.chain(added) {
        if !seen.insert(model.id.clone()) {
            continue;
        }
        if let Some(window) = spec.context_window.filter(|it| *it > 0) {
            model.context_window = window;
        }
        if let Some((_, said)) = spec.models_override.iter().find(|(id, _)| *id == model.id) {
            overrule(&mut model, said);
        }
        finished.push(sane(model));
    }
    finished
}

fn info(spec: &ProviderSpec, model: KnownModel) -> ModelInfo {
    ModelInfo {
        id: model.id,
        name: model.name,
        reasoning: model.reasoning,
        context_window: model.context_window,
        max_tokens: model.max_tokens,
        thinking_levels: model.thinking_levels,
        vision: model.vision,
        provider: spec.name.clone(),
    }
}

fn overrule(model: &mut ModelInfo, said: &Map<String, Value>) {
    let said = &Value::Object(said.clone());
    let field = |names: [&str; 2]| names.iter().find_map(|it| said.get(it));
    if let Some(window) = count(field(["context_window", "contextWindow"])) {
        model.context_window = window;
    }
    if let Some(max_tokens) = count(field(["max_tokens", "maxTokens"])) {
        model.max_tokens = max_tokens;
    }
    if let Some(levels) = first_words(said, &["thinking_levels", "thinkingLevels"]) {
        model.thinking_levels = levels;
    }
    if let Some(reasoning) = said.get("reasoning").and_then(Value::as_bool) {
        model.reasoning = reasoning;
    }
    if let Some(vision) = said.get("vision").and_then(Value::as_bool) {
        model.vision = vision;
    }
    if let Some(name) = text(said.get("name")) {
        model.name = name;
    }
}

fn sane(mut model: ModelInfo) -> ModelInfo {
    if model.context_window == 0 {
        model.context_window = CONTEXT_WINDOW;
    }
    let window = model.context_window;
    if model.max_tokens == 0 || model.max_tokens >= window {
        model.max_tokens = (window / 4 * 3).min(MAX_MADE_UP).min(window - 1);
    }
    model
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(id: &str) -> ToldModel {
        ToldModel { id: id.to_owned(), ..ToldModel::default() }
    }

    fn spec(base_url: &str) -> ProviderSpec {
        ProviderSpec {
            name: "p".to_owned(),
            base_url: base_url.to_owned(),
            kind: "openai".to_owned(),
            ..ProviderSpec::default()
        }
    }

    #[test]
    fn wp_8_6_an_unknown_model_has_generic_sizes() {
        let model = resolve(&spec("https://h"), told("m"), |_| None);
        assert_eq!((model.context_window, model.max_tokens, model.reasoning), (200_000, 8192, true));
        assert_eq!((&*model.name, model.vision), ("m", false));
    }

    #[test]
    fn wp_8_6_the_public_list_is_for_models_nobody_knows() {
        let listed = |_: &str| Some(Listed { context_window: Some(1), max_tokens: Some(2), ..Listed::default() });
        let sizes = |told: ToldModel, url: &str| {
            let model = resolve(&spec(url), told, listed);
            (model.context_window, model.max_tokens)
        };
        assert_eq!(sizes(told("m"), "https://h"), (1, 2));
        assert_eq!(sizes(ToldModel { max_tokens: Some(9), ..told("m") }, "https://h"), (200_000, 9), "partly told");
        assert_eq!(sizes(told("deepseek-chat"), "https://api.deepseek.com"), (131_072, 8192));
        let named = ToldModel { name: Some("N".into()), vision: Some(false), ..told("m") };
        let listed = Listed { name: Some("L".into()), vision: Some(true), ..Listed::default() };
        let model = resolve(&spec("https://h"), named, |_| Some(listed));
        assert_eq!((&*model.name, model.vision), ("N", false), "what the endpoint says wins");
    }

    #[test]
    fn wp_8_6_the_word_of_the_user_wins() {
        let said = json!({ "contextWindow": 7000, "max_tokens": 70, "reasoning": false, "thinking_levels": ["x"], "vision": true });
        let spec = ProviderSpec {
            context_window: Some(5000),
            models_override: vec![("a".to_owned(), said.as_object().unwrap().clone()), ("new".to_owned(), Map::new())],
            ..spec("https://h")
        };
        let models = ["a", "b", "a"].map(|it| resolve(&spec, told(it), |_| None)).to_vec();
        let models = finish(&spec, models);
        let sizes: Vec<_> = models.iter().map(|it| (&*it.id, it.context_window, it.max_tokens)).collect();
        assert_eq!(sizes, [("a", 7000, 70), ("b", 5000, 3750), ("new", 5000, 3750)]);
        assert_eq!((models[0].reasoning, models[0].vision), (false, true));
        assert_eq!(models[0].thinking_levels, ["x"]);
        assert!(models.iter().all(|it| it.provider == "p"));
    }

    #[test]
    fn wp_8_6_sizes_that_cannot_be_are_put_right() {
        let finished = |context_window, max_tokens| {
            let model = KnownModel { context_window, max_tokens, ..resolve(&spec("https://h"), told("m"), |_| None) };
            let models = finish(&spec("https://h"), vec![model]);
            (models[0].context_window, models[0].max_tokens)
        };
        assert_eq!(finished(0, 100), (200_000, 100));
        assert_eq!(finished(8192, 0), (8192, 6144));
        assert_eq!(finished(8192, 8192), (8192, 6144));
        assert_eq!(finished(1_000_000, 1_000_000), (1_000_000, 65_536));
        assert_eq!(finished(1, 5), (1, 0));
    }
}
