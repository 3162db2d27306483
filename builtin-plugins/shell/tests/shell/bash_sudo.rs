//! Commands that call `sudo`, with a `sudo` that is a script.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use linn_bus::Next;
use linn_plugin_shell::{BashConfig, EnvironmentConfig, ShellConfig, SudoPrompt};
use linn_services::events::InteractionSudo;
use linn_services::interaction::{Password, SudoAnswer};
use linn_services::model::text_of;
use linn_services::tools::ToolExecutionInput;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{World, run_with};

/// Takes `-S -v` with the right password in its input, and then runs commands, which it refuses before.
const SUDO: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$*" in
"-S -p  -v") read -r password; [ "$password" = hunter2 ] || { echo "1 incorrect password attempt" >&2; exit 1; }
    touch "$here/ticket" ;;
"-n true") [ -e "$here/free" ] ;;
"-n "*) [ -e "$here/ticket" ] || { echo "a password is required" >&2; exit 1; }; shift; exec "$@" ;;
*) echo "called with: $*" >&2; [ -e "$here/free" ] && exec "$@"; exit 1 ;;
esac
"#;

/// A folder with `sudo` in it, and a config by which commands find it first.
fn with_sudo(prompt: SudoPrompt) -> (TempDir, ShellConfig) {
    let folder = tempfile::tempdir().unwrap();
    let sudo = folder.path().join("sudo");
    std::fs::write(&sudo, SUDO).unwrap();
    std::fs::set_permissions(&sudo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let environment = EnvironmentConfig { set: [("PATH".to_owned(), path)].into(), ..EnvironmentConfig::default() };
    let bash = BashConfig { sudo: prompt, ..BashConfig::default() };
    (folder, ShellConfig { environment, bash, ..ShellConfig::default() })
}

/// Answers questions about `sudo`, and keeps what was asked.
fn answering(world: &World, answer: SudoAnswer) -> Arc<Mutex<Vec<String>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    let listener = move |it: &InteractionSudo, _: Next<'_, InteractionSudo>| {
        kept.lock().unwrap().push(it.question.command.clone());
        std::future::ready(answer.clone())
    };
    world.root.on(listener).unwrap();
    asked
}

async fn told(world: &World, line: &str) -> (String, bool) {
    let input = ToolExecutionInput::new("c1", "bash", json!({ "command": line }));
    let result = world.tools.execute(input).await.unwrap();
    (text_of(&result.content), result.is_error)
}

fn password(text: &str) -> SudoAnswer {
    SudoAnswer::Approved(Password::new(text.to_owned()))
}

fn has_ticket(folder: &Path) -> bool {
    folder.join("ticket").exists()
}

#[test]
fn with_the_password_it_runs_and_no_command_sees_that() {
    let (folder, config) = with_sudo(SudoPrompt::Always);
    run_with(config, async |world| {
        let asked = answering(&world, password("hunter2"));
        let line = "cat; set; env; echo \"[$LINN_PASSWORD]\"; sudo echo with more rights";
        let (text, is_error) = told(&world, line).await;
        assert!(!is_error && text.contains("[]\nwith more rights\n"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(*asked.lock().unwrap(), [line]);
        assert!(has_ticket(folder.path()));
    });
}

#[test]
fn with_a_wrong_password_nothing_runs() {
    let (folder, config) = with_sudo(SudoPrompt::Always);
    run_with(config, async |world| {
        answering(&world, password("guess"));
        let (text, is_error) = told(&world, "echo before; sudo echo with more rights").await;
        assert!(is_error && text.contains("1 incorrect password attempt") && !text.contains("before"), "{text}");
        assert!(!has_ticket(folder.path()));
    });
}

#[test]
fn declined_it_does_not_run_and_that_is_no_error() {
    let (folder, config) = with_sudo(SudoPrompt::Always);
    run_with(config, async |world| {
        answering(&world, SudoAnswer::Declined);
        let (text, is_error) = told(&world, "touch ran; sudo ls").await;
        assert!(text.starts_with("The user declined the sudo request — the command was NOT run. "), "{text}");
        assert!(!is_error && !has_ticket(folder.path()));
    });
}

#[test]
fn with_nobody_to_ask_it_does_not_run() {
    let (_folder, config) = with_sudo(SudoPrompt::Always);
    run_with(config, async |world| {
        let (text, is_error) = told(&world, "sudo ls").await;
        assert!(is_error && text.contains("the command was NOT run"), "{text}");
    });
}

#[test]
fn nobody_is_asked_where_no_password_is_needed() {
    let (folder, config) = with_sudo(SudoPrompt::WhenNeeded);
    run_with(config, async |world| {
        let asked = answering(&world, SudoAnswer::Declined);
        std::fs::write(folder.path().join("free"), "").unwrap();
        let (text, is_error) = told(&world, "sudo echo free").await;
        assert!(!is_error && text.starts_with("free\n"), "{text}");
        assert!(asked.lock().unwrap().is_empty());
        std::fs::remove_file(folder.path().join("free")).unwrap();
        let (text, _) = told(&world, "sudo echo free").await;
        assert!(text.starts_with("The user declined"), "{text}");
        assert_eq!(asked.lock().unwrap().len(), 1);
    });
}
