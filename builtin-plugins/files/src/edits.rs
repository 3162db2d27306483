//! Replacing parts of a text.

use std::ops::Range;

use regex::Regex;

use crate::text::{LineEnds, to_crlf, to_lf};

/// How many places an error names.
const MAX_PLACES: usize = 5;

/// One replacement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit<'a> {
    pub(crate) search: &'a str,
    pub(crate) replace: &'a str,
    /// Every place is replaced; otherwise there has to be one alone.
    pub(crate) is_for_all: bool,
    /// Runs of white space are the same, however long they are and whatever is in them.
    pub(crate) ignores_whitespace: bool,
}

/// Why an edit was not made. Edits count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("there are no edits")]
    None,
    #[error("the search text of edit {n} is empty; give the text to replace, or write the whole file")]
    Empty { n: usize },
    #[error("the search text of edit {n} is not in the file{hint}")]
    NotFound { n: usize, hint: String },
    #[error(
        "the search text of edit {n} is in the file {n_places} times (lines {lines}); add lines around it, or set replace_all"
    )]
    Ambiguous { n: usize, n_places: usize, lines: String },
    #[error("edit {n} would change nothing; its replacement is what the file holds already")]
    Unchanged { n: usize },
    #[error("the edits together change nothing")]
    AllUnchanged,
}

/// Makes all edits one after another, or none.
///
/// Line ends of the search text that the file does not have are taken for those that it has. In a file whose lines all end
/// with CR LF those of the replacement become such; elsewhere they become what the replaced text has, if that was found so.
pub(crate) fn apply(text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
    if LineEnds::of(text) != LineEnds::Crlf {
        return apply_all(text, edits);
    }
    // One way of ending lines is a matter of the file alone, and not of what is replaced in it.
    let in_lf: Vec<(String, String)> = edits.iter().map(|it| (to_lf(it.search), to_lf(it.replace))).collect();
    let edits: Vec<Edit<'_>> =
        edits.iter().zip(&in_lf).map(|(edit, (search, replace))| Edit { search, replace, ..*edit }).collect();
    // CR before CR LF is a character like any other.
    Ok(apply_all(&to_lf(text), &edits)?.replace('\n', "\r\n"))
}

fn apply_all(text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
    if edits.is_empty() {
        return Err(EditError::None);
    }
    let mut edited = text.to_owned();
    for (at, edit) in edits.iter().enumerate() {
        let next = apply_one(&edited, edit, at + 1)?;
        if next == edited {
            return Err(EditError::Unchanged { n: at + 1 });
        }
        edited = next;
    }
    if edited == text { Err(EditError::AllUnchanged) } else { Ok(edited) }
}

fn apply_one(text: &str, edit: &Edit<'_>, n: usize) -> Result<String, EditError> {
    if edit.search.is_empty() || (edit.ignores_whitespace && edit.search.trim().is_empty()) {
        return Err(EditError::Empty { n });
    }
    let found = find(text, edit);
    if found.places.is_empty() {
        return Err(EditError::NotFound { n, hint: hint(text, edit) });
    }
    if found.places.len() > 1 && !edit.is_for_all {
        let lines = lines_of(text, &found.places);
        return Err(EditError::Ambiguous { n, n_places: found.places.len(), lines });
    }
    let mut edited = String::with_capacity(text.len() + edit.replace.len());
    let mut done = 0;
    for place in found.places {
        edited.push_str(&text[done..place.start]);
        if found.is_literal {
            edited.push_str(found.replacement);
        } else {
            edited.push_str(&in_style(found.replacement, LineEnds::of(text), &text[place.clone()]));
        }
        done = place.end;
    }
    edited.push_str(&text[done..]);
    Ok(edited)
}

struct Found<'a> {
    places: Vec<Range<usize>>,
    replacement: &'a str,
    /// The places hold the search text, byte for byte.
    is_literal: bool,
}

fn find<'a>(text: &str, edit: &Edit<'a>) -> Found<'a> {
    let literal = text.match_indices(edit.search).map(|(at, found)| at..at + found.len());
    let literal: Vec<Range<usize>> = literal.filter(|it| !splits_line_end(text, it)).collect();
    if !literal.is_empty() {
        return Found { places: literal, replacement: edit.replace, is_literal: true };
    }
    let other_ends = any_line_end(edit.search).map(|regex| places(&regex, text)).unwrap_or_default();
    if !other_ends.is_empty() || !edit.ignores_whitespace {
        return Found { places: other_ends, replacement: edit.replace, is_literal: false };
    }
    // White space at the ends is left as the file has it.
    let mut replacement = edit.replace;
    if edit.search.starts_with(char::is_whitespace) {
        replacement = replacement.trim_start();
    }
    if edit.search.ends_with(char::is_whitespace) {
        replacement = replacement.trim_end();
    }
    let places = any_whitespace(edit.search).map(|regex| places(&regex, text)).unwrap_or_default();
    Found { places, replacement, is_literal: false }
}

/// Whether a place begins or ends between CR and LF.
fn splits_line_end(text: &str, place: &Range<usize>) -> bool {
    let is_between = |at: usize| text[..at].ends_with('\r') && text[at..].starts_with('\n');
    is_between(place.start) || is_between(place.end)
}

/// The search text with any line end in place of each.
fn any_line_end(search: &str) -> Option<Regex> {
    let search = to_lf(search);
    if !search.contains('\n') {
        return None;
    }
    let lines: Vec<String> = search.split('\n').map(regex::escape).collect();
    // A search text too large for an expression is looked for byte by byte alone.
    Regex::new(&lines.join(r"\r?\n")).ok()
}

/// The words of the search text with any white space between them.
fn any_whitespace(search: &str) -> Option<Regex> {
    let words: Vec<String> = search.split_whitespace().map(regex::escape).collect();
    Regex::new(&words.join(r"\s+")).ok()
}

fn places(regex: &Regex, text: &str) -> Vec<Range<usize>> {
    regex.find_iter(text).map(|it| it.range()).collect()
}

/// A replacement with the line ends of the text, or of the part of it that goes where the text has several.
fn in_style(replacement: &str, of_text: LineEnds, part: &str) -> String {
    let ends = match of_text {
        LineEnds::Mixed => LineEnds::of(part),
        all => all,
    };
    match ends {
        LineEnds::Crlf => to_crlf(replacement),
        LineEnds::Lf => to_lf(replacement),
        LineEnds::None | LineEnds::Mixed => replacement.to_owned(),
    }
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text[..at].bytes().filter(|it| *it == b'\n').count()
}

fn lines_of(text: &str, places: &[Range<usize>]) -> String {
    let lines: Vec<String> = places.iter().take(MAX_PLACES).map(|it| line_at(text, it.start).to_string()).collect();
    let more = if places.len() > MAX_PLACES { ", .." } else { "" };
    lines.join(", ") + more
}

/// Where something like the search text is.
fn hint(text: &str, edit: &Edit<'_>) -> String {
    let alike = any_whitespace(edit.search).and_then(|regex| regex.find(text).map(|it| it.start()));
    if let Some(at) = alike {
        return format!(
            "; with other white space it is at line {}: copy it as it stands there, or set normalize_whitespace",
            line_at(text, at)
        );
    }
    let first = edit.search.lines().map(str::trim).find(|it| !it.is_empty());
    let line = first.and_then(|first| text.lines().position(|it| it.trim() == first));
    match line {
        Some(at) => format!("; its first line is line {} there, and what follows is different", at + 1),
        None => "; read the file to see what it holds now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Edit<'_> = Edit { search: "", replace: "", is_for_all: false, ignores_whitespace: false };

    fn edit<'a>(search: &'a str, replace: &'a str) -> Edit<'a> {
        Edit { search, replace, ..ONE }
    }

    #[track_caller]
    fn check(text: &str, edits: &[Edit<'_>], expected: Result<&str, &str>) {
        let result = apply(text, edits).map_err(|error| error.to_string());
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{text:?} {edits:?}");
    }

    #[test]
    fn edits_are_made_one_after_another_or_not_at_all() {
        check("a b", &[edit("a", "b c"), edit("c b", "d")], Ok("b d"));
        let missing = "the search text of edit 2 is not in the file; read the file to see what it holds now";
        check("a b", &[edit("a", "c"), edit("a", "d")], Err(missing));
        check("a", &[], Err("there are no edits"));
        check(
            "a",
            &[edit("", "b")],
            Err("the search text of edit 1 is empty; give the text to replace, or write the whole file"),
        );
    }

    #[test]
    fn a_search_text_has_to_be_unique_unless_all_are_meant() {
        let told =
            "the search text of edit 1 is in the file 2 times (lines 1, 3); add lines around it, or set replace_all";
        check("x\ny\nx", &[edit("x", "z")], Err(told));
        check("x\ny\nx", &[Edit { is_for_all: true, ..edit("x", "z") }], Ok("z\ny\nz"));
    }

    #[test]
    fn white_space_is_ignored_on_request() {
        let (text, search) = ("fn a() {\n\tb();\n}\n", "fn a() {\n    b();\n}");
        let hint = "the search text of edit 1 is not in the file; with other white space it is at line 1: copy it as it \
                    stands there, or set normalize_whitespace";
        check(text, &[edit(search, "x")], Err(hint));
        let edit = Edit { ignores_whitespace: true, ..edit(search, "fn c() {}") };
        check(text, &[edit], Ok("fn c() {}\n"));
        let indented = Edit { ignores_whitespace: true, ..super::tests::edit("  b();  \n", "  c();\n") };
        check(text, &[indented], Ok("fn a() {\n\tc();\n}\n"));
    }

    #[test]
    fn a_hint_names_the_line_that_is_there() {
        let hint = "the search text of edit 1 is not in the file; its first line is line 2 there, and what follows is different";
        check("a\nb\nc\n", &[edit("b\nd", "x")], Err(hint));
    }

    #[test]
    fn r123_lf_search_text_fits_a_crlf_file() {
        check("one\r\ntwo\r\nthree\r\n", &[edit("one\ntwo", "1\n2")], Ok("1\r\n2\r\nthree\r\n"));
        check("one\ntwo\nthree\n", &[edit("one\r\ntwo", "1\r\n2")], Ok("1\n2\nthree\n"));
        check("a\nb\r\nc\r\n", &[edit("b\nc", "x\ny")], Ok("a\nx\r\ny\r\n"));
        check("a\r\nb\r\n", &[edit("a", "x\ny")], Ok("x\r\ny\r\nb\r\n"));
    }

    #[test]
    fn r125_a_replacement_that_is_equal_in_the_end_is_no_success() {
        let same = "edit 1 would change nothing; its replacement is what the file holds already";
        check("a\r\nb", &[edit("a\r\nb", "a\nb")], Err(same));
        check("a", &[edit("a", "a")], Err(same));
        check("ab", &[edit("a", "b"), edit("bb", "ab")], Err("the edits together change nothing"));
    }

    proptest! {
        #[test]
        fn an_edit_of_a_unique_text_is_what_the_standard_library_does(
            before in "[a-c\n]{0,20}", search in "[x-z]{1,8}", after in "[a-c\n]{0,20}", replace in "[a-z\n]{0,12}",
        ) {
            let text = format!("{before}{search}{after}");
            prop_assume!(replace != search);
            prop_assert_eq!(apply(&text, &[edit(&search, &replace)]), Ok(text.replacen(&search, &replace, 1)));
        }

        #[test]
        fn all_places_are_what_the_standard_library_replaces(text in "[a-c\n]{0,40}", search in "[a-c]{1,3}") {
            prop_assume!(text.contains(&search));
            let all = Edit { is_for_all: true, ..edit(&search, "X") };
            prop_assert_eq!(apply(&text, &[all]), Ok(text.replace(&search, "X")));
        }

        #[test]
        fn r123_edits_do_not_care_how_lines_end(
            text in "[a-c\n]{1,40}", from in 0_usize..40, len in 1_usize..12, replace in "[a-c\n]{0,12}",
        ) {
            let from = from % text.len();
            let search = &text[from..(from + len).min(text.len())];
            prop_assume!(text.contains('\n'));
            let edits = [edit(search, &replace)];
            let in_lf = apply(&text, &edits);
            let in_crlf = apply(&to_crlf(&text), &edits);
            prop_assert_eq!(in_lf.map(|it| to_crlf(&it)), in_crlf);
        }

        #[test]
        fn no_edit_panics(text in "\\PC{0,30}", search in "\\PC{0,6}", replace in "\\PC{0,6}", flags in 0_u8..4) {
            let edit = Edit { is_for_all: flags & 1 != 0, ignores_whitespace: flags & 2 != 0, ..edit(&search, &replace) };
            drop(apply(&text, &[edit]));
        }
    }
}
