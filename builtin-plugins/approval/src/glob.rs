//! Patterns with `*` for any text and `?` for one character.

/// Whether the whole text fits the pattern.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at_pattern, mut at_text) = (0, 0);
    // Where to go on when what follows the last `*` does not fit: it takes one character more.
    let mut retry: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some('*') => {
                retry = Some((at_pattern + 1, at_text));
                at_pattern += 1;
            }
            Some(it) if *it == '?' || *it == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((after_star, taken)) = retry else { return false };
                retry = Some((after_star, taken + 1));
                at_pattern = after_star;
                at_text = taken + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(|it| *it == '*')
}

/// What a text has to begin with to fit.
pub(crate) fn literal_prefix(pattern: &str) -> &str {
    &pattern[..pattern.find(['*', '?']).unwrap_or(pattern.len())]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text) in [("", ""), ("*", ""), ("*", "a b"), ("a*c", "abbc"), ("a?c", "abc"), ("*a*b", "xaayb")] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", "ab"), ("a?", "a"), ("a*c", "abb"), ("git *", "git"), ("[ab]", "a")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        assert_eq!(literal_prefix("git *"), "git ");
        assert_eq!(literal_prefix("git"), "git");
    }

    /// The same by trying every way.
    fn fits_slowly(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['*', rest @ ..], _) => fits_slowly(rest, text) || (!text.is_empty() && fits_slowly(pattern, &text[1..])),
            (['?', rest @ ..], [_, text @ ..]) => fits_slowly(rest, text),
            ([a, rest @ ..], [b, text @ ..]) => a == b && fits_slowly(rest, text),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn fits_as_if_every_way_were_tried(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let chars = |it: &str| it.chars().collect::<Vec<_>>();
            prop_assert_eq!(fits(&pattern, &text), fits_slowly(&chars(&pattern), &chars(&text)));
        }
    }
}
