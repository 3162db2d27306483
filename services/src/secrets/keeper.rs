//! The secrets, and what takes them out of texts.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::model::{ContentBlock, Message};

/// What stands in the place of a secret.
const PLACEHOLDER: &str = "[redacted]";

/// Values shorter than this are no secrets: `1` or `true` would be taken out of everything.
const SHORTEST: usize = 8;

/// What is in the names of headers that hold secrets.
const SECRET_HEADERS: &[&str] = &["auth", "cookie", "key", "password", "secret", "token"];

/// Knows secrets and takes them out of texts. A handle: clones know the same.
///
/// What it was told once it knows for good.
#[derive(Clone, Default)]
pub struct SecretKeeper(Arc<RwLock<Vec<SecretString>>>);

impl SecretKeeper {
    /// One that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn secrets(&self) -> RwLockReadGuard<'_, Vec<SecretString>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes this value out of texts from now on, also where it stands as JSON writes it. A value of fewer than 8 bytes is
    /// no secret.
    pub fn keep(&self, value: &str) {
        let as_json = serde_json::to_string(value).unwrap_or_default();
        let escaped = as_json.trim_matches('"');
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for form in [value.trim(), escaped] {
            if form.len() >= SHORTEST && !secrets.iter().any(|it| it.expose_secret() == form) {
                secrets.push(SecretString::from(form));
            }
        }
        // The longest first, so that one that holds another goes whole.
        secrets.sort_by_key(|it| std::cmp::Reverse(it.expose_secret().len()));
    }

    /// The same for a header of requests, if its name says that it holds a secret, as that of `authorization` does.
    pub fn keep_header(&self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        if SECRET_HEADERS.iter().any(|it| name.contains(it)) {
            // Behind the scheme of an authorization, which says nothing.
            self.keep(value.trim().rsplit(' ').next().unwrap_or(value));
        }
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.secrets().is_empty()
    }

    /// Whether a text holds a secret.
    pub fn is_in(&self, text: &str) -> bool {
        self.secrets().iter().any(|it| text.contains(it.expose_secret()))
    }

    /// The text without secrets.
    pub fn redact<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let mut text = text.into();
        for secret in self.secrets().iter().map(|it| it.expose_secret()) {
            if text.contains(secret) {
                text = text.replace(secret, PLACEHOLDER).into();
            }
        }
        text
    }

    /// Takes secrets out of every text of a value.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_in(text),
            Value::Array(items) => items.iter_mut().for_each(|it| self.redact_value(it)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|it| self.redact_value(it));
                let named = fields.keys().filter(|it| self.is_in(it)).cloned().collect::<Vec<_>>();
                for name in named {
                    let value = fields.remove(&name).unwrap_or_default();
                    fields.insert(self.redact(name).into_owned(), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Takes secrets out of the texts and calls of a block.
    pub fn redact_block(&self, block: &mut ContentBlock) {
        match block {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text, .. } => self.redact_in(text),
            ContentBlock::ToolCall { arguments, .. } => self.redact_in(arguments),
            ContentBlock::ToolResult { content, .. } => content.iter_mut().for_each(|it| self.redact_block(it)),
            ContentBlock::Other(value) => self.redact_value(value),
            ContentBlock::Image { .. } => {}
        }
    }

    /// Takes secrets out of messages.
    pub fn redact_messages(&self, messages: &mut [Message]) {
        messages.iter_mut().flat_map(|it| &mut it.content).for_each(|it| self.redact_block(it));
    }

    /// Takes secrets out of a text in its place.
    pub fn redact_in(&self, text: &mut String) {
        let redacted = match self.redact(text.as_str()) {
            Cow::Owned(redacted) => redacted,
            Cow::Borrowed(_) => return,
        };
        *text = redacted;
    }

    /// The beginning of a text without secrets, up to where what may be the beginning of one reaches its end; and how many
    /// bytes of the text that was.
    fn sure(&self, text: &str) -> (String, usize) {
        let secrets = self.secrets();
        let forms = || secrets.iter().map(|it| it.expose_secret());
        let mut sure = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let rest = &text[at..];
            if forms().any(|it| it.len() > rest.len() && it.starts_with(rest)) {
                break;
            }
            if let Some(secret) = forms().find(|it| rest.starts_with(*it)) {
                sure.push_str(PLACEHOLDER);
                at += secret.len();
            } else {
                sure.push(character);
                at += character.len_utf8();
            }
        }
        (sure, at)
    }
}

impl std::fmt::Debug for SecretKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKeeper").field("n_secrets", &self.secrets().len()).finish()
    }
}

/// A text that comes in pieces, without secrets, also where a piece ends within one.
#[derive(Default)]
pub struct TextFlow {
    keeper: SecretKeeper,
    /// What may be the beginning of a secret.
    held: String,
}

impl TextFlow {
    /// A flow without the secrets that this one knows.
    pub fn new(keeper: SecretKeeper) -> Self {
        Self { keeper, held: String::new() }
    }

    /// The text that is sure after this piece.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let (sure, n_sure) = self.keeper.sure(&self.held);
        self.held.drain(..n_sure);
        sure
    }

    /// What is left when nothing comes any more.
    pub fn finish(&mut self) -> String {
        let mut text = std::mem::take(&mut self.held);
        self.keeper.redact_in(&mut text);
        text
    }
}

impl std::fmt::Debug for TextFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextFlow").field("n_held", &self.held.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-test-123";

    fn keeper() -> SecretKeeper {
        let keeper = SecretKeeper::new();
        keeper.keep(KEY);
        keeper
    }

    fn flow(pieces: &[&str]) -> String {
        let mut flow = TextFlow::new(keeper());
        let mut text: String = pieces.iter().map(|it| flow.push(it)).collect();
        text.push_str(&flow.finish());
        text
    }

    #[test]
    fn r139_a_key_within_an_address_is_taken_out() {
        let text = keeper().redact(format!("https://h.invalid/?apikey={KEY}&a=1")).into_owned();
        assert_eq!(text, "https://h.invalid/?apikey=[redacted]&a=1");
    }

    #[test]
    fn r139_a_key_in_two_pieces_is_taken_out() {
        let text = format!("a {KEY} b");
        for at in 0..=text.len() {
            let (left, right) = text.split_at(at);
            assert_eq!(flow(&[left, right]), "a [redacted] b", "cut at {at}");
        }
        assert_eq!(flow(&["sk-te", "st-124"]), "sk-test-124");
        assert_eq!(flow(&["sk-te"]), "sk-te");
    }

    #[test]
    fn a_key_that_a_longer_one_begins_with_or_that_begins_like_itself_goes_whole_in_pieces() {
        let keeper = keeper();
        keeper.keep("sk-test-123-and-more");
        keeper.keep("abcabcab");
        for text in ["x sk-test-123-and-more y", "x abcabcab y", "x sk-test-123 y"] {
            for at in 0..=text.len() {
                let mut flow = TextFlow::new(keeper.clone());
                let (left, right) = text.split_at(at);
                let whole = flow.push(left) + &flow.push(right) + &flow.finish();
                assert_eq!(whole, "x [redacted] y", "{text} cut at {at}");
            }
        }
    }

    #[test]
    fn headers_count_by_their_names() {
        let keeper = SecretKeeper::new();
        keeper.keep_header("Authorization", "Bearer abcdefgh-1");
        keeper.keep_header("X-Title", "A long title");
        assert_eq!(keeper.redact("abcdefgh-1 of A long title, Bearer"), "[redacted] of A long title, Bearer");
    }

    #[test]
    fn short_values_are_no_secrets() {
        let keeper = SecretKeeper::new();
        keeper.keep("1");
        keeper.keep("      1      ");
        assert_eq!(keeper.redact("11 and true"), "11 and true");
    }

    #[test]
    fn a_key_goes_whole_where_it_holds_another_and_also_as_json_writes_it() {
        let keeper = keeper();
        keeper.keep("sk-test-123-and-more");
        keeper.keep("quoted\"key\\1");
        assert_eq!(keeper.redact("sk-test-123-and-more sk-test-123"), "[redacted] [redacted]");
        assert_eq!(keeper.redact(r#"{"a":"quoted\"key\\1"}"#), r#"{"a":"[redacted]"}"#);
        let mut value = json!({ "sk-test-123": [{ "a": "x sk-test-123" }, 1, null] });
        keeper.redact_value(&mut value);
        assert_eq!(value, json!({ "[redacted]": [{ "a": "x [redacted]" }, 1, null] }));
    }

    #[test]
    fn it_shows_how_many_it_knows_and_nothing_else() {
        assert_eq!(format!("{:?}", keeper()), "SecretKeeper { n_secrets: 1 }");
    }
}
