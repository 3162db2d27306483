//! `linn sessions`.

use crate::stage::{Stage, says, stderr, stdout};

#[test]
fn sessions_are_listed_renamed_resumed_and_deleted() {
    let stage = Stage::new();
    let folder = stage.path("sessions");
    let sessions = |arguments: &[&str]| {
        let all: Vec<&str> = ["sessions"]
            .into_iter()
            .chain(arguments.iter().copied())
            .chain(["--sessions", folder.to_str().unwrap()])
            .collect();
        let output = stage.linn(&all);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(sessions(&["list"]), "");
    let model = stage.recording("r", &[says("Hello there.")]);
    stage.run("say hello to the world", &model, &[]);
    let listed = sessions(&["list"]);
    assert!(listed.contains("say hello to the world"), "{listed}");
    let id = listed.split_whitespace().find(|it| it.len() == 16).unwrap().to_owned();

    sessions(&["rename", &id, "A greeting"]);
    assert!(sessions(&["list"]).contains("A greeting"));
    sessions(&["delete", &id]);
    assert_eq!(sessions(&["list"]), "");

    let gone = stage.run("go on", &model, &["--resume", &id]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains(&id), "{}", stderr(&gone));
}
