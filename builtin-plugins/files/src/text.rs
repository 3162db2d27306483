//! Files as text: byte order marks and line ends stand aside while the text is worked on.

/// A file that holds text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFile {
    /// The text, without the byte order mark, with the line ends as they are.
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// What of a text file stays when its text is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    pub(crate) has_mark: bool,
    pub(crate) line_ends: LineEnds,
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LineEnds {
    /// There is one line at most.
    #[default]
    None,
    /// All with LF.
    Lf,
    /// All with CR LF.
    Crlf,
    /// Some so, some so.
    Mixed,
}

/// Why a file cannot be worked on as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotText {
    #[error("it is a binary file")]
    Binary,
    #[error("it is no UTF-8 text: byte {at} is the first that does not fit")]
    NotUtf8 { at: usize },
}

const MARK: &str = "\u{feff}";

impl TextFile {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NotText> {
        if is_binary(bytes) {
            return Err(NotText::Binary);
        }
        let text = std::str::from_utf8(bytes).map_err(|error| NotText::NotUtf8 { at: error.valid_up_to() })?;
        let (has_mark, text) = without_mark(text);
        Ok(Self { text: text.to_owned(), style: Style { has_mark, line_ends: LineEnds::of(text) } })
    }
}

impl Style {
    /// The bytes of a file in this style. A text that has CR LF itself is taken as it is.
    pub(crate) fn dress(self, text: &str) -> String {
        let (is_marked, text) = without_mark(text);
        let mark = if self.has_mark || is_marked { MARK } else { "" };
        if self.line_ends == LineEnds::Crlf && LineEnds::of(text) == LineEnds::Lf {
            return mark.to_owned() + &to_crlf(text);
        }
        mark.to_owned() + text
    }
}

impl LineEnds {
    pub(crate) fn of(text: &str) -> Self {
        let n_lf = text.bytes().filter(|it| *it == b'\n').count();
        let n_crlf = text.matches("\r\n").count();
        match (n_lf, n_crlf) {
            (0, _) => Self::None,
            (_, 0) => Self::Lf,
            (all, crlf) if all == crlf => Self::Crlf,
            _ => Self::Mixed,
        }
    }
}

/// Whether bytes are those of a file that is no text, going by their beginning.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(8 * 1024)].contains(&0)
}

/// Whether a text begins with a byte order mark, and the text behind it.
pub(crate) fn without_mark(text: &str) -> (bool, &str) {
    text.strip_prefix(MARK).map_or((false, text), |rest| (true, rest))
}

pub(crate) fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

pub(crate) fn to_crlf(text: &str) -> String {
    to_lf(text).replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_told_apart() {
        let kinds = ["a", "a\nb\n", "a\r\nb\r\n", "a\r\nb\n", "a\rb"].map(LineEnds::of);
        assert_eq!(kinds, [LineEnds::None, LineEnds::Lf, LineEnds::Crlf, LineEnds::Mixed, LineEnds::None]);
    }

    #[test]
    fn a_file_is_decoded_and_dressed_again() {
        for bytes in ["", "a", "\u{feff}a\nb", "a\r\nb\r\n", "\u{feff}a\r\n", "a\r\nb\n"] {
            let file = TextFile::decode(bytes.as_bytes()).unwrap();
            assert!(!file.text.starts_with(MARK));
            assert_eq!(file.style.dress(&file.text), bytes);
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(TextFile::decode(b"a\0b"), Err(NotText::Binary));
        assert_eq!(TextFile::decode(b"ab\xff"), Err(NotText::NotUtf8 { at: 2 }));
    }

    #[test]
    fn a_new_text_takes_the_style_of_the_old_one() {
        let style = TextFile::decode("\u{feff}a\r\nb\r\n".as_bytes()).unwrap().style;
        assert_eq!(style.dress("x\ny\n"), "\u{feff}x\r\ny\r\n");
        assert_eq!(style.dress("x\r\ny\n"), "\u{feff}x\r\ny\n", "it says itself how its lines end");
        assert_eq!(style.dress("\u{feff}x"), "\u{feff}x", "one mark is enough");
    }
}
