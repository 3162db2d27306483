//! Lists of models of OpenAI-compatible endpoints.

use serde_json::Value;

use super::{ToldModel, count, first_count, first_words, text, words};

const LEVELS: &[&str] = &["thinking_levels", "reasoning_levels", "reasoning_efforts"];

/// The answer of `models/info`: an object of models by id. Empty if it is anything else.
pub(crate) fn info_map(answer: &Value) -> Vec<ToldModel> {
    let Some(models) = answer.as_object() else { return Vec::new() };
    // A list in the manner of `models`, or an error, is an object too.
    if models.get("data").is_some_and(Value::is_array) {
        return Vec::new();
    }
    models.iter().filter(|(id, told)| *id != "error" && told.is_object()).map(|(id, told)| info(id, told)).collect()
}

fn info(id: &str, told: &Value) -> ToldModel {
    let capabilities = told.get("capabilities").filter(|it| it.is_object()).unwrap_or(told);
    let reasoning = capabilities.get("reasoning");
    let is_supported = reasoning.and_then(|it| it.get("supported").unwrap_or(it).as_bool());
    let levels = reasoning.and_then(|it| words(it.get("levels"))).or_else(|| first_words(capabilities, LEVELS));
    ToldModel {
        id: id.to_owned(),
        name: text(told.get("display_name")),
        context_window: first_count(capabilities, &["context_window", "context_length"]),
        max_tokens: first_count(capabilities, &["recommended_max_tokens", "max_completion_tokens", "max_tokens"]),
        reasoning: is_supported.or_else(|| levels.as_ref().filter(|it| !it.is_empty()).map(|_| true)),
        thinking_levels: levels,
        // Some say in words that another model looks for it.
        vision: capabilities.get("supports_vision").map(|it| *it == Value::Bool(true)),
    }
}

/// The answer of `models`: a list, by itself or below `data` or `models`.
pub(crate) fn list(answer: &Value) -> Vec<ToldModel> {
    let below = ["data", "models"].iter().find_map(|it| answer.get(it)?.as_array());
    let Some(models) = answer.as_array().or(below) else { return Vec::new() };
    models.iter().filter_map(listed).collect()
}

fn listed(told: &Value) -> Option<ToldModel> {
    let id = text(told.get("id")).or_else(|| text(Some(told)))?;
    let modalities = words(told.get("input_modalities"))
        .or_else(|| words(told.get("architecture").and_then(|it| it.get("input_modalities"))));
    let levels = first_words(told, &["reasoning_levels", "thinking_levels"]);
    let parameters = words(told.get("supported_parameters"));
    let can_reason = parameters.map(|it| it.iter().any(|it| it == "reasoning"));
    let provider = told.get("top_provider");
    Some(ToldModel {
        id,
        name: text(told.get("name")).or_else(|| text(told.get("display_name"))),
        context_window: first_count(
            told,
            &["context_length", "context_window", "max_context_window", "max_model_len", "max_input_tokens"],
        ),
        max_tokens: first_count(told, &["max_tokens", "max_output_tokens", "max_completion_tokens"])
            .or_else(|| count(provider.and_then(|it| it.get("max_completion_tokens")))),
        reasoning: told.get("reasoning").and_then(Value::as_bool).or(can_reason),
        thinking_levels: levels,
        vision: modalities
            .map(|it| it.iter().any(|it| it == "image"))
            .or_else(|| count(told.get("prompt_image_token_price")).map(|_| true)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wp_8_6_the_map_of_models_info_is_read() {
        let answer = json!({
            "a": { "display_name": "A", "capabilities": {
                "context_window": 8192, "recommended_max_tokens": "1024", "supports_vision": true,
                "reasoning": { "supported": true, "levels": ["low", "high"] } } },
            "b": { "capabilities": { "supports_vision": "via-handoff", "reasoning_efforts": ["max"] } },
            "c": { "capabilities": { "reasoning": { "supported": false } } },
            "d": {},
            "error": { "message": "no" },
            "version": 3,
        });
        let models = info_map(&answer);
        assert_eq!(models.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(
            models[0],
            ToldModel {
                id: "a".into(),
                name: Some("A".into()),
                context_window: Some(8192),
                max_tokens: Some(1024),
                reasoning: Some(true),
                thinking_levels: Some(vec!["low".into(), "high".into()]),
                vision: Some(true),
            }
        );
        assert_eq!((models[1].vision, models[1].reasoning), (Some(false), Some(true)), "only `true` counts");
        assert_eq!(models[2].reasoning, Some(false));
        assert_eq!(models[3], ToldModel { id: "d".into(), ..ToldModel::default() });
        assert!(info_map(&json!({ "object": "list", "data": [{ "id": "x" }] })).is_empty());
        assert!(info_map(&json!([1])).is_empty());
    }

    #[test]
    fn wp_8_6_the_list_of_models_is_read_in_all_its_spellings() {
        for field in ["context_length", "context_window", "max_context_window", "max_model_len", "max_input_tokens"] {
            let models = list(&json!({ "data": [{ "id": "m", field: 32768.0 }] }));
            assert_eq!(models[0].context_window, Some(32768), "{field}");
        }
        for field in ["max_tokens", "max_output_tokens", "max_completion_tokens"] {
            assert_eq!(list(&json!([{ "id": "m", field: "77" }]))[0].max_tokens, Some(77), "{field}");
        }
        let told = json!({ "data": [
            { "id": "m", "display_name": "M", "input_modalities": ["text", "image"], "reasoning": false,
              "reasoning_levels": [{ "effort": "low" }, "high"] },
            { "id": "priced", "prompt_image_token_price": 0.5e1 },
            { "id": "router", "architecture": { "input_modalities": ["text"] }, "supported_parameters": ["reasoning"],
              "top_provider": { "max_completion_tokens": 9 }, "max_tokens": null },
            { "name": "without an id" }, { "id": " " }, 7, "by-name",
        ]});
        let models = list(&told);
        assert_eq!(models.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["m", "priced", "router", "by-name"]);
        assert_eq!((models[0].vision, models[0].reasoning), (Some(true), Some(false)));
        assert_eq!(models[0].thinking_levels, Some(vec!["low".to_owned(), "high".to_owned()]));
        assert_eq!((models[1].vision, models[1].max_tokens), (Some(true), None));
        assert_eq!((models[2].vision, models[2].reasoning, models[2].max_tokens), (Some(false), Some(true), Some(9)));
        assert!(list(&json!({ "error": "x" })).is_empty());
    }

    #[test]
    fn numbers_that_count_no_tokens_are_passed_over() {
        for wrong in [json!(0), json!(-5), json!(1e30), json!("many"), json!(null), json!([1])] {
            assert_eq!(list(&json!([{ "id": "m", "max_tokens": wrong }]))[0].max_tokens, None);
        }
    }
}
