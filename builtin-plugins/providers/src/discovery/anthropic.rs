//! Lists of models of Anthropic-compatible endpoints.

use serde_json::Value;

use super::{ToldModel, text};

/// One page of the answer of `models`, and behind which model the next one begins.
pub(crate) fn page(answer: &Value) -> (Vec<ToldModel>, Option<String>) {
    let models = answer.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let told = |it: &Value| {
        Some(ToldModel { id: text(it.get("id"))?, name: text(it.get("display_name")), ..ToldModel::default() })
    };
    let has_more = answer.get("has_more").and_then(Value::as_bool) == Some(true);
    let next = text(answer.get("last_id")).filter(|_| has_more);
    (models.iter().filter_map(told).collect(), next)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wp_8_6_pages_of_models_are_read() {
        let (models, next) =
            page(&json!({ "data": [{ "id": "c", "display_name": "C" }], "has_more": false, "last_id": "c" }));
        assert_eq!((&*models[0].id, models[0].name.as_deref(), next), ("c", Some("C"), None));
        let (models, next) = page(&json!({ "data": [{ "id": "d" }, {}], "has_more": true, "last_id": "d" }));
        assert_eq!((models.len(), next.as_deref()), (1, Some("d")));
        assert_eq!(page(&json!({ "error": {} })), (Vec::new(), None));
    }
}
