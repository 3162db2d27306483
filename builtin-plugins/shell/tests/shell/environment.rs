//! What commands find in their environment.

use std::collections::BTreeMap;

use linn_plugin_shell::{EnvironmentConfig, ShellConfig};
use linn_services::events::ShellOutputChunk;
use linn_services::model::text_of;
use linn_services::shell::ShellCommand;
use linn_services::tools::ToolExecutionInput;
use serde_json::json;

use crate::support::{run, run_with, stdout};

/// Runs a test again in a process of its own, with secrets in its environment; whether this is that process.
fn with_secrets(test: &str) -> bool {
    if std::env::var_os("MODEL_KEY").is_some() {
        return true;
    }
    #[expect(clippy::disallowed_methods, reason = "the environment of a process is set where the process is started")]
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env("MODEL_KEY", "sk-test-123").env("MY_HOUSE", "of-my-own").env("LINN_SECRET_THING", "thing-thing");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "no test is called {test}");
    false
}

fn config() -> ShellConfig {
    let environment = EnvironmentConfig { secret: vec!["MY_HOUSE".to_owned()], ..EnvironmentConfig::default() };
    ShellConfig { environment, ..ShellConfig::default() }
}

#[test]
fn r138_the_key_of_the_model_does_not_reach_commands() {
    if !with_secrets("environment::r138_the_key_of_the_model_does_not_reach_commands") {
        return;
    }
    run_with(config(), async |world| {
        let text = stdout(&world.line("env").await);
        for secret in ["MODEL_KEY", "sk-test-123", "MY_HOUSE", "of-my-own", "LINN_SECRET_THING"] {
            assert!(!text.contains(secret), "{secret} is in:\n{text}");
        }
        assert!(text.contains("PATH=") && text.contains("TERM=dumb") && text.contains("LINN_CALL="), "{text}");
    });
}

#[test]
fn r138_r139_a_key_that_a_command_finds_elsewhere_is_not_told() {
    if !with_secrets("environment::r138_r139_a_key_that_a_command_finds_elsewhere_is_not_told") {
        return;
    }
    run_with(config(), async |world| {
        let heard = linn_bus_test::Recorder::new();
        heard.note(&world.root, |it: &ShellOutputChunk| it.text.clone()).unwrap();
        // The environment of the harness, as its children can read it, and a key that the model wrote itself.
        let line = format!(
            "tr '\\0' '\\n' < /proc/{}/environ; echo 'https://h.invalid/?apikey=sk-test-123'; echo sk-test-123 >&2",
            std::process::id()
        );
        let input = ToolExecutionInput::new("c1", "bash", json!({ "command": line }));
        let result = world.tools.execute(input).await.unwrap();
        let text = text_of(&result.content);
        let told = heard.heard::<String>().concat();
        for text in [&text, &told] {
            assert!(text.contains("https://h.invalid/?apikey=[redacted]\n"), "{text}");
            assert!(text.contains("MODEL_KEY=[redacted]"), "{text}");
            assert!(!text.contains("sk-test-123") && !text.contains("of-my-own"), "{text}");
        }
    });
}

#[test]
fn a_call_sets_and_takes_variables_on_top() {
    let set = BTreeMap::from([("A".to_owned(), "config".to_owned()), ("B".to_owned(), "config".to_owned())]);
    let environment = EnvironmentConfig { set, ..EnvironmentConfig::default() };
    run_with(ShellConfig { environment, ..ShellConfig::default() }, async |world| {
        let env = BTreeMap::from([("A".to_owned(), Some("call".to_owned())), ("B".to_owned(), None)]);
        let command = ShellCommand { env, ..ShellCommand::line("echo $A ${B-none} $GIT_TERMINAL_PROMPT") };
        assert_eq!(stdout(&world.shell.run(command).await.unwrap()), "call none 0\n");
    });
}

#[test]
fn each_call_has_a_mark_of_its_own() {
    run(async |world| {
        let (one, other) = (world.line("echo $LINN_CALL").await, world.line("echo $LINN_CALL").await);
        assert!(stdout(&one).len() > 32 && one != other);
    });
}
