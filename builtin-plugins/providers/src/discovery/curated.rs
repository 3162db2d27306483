//! Models of known vendors, for where their endpoints say too little or nothing.

use linn_services::providers::ProviderSpec;

use super::ToldModel;
use crate::endpoint::is_below;
use crate::presets::ANTHROPIC;

/// A model that is known without asking.
#[derive(Debug)]
struct Curated {
    id: &'static str,
    name: &'static str,
    context_window: u64,
    max_tokens: u64,
    thinking_levels: &'static [&'static str],
    reasoning: bool,
    vision: bool,
}

const BUDGETS: &[&str] = &["low", "medium", "high"];

const fn claude(id: &'static str, name: &'static str, max_tokens: u64) -> Curated {
    Curated { id, name, context_window: 200_000, max_tokens, thinking_levels: BUDGETS, reasoning: true, vision: true }
}

/// Source: the model overview of the vendor's documentation.
const CLAUDE: &[Curated] = &[
    claude("claude-opus-4-5", "Claude Opus 4.5", 64_000),
    claude("claude-sonnet-4-5", "Claude Sonnet 4.5", 64_000),
    claude("claude-haiku-4-5", "Claude Haiku 4.5", 64_000),
    claude("claude-opus-4-1", "Claude Opus 4.1", 32_000),
    claude("claude-opus-4-0", "Claude Opus 4", 32_000),
    claude("claude-sonnet-4-0", "Claude Sonnet 4", 64_000),
    claude("claude-3-7-sonnet-latest", "Claude Sonnet 3.7", 64_000),
];

/// Source: the pricing page of the vendor's documentation.
const DEEPSEEK: &[Curated] = &[
    Curated {
        id: "deepseek-chat",
        name: "DeepSeek Chat",
        context_window: 131_072,
        max_tokens: 8192,
        thinking_levels: &[],
        reasoning: false,
        vision: false,
    },
    Curated {
        id: "deepseek-reasoner",
        name: "DeepSeek Reasoner",
        context_window: 131_072,
        max_tokens: 65_536,
        thinking_levels: &[],
        reasoning: true,
        vision: false,
    },
];

/// Vendors by the domain of their endpoints.
const VENDORS: &[(&str, &[Curated])] = &[("anthropic.com", CLAUDE), ("deepseek.com", DEEPSEEK)];

fn of_vendor(spec: &ProviderSpec) -> &'static [Curated] {
    let vendor = VENDORS.iter().find(|(domain, _)| is_below(&spec.base_url, domain));
    match vendor {
        Some((_, models)) => models,
        // Whoever speaks this wire has such models as far as anybody knows.
        None if spec.kind == ANTHROPIC => CLAUDE,
        None => &[],
    }
}

impl Curated {
    fn told(&self) -> ToldModel {
        ToldModel {
            id: self.id.to_owned(),
            name: Some(self.name.to_owned()),
            context_window: Some(self.context_window),
            max_tokens: Some(self.max_tokens),
            reasoning: Some(self.reasoning),
            thinking_levels: Some(self.thinking_levels.iter().map(|it| (*it).to_owned()).collect()),
            vision: Some(self.vision),
        }
    }
}

/// The models of a provider that says nothing at all. Empty if it is of no known vendor.
pub(crate) fn fallback(spec: &ProviderSpec) -> Vec<ToldModel> {
    of_vendor(spec).iter().map(Curated::told).collect()
}

/// What is known of a model without asking; one with a date at its end is the one without it.
pub(super) fn known(spec: &ProviderSpec, id: &str) -> Option<ToldModel> {
    let fits = |it: &&Curated| id.strip_prefix(it.id).is_some_and(|rest| rest.is_empty() || is_date(rest));
    of_vendor(spec).iter().find(fits).map(Curated::told)
}

fn is_date(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|it| it.len() == 8 && it.bytes().all(|it| it.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(base_url: &str, kind: &str) -> ProviderSpec {
        ProviderSpec { base_url: base_url.to_owned(), kind: kind.to_owned(), ..ProviderSpec::default() }
    }

    #[test]
    fn wp_8_6_known_vendors_have_a_list() {
        assert_eq!(fallback(&spec("https://api.anthropic.com/v1", "anthropic")).len(), 7);
        assert_eq!(fallback(&spec("https://proxy.example", "anthropic")).len(), 7);
        assert_eq!(fallback(&spec("https://api.deepseek.com", "openai")).len(), 2);
        assert!(fallback(&spec("https://proxy.example", "openai")).is_empty());
    }

    #[test]
    fn a_dated_id_is_the_one_without_its_date() {
        let spec = spec("https://api.anthropic.com/v1", "anthropic");
        assert_eq!(known(&spec, "claude-opus-4-5-20251101").unwrap().max_tokens, Some(64_000));
        assert_eq!(known(&spec, "claude-opus-4-1").unwrap().max_tokens, Some(32_000));
        assert!(known(&spec, "claude-opus-4-50").is_none());
        assert!(known(&spec, "claude-next").is_none());
    }
}
