//! `linn chat`.

use crate::stage::{Stage, says, stderr, stdout};

#[test]
fn each_line_is_a_turn_of_one_session_and_the_last_one_gives_the_exit_code() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("First answer."), says("Second answer.")]);
    let (work, sessions) = (stage.path("work"), stage.path("sessions"));
    let (work, sessions) = (work.to_str().unwrap(), sessions.to_str().unwrap());
    let arguments = ["chat", "--model", &model, "--workspace", work, "--sessions", sessions];
    let output = stage.linn_with(&arguments, "one\ntwo\n");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} in {shown}"));
    assert!(at("First answer.") < at("two") && at("two") < at("Second answer."));

    let listed = stdout(&stage.linn(&["sessions", "list", "--sessions", sessions]));
    assert_eq!(listed.lines().count(), 1, "{listed}");

    // The recording is used up: the next turn fails, and that is how the conversation ends.
    let model = stage.recording("r", &[says("Only answer.")]);
    let arguments = ["chat", "--model", &model, "--workspace", work, "--sessions", sessions];
    let output = stage.linn_with(&arguments, "one\ntwo\n\nnever sent\n");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(!stdout(&output).contains("never sent"));
}

#[test]
fn without_a_prompt_nothing_is_asked_and_it_ends_with_0() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("Not asked.")]);
    let output = stage.linn(&["chat", "--model", &model, "--sessions", stage.path("sessions").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stdout(&output).contains("Not asked."));
}

#[test]
fn a_denial_does_not_stick_to_later_turns_and_a_line_that_is_no_text_is_passed_over() {
    use std::io::Write as _;
    use std::process::Stdio;

    let stage = Stage::new();
    let call = crate::stage::calls("c", "write_file", &serde_json::json!({ "path": "a", "content": "x" }));
    let model = stage.recording("r", &[call, says("Not allowed."), says("Fine.")]);
    let (work, sessions) = (stage.path("work"), stage.path("sessions"));
    let (work, sessions) = (work.to_str().unwrap(), sessions.to_str().unwrap());
    let mut command = stage.command(&["chat", "--model", &model, "--workspace", work, "--sessions", sessions]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\n\xff\xfe\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let shown = stdout(&output);
    assert!(shown.contains("passed over") && shown.contains("Fine."), "{shown}");
}

#[test]
fn r109_a_prompt_that_no_request_has_room_for_does_not_stand_in_the_way_of_the_next() {
    let stage = Stage::new();
    let model = stage.recording("r", &[says("The short one is fine.")]);
    let (work, sessions) = (stage.path("work"), stage.path("sessions"));
    let (work, sessions) = (work.to_str().unwrap(), sessions.to_str().unwrap());
    let arguments = ["chat", "--model", &model, "--workspace", work, "--sessions", sessions];
    let too_long = "word ".repeat(120_000);
    let output = stage.linn_with(&arguments, &format!("{too_long}\nshort\n"));
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}{}", &shown[..shown.len().min(2_000)], stderr(&output));
    assert!(shown.contains("the context is too large for the model"), "{}", stderr(&output));
    assert!(shown.contains("was taken back") && shown.contains("The short one is fine."), "{}", stderr(&output));
    // It is not lost: the log has it.
    let mut files = std::fs::read_dir(sessions).unwrap().map(|it| it.unwrap().path());
    let log = files.find(|it| it.extension().is_some_and(|it| it == "events")).unwrap();
    assert!(std::fs::read_to_string(log).unwrap().contains(&too_long[..100_000]));
}

#[test]
#[cfg(unix)]
fn commands_of_plugins_are_called_by_name_and_what_plugins_tell_is_shown() {
    use std::os::unix::fs::PermissionsExt as _;

    let stage = Stage::new();
    let folder = "home/.catalyst-code/plugins/greet";
    let manifest = serde_json::json!({
        "name": "greet", "version": "1.0.0",
        "commands": [
            { "name": "greet", "description": "Greets somebody.", "script": "greet.sh" },
            { "name": "ask-kindly", "description": "Asks the model.", "prompt_file": "ask.md" },
        ],
    });
    stage.write(&format!("{folder}/plugin.json"), &manifest.to_string());
    stage.write(&format!("{folder}/ask.md"), "Kindly: {{args}}");
    let script = "#!/bin/sh\ncat >/dev/null\necho '{\"ok\": true, \"output\": \"Hello from a script.\", \"notify\": \"greeted\"}'\n";
    stage.write(&format!("{folder}/greet.sh"), script);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(stage.path(&format!("{folder}/greet.sh")), executable).unwrap();

    let model = stage.recording("r", &[says("The model answers.")]);
    let (work, sessions) = (stage.path("work"), stage.path("sessions"));
    let (work, sessions) = (work.to_str().unwrap(), sessions.to_str().unwrap());
    let arguments = ["chat", "--model", &model, "--workspace", work, "--sessions", sessions];
    let output = stage.linn_with(&arguments, "/help\n/greet Bob\n/ask-kindly please\n");
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", stderr(&output));
    assert!(shown.contains("/greet: Greets somebody. (greet)") && shown.contains("/plugins: "), "{shown}");
    assert!(shown.contains("Hello from a script.") && shown.contains("[greet] greeted"), "{shown}");
    // The prompt of a command is a turn; what a script shows is none, so the one answer of the recording is enough.
    assert!(shown.contains("Kindly: please") && shown.contains("The model answers."), "{shown}");
}
