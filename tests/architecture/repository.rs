//! The repository as files: what there is, what stands at its top, and what its texts may not say.

use std::path::Path;
use std::process::Command;

use crate::places::TOP_LEVEL;

/// Every file that git tracks or would track, as a path from the top with `/`, sorted.
///
/// # Panics
///
/// If git is missing or `top` is no work tree.
#[expect(clippy::disallowed_methods, reason = "git alone knows which files belong to the repository")]
pub(crate) fn files(top: &Path) -> Vec<String> {
    let output = Command::new("git")
        // The checkout may belong to another user than the one who tests it.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(top)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let mut files: Vec<String> =
        listed.split_terminator('\0').filter(|path| top.join(path).is_file()).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    files
}

/// The names at the top that are none of the layout.
pub(crate) fn unknown_at_top(files: &[String]) -> Vec<&str> {
    let mut unknown: Vec<&str> =
        files.iter().filter_map(|path| path.split('/').next()).filter(|name| !TOP_LEVEL.contains(name)).collect();
    unknown.dedup();
    unknown
}

/// Lines of `text`, from 1, that name a folder of one particular machine.
pub(crate) fn machine_paths(text: &str) -> Vec<usize> {
    // In two parts, so that this file does not name them either.
    let roots = [("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Us", "ers/")].map(|(a, b)| format!("{a}{b}"));
    let goes_on = |c: char| c.is_alphanumeric() || "._-~}>".contains(c);
    let names_one = |line: &str| {
        roots.iter().any(|root| line.match_indices(root.as_str()).any(|(at, _)| !line[..at].ends_with(goes_on)))
    };
    let lines = text.lines().zip(1..);
    lines.filter(|(line, _)| names_one(line)).map(|(_, number)| number).collect()
}

/// The commands in the fenced block below the heading `heading` of a Markdown text.
pub(crate) fn commands_below<'a>(markdown: &'a str, heading: &str) -> Vec<&'a str> {
    markdown
        .lines()
        .skip_while(|line| *line != heading)
        .skip_while(|line| !line.starts_with("```"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .collect()
}

/// Whether `script` has `command` as a line of its own.
pub(crate) fn runs(script: &str, command: &str) -> bool {
    script.lines().any(|line| line.trim() == command)
}

/// Whether a manifest takes the lints of the workspace.
pub(crate) fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().skip_while(|line| *line != "[lints]").skip(1);
    lines.next() == Some("workspace = true")
}

#[test]
fn strangers_at_the_top_are_found() {
    let files = ["README.md", "notes.txt", "scratch/a.rs", "scratch/b.rs", "src/lib.rs"].map(str::to_owned);
    assert_eq!(unknown_at_top(&files), ["notes.txt", "scratch"]);
}

#[test]
fn machine_paths_are_found() {
    let text = "see /ho|me/me/x\nnetwork/wo|rk/x\n`/ro|ot/.cargo`\n~/wo|rk/x\n$HO|ME/wo|rk/".replace('|', "");
    assert_eq!(machine_paths(&text), [1, 3]);
}

#[test]
fn a_command_that_drifted_is_found() {
    let readme = "# A\n## Run\n```sh\ncargo run\n```\n## Test\nText.\n```sh\ncargo test --workspace\n```\n";
    assert_eq!(commands_below(readme, "## Test"), ["cargo test --workspace"]);
    assert!(runs("f() {\n    cargo test --workspace\n}", "cargo test --workspace"));
    assert!(!runs("# cargo test --workspace\ncargo test --workspace --lib", "cargo test --workspace"));
}

#[test]
fn manifests_without_lints_are_found() {
    assert!(inherits_lints("[package]\n\n[lints]\nworkspace = true\n"));
    assert!(!inherits_lints("[package]\n\n[dependencies]\nworkspace = true\n"));
}
