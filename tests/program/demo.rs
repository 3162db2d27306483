//! `linn demo`.

use crate::stage::{Stage, stderr, stdout};

#[test]
fn the_demo_shows_the_main_job_and_leaves_nothing_behind() {
    let stage = Stage::new();
    let output = stage.linn(&["demo", "--fast"]);
    let shown = stdout(&output);
    assert!(output.status.success(), "{shown}\n{}", stderr(&output));
    let mut rest = shown.as_str();
    for part in [
        "No key, no network",
        "● a tool that the model calls",
        "waits for a human's yes",
        "› The check in check.sh fails",
        "● read_file path=greet.sh",
        "name=\"wrold\"",
        "● edit path=greet.sh",
        "-name=\"wrold\"",
        "+name=\"world\"",
        "yes, says the demo",
        "● bash command=sh check.sh",
        "yes, says the demo",
        "ok: Hello, world!",
        "The check passes.",
        "nobody is even asked",
        "› Now delete notes.md",
        "nothing is deleted in this workspace (plugin `no-deletion`)",
        "gave way to a summary",
        "the session, resumed",
        "› What did we do so far?",
        "We mended greet.sh",
        "That is Linn",
    ] {
        let place = rest.find(part).unwrap_or_else(|| panic!("`{part}` is missing, or too early, in\n{shown}"));
        rest = &rest[place + part.len()..];
    }
    assert!(!shown.contains('\u{1b}'), "a pipe gets no styles");
    assert_eq!(std::fs::read_dir(stage.path("tmp")).unwrap().count(), 0, "the temporary folder is empty again");
    assert_eq!(
        std::fs::read_dir(stage.path("home")).unwrap().count(),
        0,
        "the demo writes nothing into the home folder"
    );
}
