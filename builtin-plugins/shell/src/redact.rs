//! Values that nobody is to see.

/// What stands in the place of a secret.
const PLACEHOLDER: &str = "[redacted]";

/// Values shorter than this are no secrets: `1` or `true` would be taken out of everything.
const SHORTEST: usize = 8;

/// Takes the values of secrets out of texts.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// The longest first, so that one that holds another goes whole.
    secrets: Vec<String>,
}

impl Redactor {
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = values.into_iter().filter(|it| it.len() >= SHORTEST).collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    /// The text without them.
    pub(crate) fn redact(&self, mut text: String) -> String {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), PLACEHOLDER);
            }
        }
        text
    }

    /// Where the end of `text` begins that may be the beginning of a secret.
    fn unsure_from(&self, text: &str) -> usize {
        let longest = self.secrets.first().map_or(0, |it| it.len() - 1);
        let from = text.ceil_char_boundary(text.len().saturating_sub(longest));
        let begins_one = |rest: &str| self.secrets.iter().any(|it| it.len() > rest.len() && it.starts_with(rest));
        let mut places = text[from..].char_indices().map(|(at, _)| from + at);
        places.find(|at| begins_one(&text[*at..])).unwrap_or(text.len())
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("n_secrets", &self.secrets.len()).finish()
    }
}

/// Text of an output that comes in pieces: whole characters, without secrets, also where a piece ends within one.
#[derive(Debug)]
pub(crate) struct Flow {
    redactor: Redactor,
    /// The beginning of a character.
    bytes: Vec<u8>,
    /// What may be the beginning of a secret.
    text: String,
}

impl Flow {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor, bytes: Vec::new(), text: String::new() }
    }

    /// The text that is sure after this piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        self.bytes.extend_from_slice(piece);
        let n_sure = whole_characters(&self.bytes);
        self.text.push_str(&String::from_utf8_lossy(&self.bytes[..n_sure]));
        self.bytes.drain(..n_sure);
        let text = self.redactor.redact(std::mem::take(&mut self.text));
        let unsure_from = self.redactor.unsure_from(&text);
        self.text = text[unsure_from..].to_owned();
        text[..unsure_from].to_owned()
    }

    /// What is left when nothing comes any more.
    pub(crate) fn finish(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        text.push_str(&String::from_utf8_lossy(&std::mem::take(&mut self.bytes)));
        self.redactor.redact(text)
    }
}

/// How many bytes of it do not end within a character.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    // A sequence that more bytes could complete is the only invalid one that may stand at the end of the input.
    let open = last.map_or(&[][..], |it| it.invalid());
    match std::str::from_utf8(open) {
        Err(error) if error.error_len().is_none() => bytes.len() - open.len(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-test-123";

    fn flow(pieces: &[&[u8]]) -> String {
        let mut flow = Flow::new(Redactor::new([KEY.to_owned()]));
        let mut text: String = pieces.iter().map(|it| flow.push(it)).collect();
        text.push_str(&flow.finish());
        text
    }

    #[test]
    fn r139_a_key_within_an_address_is_taken_out() {
        let redactor = Redactor::new([KEY.to_owned()]);
        let text = redactor.redact(format!("https://h.invalid/?apikey={KEY}&a=1"));
        assert_eq!(text, "https://h.invalid/?apikey=[redacted]&a=1");
    }

    #[test]
    fn r139_a_key_in_two_pieces_is_taken_out() {
        let text = format!("a {KEY} b");
        for at in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(at);
            assert_eq!(flow(&[left, right]), "a [redacted] b", "cut at {at}");
        }
        assert_eq!(flow(&[b"sk-te", b"st-124"]), "sk-test-124");
        assert_eq!(flow(&[b"sk-te"]), "sk-te");
    }

    #[test]
    fn short_values_are_no_secrets() {
        assert_eq!(Redactor::new(["1".to_owned()]).redact("11".to_owned()), "11");
    }

    #[test]
    fn a_character_in_pieces_comes_whole() {
        let text = "中🙂é";
        for at in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(at);
            assert_eq!(flow(&[left, right]), text);
        }
        assert_eq!(flow(&[b"a\xff", b"b\xe4\xb8"]), "a\u{fffd}b\u{fffd}");
    }
}
