//! Text of an output that comes in pieces.

use linn_services::secrets::{SecretKeeper, TextFlow};

/// Text of an output that comes in pieces: whole characters, without secrets, also where a piece ends within one.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The beginning of a character.
    bytes: Vec<u8>,
    text: TextFlow,
}

impl Flow {
    pub(crate) fn new(secrets: SecretKeeper) -> Self {
        Self { bytes: Vec::new(), text: TextFlow::new(secrets) }
    }

    /// The text that is sure after this piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        self.bytes.extend_from_slice(piece);
        let n_sure = whole_characters(&self.bytes);
        let text = self.text.push(&String::from_utf8_lossy(&self.bytes[..n_sure]));
        self.bytes.drain(..n_sure);
        text
    }

    /// What is left when nothing comes any more.
    pub(crate) fn finish(&mut self) -> String {
        let mut text = self.text.push(&String::from_utf8_lossy(&std::mem::take(&mut self.bytes)));
        text.push_str(&self.text.finish());
        text
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
        let secrets = SecretKeeper::new();
        secrets.keep(KEY);
        let mut flow = Flow::new(secrets);
        let mut text: String = pieces.iter().map(|it| flow.push(it)).collect();
        text.push_str(&flow.finish());
        text
    }

    #[test]
    fn r139_a_key_in_two_pieces_is_taken_out() {
        let text = format!("é {KEY} b");
        for at in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(at);
            assert_eq!(flow(&[left, right]), "é [redacted] b", "cut at {at}");
        }
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
