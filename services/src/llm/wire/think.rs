//! Thinking that comes between tags in the text.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of what was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// For the other side.
    Text(&'a str),
    /// Thinking.
    Thinking(&'a str),
}

/// Takes what stands between `<think>` and `</think>` out of a text that comes in pieces. A tag may be cut anywhere.
#[derive(Debug, Default)]
pub struct ThinkSplitter {
    is_thinking: bool,
    /// What may be the beginning of a tag.
    held: String,
}

impl ThinkSplitter {
    /// A splitter at the start of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a piece in. No piece that is given to `on` is empty.
    pub fn feed(&mut self, text: &str, mut on: impl FnMut(Piece<'_>)) {
        let mut joined = std::mem::take(&mut self.held);
        let mut rest = if joined.is_empty() {
            text
        } else {
            joined.push_str(text);
            &joined
        };
        loop {
            let tag = self.awaited();
            if let Some(at) = rest.find(tag) {
                self.tell(&rest[..at], &mut on);
                rest = &rest[at + tag.len()..];
                self.is_thinking = !self.is_thinking;
                continue;
            }
            let kept = beginning_of(tag, rest);
            let (told, held) = rest.split_at(rest.len() - kept);
            self.tell(told, &mut on);
            held.clone_into(&mut self.held);
            return;
        }
    }

    /// The text is over: what was held back is told as it stands.
    pub fn finish(&mut self, mut on: impl FnMut(Piece<'_>)) {
        let held = std::mem::take(&mut self.held);
        self.tell(&held, &mut on);
    }

    fn awaited(&self) -> &'static str {
        if self.is_thinking { CLOSE } else { OPEN }
    }

    fn tell(&self, text: &str, on: &mut impl FnMut(Piece<'_>)) {
        if !text.is_empty() {
            on(if self.is_thinking { Piece::Thinking(text) } else { Piece::Text(text) });
        }
    }
}

/// How many bytes at the end of `text` may be the beginning of `tag`.
fn beginning_of(tag: &str, text: &str) -> usize {
    let longest = tag.len() - 1;
    let from = text.len().saturating_sub(longest);
    let Some(at) = memchr::memchr(b'<', &text.as_bytes()[from..]) else { return 0 };
    let possible = (from + at..text.len()).filter(|at| text.as_bytes()[*at] == b'<');
    possible.map(|at| &text.as_bytes()[at..]).find(|it| tag.as_bytes().starts_with(it)).map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let (mut text, mut thinking) = (String::new(), String::new());
        let mut splitter = ThinkSplitter::new();
        let mut on = |piece: Piece<'_>| match piece {
            Piece::Text(it) => text.push_str(it),
            Piece::Thinking(it) => thinking.push_str(it),
        };
        for piece in pieces {
            splitter.feed(piece, &mut on);
        }
        splitter.finish(&mut on);
        (text, thinking)
    }

    #[test]
    fn thinking_between_tags_is_taken_out_wherever_they_are_cut() {
        for (whole, text, thinking) in [
            ("<think>why</think>so", "so", "why"),
            ("a <think>b</think> c<think>d</think>", "a  c", "bd"),
            ("1 << 2 <thin> <é", "1 << 2 <thin> <é", ""),
            ("<think>open < </thin", "", "open < </thin"),
            ("</think>stray", "</think>stray", ""),
            ("<<think>x</think>", "<", "x"),
        ] {
            let expected = (text.to_owned(), thinking.to_owned());
            assert_eq!(split(&[whole]), expected);
            let single: Vec<_> = whole.split_inclusive(|_| true).collect();
            assert_eq!(split(&single), expected, "{whole}, by characters");
            for (at, _) in whole.char_indices() {
                assert_eq!(split(&[&whole[..at], &whole[at..]]), expected, "{whole}, cut at {at}");
            }
        }
    }
}
