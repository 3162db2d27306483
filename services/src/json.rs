//! JSON that others wrote.

use std::borrow::Cow;

use memchr::memmem;

/// JSON with each half of a surrogate pair that stands alone replaced, for no text can hold one: whoever cuts texts between
/// code units of UTF-16 leaves such halves. Borrowed where there are none.
pub fn whole_characters(json: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(json, b"\\u").is_none() {
        return Cow::Borrowed(json);
    }
    let code = |at: usize| -> Option<u16> {
        let hex = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let mut mended = Vec::new();
    let mut at = 0;
    let mut kept = 0;
    while let Some(found) = json.get(at..).and_then(|it| memchr::memchr(b'\\', it)) {
        at += found;
        at += match code(at) {
            Some(0xd800..=0xdbff) if matches!(code(at + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                mended.extend_from_slice(&json[kept..at]);
                mended.extend_from_slice(b"\\ufffd");
                kept = at + 6;
                6
            }
            Some(_) => 6,
            None => 2,
        };
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    mended.extend_from_slice(&json[kept..]);
    Cow::Owned(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_pairs_stay() {
        let mended = |text: &'static str| match whole_characters(text.as_bytes()) {
            Cow::Owned(mended) => Some(String::from_utf8(mended).unwrap()),
            Cow::Borrowed(_) => None,
        };
        assert_eq!(mended(r#""a\ud83d b""#).unwrap(), r#""a\ufffd b""#);
        assert_eq!(mended(r#""\udc00\ud83d\ude00\ud83d""#).unwrap(), r#""\ufffd\ud83d\ude00\ufffd""#);
        assert_eq!(mended(r#""\\ud83d""#), None);
        assert_eq!(mended(r#""\u00e4 \n""#), None);
        assert_eq!(mended(r#""\\\ud83d""#).unwrap(), r#""\\\ufffd""#);
        assert_eq!(mended("\\"), None);
        assert_eq!(mended("\\ud83"), None);
    }
}
