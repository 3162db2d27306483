//! What a call cost, in the shapes in which endpoints tell it.

use linn_services::llm::wire::Count;
use linn_services::model::TokenUsage;
use serde::Deserialize;

/// The `usage` of a chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Usage {
    prompt_tokens: Count,
    input_tokens: Count,
    completion_tokens: Count,
    output_tokens: Count,
    cached_tokens: Count,
    cache_read_input_tokens: Count,
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
    reasoning_tokens: Count,
}

impl Usage {
    /// The counts, disjoint; none if the endpoint told none.
    pub(crate) fn counts(&self) -> Option<TokenUsage> {
        let read = self.prompt_tokens.0.or(self.input_tokens.0);
        let written = self.completion_tokens.0.or(self.output_tokens.0);
        if read.is_none() && written.is_none() {
            return None;
        }
        let of = |details: &Option<Details>, count: fn(&Details) -> Count| details.as_ref().and_then(|it| count(it).0);
        let cached = of(&self.prompt_tokens_details, |it| it.cached_tokens)
            .or(of(&self.input_tokens_details, |it| it.cached_tokens))
            .or(self.cache_read_input_tokens.0)
            .or(self.cached_tokens.0);
        let reasoning = of(&self.completion_tokens_details, |it| it.reasoning_tokens)
            .or(of(&self.output_tokens_details, |it| it.reasoning_tokens));
        Some(TokenUsage {
            input_tokens: read.unwrap_or_default().saturating_sub(cached.unwrap_or_default()),
            output_tokens: written.unwrap_or_default(),
            cache_read_tokens: cached,
            cache_write_tokens: None,
            reasoning_tokens: reasoning,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_in_every_shape() {
        for (json, expected) in [
            (r#"{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}"#, Some((10, 1, None, None))),
            (r#"{"input_tokens":"10","output_tokens":2.0,"cached_tokens":4}"#, Some((6, 2, Some(4), None))),
            (
                r#"{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":5},"cached_tokens":1}"#,
                Some((4, 0, Some(5), None)),
            ),
            (r#"{"input_tokens":9,"input_tokens_details":{"cached_tokens":10}}"#, Some((0, 0, Some(10), None))),
            (
                r#"{"prompt_tokens":9,"cache_read_input_tokens":2,"prompt_tokens_details":null}"#,
                Some((7, 0, Some(2), None)),
            ),
            (
                r#"{"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":3}}"#,
                Some((0, 9, None, Some(3))),
            ),
            ("{}", None),
            (r#"{"prompt_tokens":null}"#, None),
        ] {
            let counts = serde_json::from_str::<Usage>(json).unwrap().counts();
            let shown = counts.map(|it| (it.input_tokens, it.output_tokens, it.cache_read_tokens, it.reasoning_tokens));
            assert_eq!(shown, expected, "{json}");
        }
    }
}
