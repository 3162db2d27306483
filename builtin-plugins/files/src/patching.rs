//! Unified diffs, put to a text.

use std::fmt::Write;

use diffy::Patch;

use crate::text::{LineEnds, to_lf};

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    #[error("the patch has no hunk; each begins with a line such as `@@ -1,3 +1,4 @@`")]
    NoHunk,
    #[error(
        "the patch names \"{named}\", and a patch changes the one file it is for; moves and deletions have tools of their own"
    )]
    OtherFile { named: String },
    #[error("line {line} of the patch begins with none of ` `, `+`, `-`, `\\` and `@@`")]
    BadLine { line: usize },
    #[error("the patch cannot be read: {why}")]
    Unreadable { why: String },
    #[error("{why}: what the file holds is not what the hunk expects; read the file again and make a new patch")]
    NoMatch { why: String },
    #[error("the patch changes nothing")]
    Unchanged,
}

/// The text as the patch changes it. `path` is the file the patch is for.
///
/// How lines end is a matter of the file: a patch with other line ends fits all the same, and leaves those of the file.
pub(crate) fn apply(path: &str, text: &str, patch: &str) -> Result<String, PatchError> {
    let mended = mend(path, &to_lf(patch))?;
    let read = Patch::from_str(&mended).map_err(|error| PatchError::Unreadable { why: error.to_string() })?;
    let patched = match LineEnds::of(text) {
        LineEnds::Crlf => apply_read(&to_lf(text), &read)?.replace('\n', "\r\n"),
        LineEnds::None | LineEnds::Lf => apply_read(text, &read)?,
        LineEnds::Mixed => apply_to_mixed(path, text, patch)?,
    };
    if patched == text { Err(PatchError::Unchanged) } else { Ok(patched) }
}

fn apply_read(text: &str, patch: &Patch<'_, str>) -> Result<String, PatchError> {
    let no_match = |error: diffy::ApplyError| PatchError::NoMatch { why: error.to_string() };
    match diffy::apply(text, patch) {
        // The mark for a last line without an end is often left out.
        Err(_) if !text.is_empty() && !text.ends_with('\n') => {
            let with_end = diffy::apply(&format!("{text}\n"), patch).map_err(no_match)?;
            Ok(with_end.strip_suffix('\n').unwrap_or(&with_end).to_owned())
        }
        applied => applied.map_err(no_match),
    }
}

/// Where lines end in several ways the patch has to say how.
fn apply_to_mixed(path: &str, text: &str, patch: &str) -> Result<String, PatchError> {
    let mended = mend(path, patch)?;
    let read = Patch::from_str(&mended).map_err(|error| PatchError::Unreadable { why: error.to_string() })?;
    apply_read(text, &read)
}

/// The hunks of a patch, with the counts of lines that they have. Counts are what models get wrong most.
fn mend(path: &str, patch: &str) -> Result<String, PatchError> {
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    let lines: Vec<&str> = patch.split_inclusive('\n').collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let starts = |n: usize, mark: &str| lines.get(at + n).is_some_and(|it| it.starts_with(mark));
        // In a hunk these may be lines of the file, unless a hunk follows.
        if starts(0, "--- ") && starts(1, "+++ ") && (hunks.is_empty() || starts(2, "@@")) {
            check_name(path, &line[4..])?;
            check_name(path, &lines[at + 1][4..])?;
            at += 2;
            continue;
        }
        for moving in ["rename to ", "copy to "] {
            if let Some(named) = line.strip_prefix(moving) {
                return Err(PatchError::OtherFile { named: named.trim_end().to_owned() });
            }
        }
        if line.starts_with("diff --git ") {
            // What follows is a header up to the next hunk.
            at += 1;
        } else if line.starts_with("@@") {
            let old_start = old_start(line).ok_or_else(|| PatchError::Unreadable { why: bad_header(line) })?;
            hunks.push(Hunk { old_start, lines: Vec::new() });
            at += 1;
        } else if let Some(hunk) = hunks.last_mut() {
            let is_known = line.starts_with([' ', '+', '-', '\\']) || line.trim_end().is_empty();
            if !is_known {
                return Err(PatchError::BadLine { line: at + 1 });
            }
            hunk.lines.push(line);
            at += 1;
        } else {
            // Words ahead of the first hunk.
            at += 1;
        }
    }
    if hunks.is_empty() {
        return Err(PatchError::NoHunk);
    }
    let mut mended = String::with_capacity(patch.len());
    let mut shift = 0_isize;
    for hunk in &mut hunks {
        hunk.write(&mut mended, &mut shift);
    }
    Ok(mended)
}

struct Hunk<'a> {
    old_start: usize,
    lines: Vec<&'a str>,
}

impl Hunk<'_> {
    fn write(&mut self, mended: &mut String, shift: &mut isize) {
        // An empty line at the end belongs to whoever wrote the patch down; inside, it is an empty line of the file.
        while self.lines.last().is_some_and(|it| it.trim_end().is_empty() && !it.starts_with(' ')) {
            self.lines.pop();
        }
        let count = |marks: &[char]| {
            let is_counted = |it: &&&str| it.starts_with(marks) || (it.trim_end().is_empty() && marks.contains(&' '));
            self.lines.iter().filter(is_counted).count()
        };
        let (n_old, n_new) = (count(&[' ', '-']), count(&[' ', '+']));
        // Of an empty part the line before it is named.
        let start = |first: usize, n: usize| if n == 0 { first.saturating_sub(1) } else { first };
        let old_first = if n_old == 0 { self.old_start + 1 } else { self.old_start.max(1) };
        let new_first = old_first.saturating_add_signed(*shift);
        let (old_start, new_start) = (start(old_first, n_old), start(new_first, n_new));
        writeln!(mended, "@@ -{old_start},{n_old} +{new_start},{n_new} @@")
            .expect("a string takes all that is written");
        for line in &self.lines {
            if !line.starts_with([' ', '+', '-', '\\']) {
                mended.push(' ');
            }
            mended.push_str(line);
            if !line.ends_with('\n') {
                mended.push('\n');
            }
        }
        *shift += n_new.cast_signed() - n_old.cast_signed();
    }
}

/// The first line of the old text, from `@@ -3,4 +3,5 @@`.
fn old_start(header: &str) -> Option<usize> {
    let rest = header.strip_prefix("@@")?.trim_start().strip_prefix('-')?;
    let digits = rest.split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn bad_header(line: &str) -> String {
    format!("`{}` is no hunk header such as `@@ -1,3 +1,4 @@`", line.trim_end())
}

/// The name in a header has to be that of the file; a file that is new is named so on one side alone.
fn check_name(path: &str, named: &str) -> Result<(), PatchError> {
    let named = named.split('\t').next().unwrap_or(named).trim_end();
    let plain = |it: &str| it.trim_start_matches("./").to_owned();
    let (wanted, given) = (plain(path), plain(named));
    let stripped = given.strip_prefix("a/").or_else(|| given.strip_prefix("b/")).unwrap_or(&given);
    let fits = |it: &str| it == wanted || (!it.contains('/') && wanted.ends_with(&format!("/{it}")));
    if fits(&given) || fits(stripped) {
        return Ok(());
    }
    Err(PatchError::OtherFile { named: named.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diff::unified;
    use crate::text::to_crlf;

    const TEXT: &str = "a\nb\nc\nd\n";

    #[track_caller]
    fn check(text: &str, patch: &str, expected: Result<&str, &str>) {
        let result = apply("dir/x.txt", text, patch).map_err(|error| error.to_string());
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{patch}");
    }

    #[test]
    fn a_patch_is_applied() {
        check(TEXT, "--- a/dir/x.txt\n+++ b/dir/x.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", Ok("a\nB\nc\nd\n"));
        check(TEXT, "@@ -2 +2 @@\n-b\n+B", Ok("a\nB\nc\nd\n"));
        check("", "@@ -0,0 +1,2 @@\n+a\n+b\n", Ok("a\nb\n"));
    }

    #[test]
    fn wrong_counts_and_lines_are_mended() {
        check(TEXT, "@@ -1,9 +1,9 @@\n a\n-b\n+B\n", Ok("a\nB\nc\nd\n"));
        check(TEXT, "@@ -40,1 +40,1 @@\n-c\n+C\n", Ok("a\nb\nC\nd\n"));
        check("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n\n", Ok("a\n\nc\n"));
        check("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", Ok("a\nc"));
    }

    #[test]
    fn a_patch_that_does_not_fit_changes_nothing() {
        let told = "error applying hunk #2: what the file holds is not what the hunk expects; read the file again and make \
                    a new patch";
        check(TEXT, "@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-x\n+y\n", Err(told));
        check(TEXT, "a", Err("the patch has no hunk; each begins with a line such as `@@ -1,3 +1,4 @@`"));
        check(TEXT, "@@ -1 +1 @@\n-a\n+a\n", Err("the patch changes nothing"));
        check(
            TEXT,
            "@@ -1 +1 @@\n-a\nb\n",
            Err("line 3 of the patch begins with none of ` `, `+`, `-`, `\\` and `@@`"),
        );
        check(
            TEXT,
            "@@ one @@\n-a\n",
            Err("the patch cannot be read: `@@ one @@` is no hunk header such as `@@ -1,3 +1,4 @@`"),
        );
    }

    #[test]
    fn r089_a_patch_moves_nothing() {
        let told = |named: &str| {
            format!(
                "the patch names \"{named}\", and a patch changes the one file it is for; moves and deletions have tools of \
                 their own"
            )
        };
        let moving = "diff --git a/dir/x.txt b/../O/z\nrename from dir/x.txt\nrename to ../O/z\n";
        check(TEXT, moving, Err(&told("../O/z")));
        check(TEXT, "--- a/dir/x.txt\n+++ b/../O/z\n@@ -1 +1 @@\n-a\n+A\n", Err(&told("b/../O/z")));
        check(TEXT, "--- a/dir/x.txt\n+++ /dev/null\n@@ -1,4 +0,0 @@\n-a\n-b\n-c\n-d\n", Err(&told("/dev/null")));
        let two = "--- a/dir/x.txt\n+++ b/dir/x.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+A\n";
        check(TEXT, two, Err(&told("a/y")));
    }

    proptest! {
        #[test]
        fn the_diff_of_two_texts_makes_one_of_the_other(
            old in "([a-c]{0,2}\n){0,30}[a-c]{0,2}", new in "([a-c]{0,2}\n){0,30}[a-c]{0,2}",
        ) {
            let Some(patch) = unified("dir/x.txt", &old, &new) else { return Ok(()) };
            prop_assert_eq!(apply("dir/x.txt", &old, &patch), Ok(new.clone()), "{}", &patch);
            if LineEnds::of(&old) == LineEnds::Lf {
                prop_assert_eq!(apply("dir/x.txt", &to_crlf(&old), &patch), Ok(to_crlf(&new)), "{}", &patch);
            }
        }

        #[test]
        fn no_patch_panics(text in "\\PC{0,30}", patch in "(([-+ @\\\\]|--- |\\+\\+\\+ |@@ -1,2 \\+1,2 @@)\\PC{0,6}\n){0,12}") {
            drop(apply("x", &text, &patch));
        }
    }
}
