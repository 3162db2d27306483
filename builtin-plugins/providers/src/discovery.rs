//! What endpoints say of their models, and what is made of it.

mod anthropic;
mod catalogue;
mod curated;
mod openai;
mod refine;

pub(crate) use anthropic::page as anthropic_page;
pub(crate) use catalogue::{Catalogue, Listed};
pub(crate) use curated::fallback;
pub(crate) use openai::{info_map, list};
pub(crate) use refine::{KnownModel, finish, resolve};

use serde_json::Value;

/// A model as its endpoint tells of it; what it does not say is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToldModel {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) context_window: Option<u64>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) reasoning: Option<bool>,
    pub(crate) thinking_levels: Option<Vec<String>>,
    pub(crate) vision: Option<bool>,
}

/// A text that is not empty.
fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number above zero, also as a fraction or a text.
fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    // What does not fit is no number of tokens.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
    let count = (1.0..=1e12).contains(&number).then_some(number as u64);
    count
}

/// The first of these fields that holds a number.
fn first_count(object: &Value, fields: &[&str]) -> Option<u64> {
    fields.iter().find_map(|it| count(object.get(it)))
}

/// A list of words, also of objects that name them.
fn words(value: Option<&Value>) -> Option<Vec<String>> {
    let words: Vec<String> = value?
        .as_array()?
        .iter()
        .filter_map(|it| text(Some(it)).or_else(|| text(it.get("id").or_else(|| it.get("effort")))))
        .collect();
    Some(words)
}

fn first_words(object: &Value, fields: &[&str]) -> Option<Vec<String>> {
    fields.iter().find_map(|it| words(object.get(it)))
}
