//! How hard a model shall think, in the words that it knows.

use std::borrow::Cow;

/// Words that are taken when a model does not know the one asked for, the first it knows.
const PREFERRED: &[&str] = &["high", "medium", "low", "xhigh", "max", "minimal", "none"];

/// Whether the word means that the model shall not think at all.
pub fn is_effort_off(effort: &str) -> bool {
    effort.is_empty() || effort.eq_ignore_ascii_case("none")
}

/// The word of `levels` for `asked`: the same if the case differs only, else one that the model knows. Without levels the
/// word stays as it is.
pub fn resolve_effort<'a>(asked: &'a str, levels: &'a [String]) -> Cow<'a, str> {
    let named = |word: &str| levels.iter().find(|it| it.eq_ignore_ascii_case(word));
    let known = named(asked).or_else(|| PREFERRED.iter().find_map(|it| named(it))).or(levels.first());
    Cow::Borrowed(known.map_or(asked, String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_the_model_does_not_know_becomes_one_it_knows() {
        for (asked, levels, used) in [
            ("medium", &[][..], "medium"),
            ("HIGH", &["low", "High"], "High"),
            ("xhigh", &["low", "medium"], "medium"),
            ("medium", &["max", "xhigh"], "xhigh"),
            ("medium", &["turbo", "eco"], "turbo"),
            ("", &["low"], "low"),
        ] {
            let levels: Vec<_> = levels.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(resolve_effort(asked, &levels), used, "{asked} of {levels:?}");
        }
    }
}
