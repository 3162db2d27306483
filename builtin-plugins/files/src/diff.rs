//! What changed in a text, for people.

use diffy::create_patch;

/// How many lines a diff has at most.
const MAX_LINES: usize = 4_000;

/// How many lines may stand against each other: lines before times lines after, without those at both ends that are the same.
const MAX_PRODUCT: usize = 4_000_000;

/// The change of a file as a unified diff with three lines around each change; `None` if there is none.
pub(crate) fn unified(path: &str, old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let header = format!("--- a/{path}\n+++ b/{path}\n");
    let (n_old, n_new) = (old.lines().count(), new.lines().count());
    let n_same = n_same_lines(old, new);
    if n_old.saturating_sub(n_same).saturating_mul(n_new.saturating_sub(n_same)) > MAX_PRODUCT {
        return Some(format!("{header}… large change ({n_old} → {n_new} lines); diff omitted for size …\n"));
    }
    let patch = create_patch(old, new).to_string();
    // Its header is not ours: it has no path.
    let hunks = patch.splitn(3, '\n').nth(2).unwrap_or_default();
    let diff = header + hunks;
    let mut lines = diff.split_inclusive('\n');
    let first: String = lines.by_ref().take(MAX_LINES - 1).collect();
    let n_left = lines.count();
    match n_left {
        0 | 1 => Some(diff),
        _ => Some(format!("{first}… {n_left} more lines of diff …\n")),
    }
}

/// How many lines at the beginning and at the end are the same.
fn n_same_lines(old: &str, new: &str) -> usize {
    let n_first = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let rest = |text: &str| text.lines().count() - n_first;
    let room = rest(old).min(rest(new));
    n_first + old.lines().rev().zip(new.lines().rev()).take(room).take_while(|(old, new)| old == new).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: usize) -> String {
        (0..n).map(|it| format!("{it}\n")).collect()
    }

    #[test]
    fn a_change_has_three_lines_around_it() {
        let old = numbered(20);
        let new = old.replace("\n10\n", "\nten\n");
        let expected = "--- a/x.txt\n+++ b/x.txt\n@@ -8,7 +8,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n";
        assert_eq!(unified("x.txt", &old, &new).unwrap(), expected);
        assert_eq!(unified("x.txt", &old, &old), None);
    }

    #[test]
    fn a_new_file_and_a_missing_last_line_end_show() {
        let diff = unified("x", "", "a").unwrap();
        assert_eq!(diff, "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n");
    }

    #[test]
    fn a_change_that_is_too_large_is_told_and_not_shown() {
        let old = numbered(2_001);
        let new = old.lines().map(|it| format!("new {it}\n")).collect::<String>();
        let diff = unified("x", &old, &new).unwrap();
        let told = "… large change (2001 → 2001 lines); diff omitted for size …\n";
        assert_eq!(diff, format!("--- a/x\n+++ b/x\n{told}"));
    }

    #[test]
    fn a_small_change_of_a_large_file_is_shown() {
        let old = numbered(50_000);
        let diff = unified("x", &old, &old.replace("\n777\n", "\n7\n")).unwrap();
        assert!(diff.contains("-777\n+7\n"), "{diff}");
    }

    #[test]
    fn a_long_diff_is_cut() {
        let diff = unified("x", "", &numbered(10_000)).unwrap();
        assert_eq!(diff.lines().count(), MAX_LINES);
        assert!(diff.ends_with("… 6004 more lines of diff …\n"), "{}", &diff[diff.len() - 60..]);
    }
}
