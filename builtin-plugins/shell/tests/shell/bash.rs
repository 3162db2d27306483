//! The tool `bash`, in the words that front ends and models know.

use std::path::{Path, PathBuf};

use linn_bus_test::Recorder;
use linn_plugin_shell::{BashConfig, ShellConfig};
use linn_services::events::{SettingsChanged, ShellOutputChunk};
use linn_services::model::text_of;
use linn_services::shell::ShellStream;
use linn_services::tools::{RESULT_LIMIT_BYTES, ToolClass, ToolExecutionInput, ToolExecutionResult};
use linn_services_test::undriven_agent;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{HELD_S, World, is_reaped, run, run_with, until};

async fn bash(world: &World, arguments: Value) -> ToolExecutionResult {
    world.tools.execute(ToolExecutionInput::new("c1", "bash", arguments)).await.unwrap()
}

/// What the model reads of a line, and whether it failed.
async fn told(world: &World, line: &str) -> (String, bool) {
    let result = bash(world, json!({ "command": line })).await;
    (text_of(&result.content), result.is_error)
}

fn told_as(text: &str, is_error: bool) -> (String, bool) {
    (text.to_owned(), is_error)
}

fn with_limit(limit_bytes: usize) -> ShellConfig {
    ShellConfig { bash: BashConfig { limit_bytes, ..BashConfig::default() }, ..ShellConfig::default() }
}

#[test]
fn output_is_told_in_the_words_of_the_protocol() {
    run(async |world| {
        assert_eq!(told(&world, "echo hello").await, told_as("hello\n", false));
        let both = told(&world, "echo out; echo err >&2").await;
        assert_eq!(both, told_as("out\n\n--- stderr ---\nerr\n", false));
        assert_eq!(told(&world, "true").await, told_as("(no output)", false));
        assert_eq!(told(&world, "echo a; exit 3").await, told_as("a\n[exit code 3]", true));
        assert_eq!(told(&world, "false").await, told_as("(no output)\n[exit code 1]", true));
        assert_eq!(told(&world, "kill -9 $$").await, told_as("(no output)\n[ended by signal 9]", true));
    });
}

#[test]
fn a_result_says_for_front_ends_how_it_ended() {
    run(async |world| {
        let meta = bash(&world, json!({ "command": "exit 3" })).await.meta.unwrap();
        let expected =
            json!({ "exitCode": 3, "signal": null, "timedOut": false, "leftBehind": false, "outputFiles": [] });
        assert_eq!(meta, expected);
    });
}

#[test]
fn the_tool_counts_as_destructive_and_runs_alone() {
    run(async |world| {
        let tool = world.tools.get(None, &"bash".into()).unwrap().unwrap();
        assert_eq!((tool.class, tool.is_parallel), (ToolClass::Destructive, false));
        assert_eq!(tool.schema.parameters["required"], json!(["command"]));
    });
}

#[test]
fn r118_a_time_limit_is_told_with_the_output_so_far() {
    let bash_config = BashConfig { timeout_s: HELD_S, max_timeout_s: HELD_S, ..BashConfig::default() };
    run_with(ShellConfig { bash: bash_config, ..ShellConfig::default() }, async |world| {
        let recorder = Recorder::new();
        recorder.note(&world.root, |it: &ShellOutputChunk| it.text.clone()).unwrap();
        let fire = async {
            recorder.nth::<String>(1).await;
            world.fire.cancel();
        };
        let ((text, is_error), ()) = futures_util::future::join(told(&world, "echo so far; sleep 300"), fire).await;
        assert_eq!((text.as_str(), is_error), ("bash timed out after 3600s (killed)\nso far\n", true));
    });
}

#[test]
fn a_time_limit_is_held_within_its_bounds() {
    let bash_config = BashConfig { timeout_s: 1, max_timeout_s: 1, ..BashConfig::default() };
    run_with(ShellConfig { bash: bash_config, ..ShellConfig::default() }, async |world| {
        let result = bash(&world, json!({ "command": "sleep 300", "timeout": 100_000 })).await;
        assert_eq!(text_of(&result.content), "bash timed out after 1s (killed)\n(no output)");
        let refused = bash(&world, json!({ "command": "true", "timeout": 0 })).await;
        assert!(refused.is_error && text_of(&refused.content).contains("timeout"), "{refused:?}");
    });
}

#[test]
fn a_time_limit_that_is_set_while_the_program_runs_holds_from_then_on() {
    let bash_config = BashConfig { timeout_s: 1, max_timeout_s: HELD_S, ..BashConfig::default() };
    run_with(ShellConfig { bash: bash_config, ..ShellConfig::default() }, async |world| {
        let changed = |name: &str, value| SettingsChanged { name: name.to_owned(), value };
        world.root.emit(&changed("shell.timeout_secs", json!(100 * HELD_S)));
        // What is none of its business, or no number, changes nothing.
        world.root.emit(&changed("diagnostics.timeout_secs", json!(1)));
        world.root.emit(&changed("shell.timeout_secs", json!("soon")));
        let recorder = Recorder::new();
        recorder.note(&world.root, |it: &ShellOutputChunk| it.text.clone()).unwrap();
        let fire = async {
            recorder.nth::<String>(1).await;
            world.fire.cancel();
        };
        let ((text, _), ()) = futures_util::future::join(told(&world, "echo so far; sleep 300"), fire).await;
        assert_eq!(text, "bash timed out after 3600s (killed)\nso far\n", "no longer than the most");
    });
}

#[test]
fn a_command_on_the_denylist_does_not_run() {
    run(async |world| {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("touch {}/ran; : mkfs", folder.path().display());
        let (text, is_error) = told(&world, &line).await;
        assert_eq!(text, "bash command blocked by denylist (matched 'mkfs'); use a sandbox for hard isolation");
        assert!(is_error && !folder.path().join("ran").exists());
        let (text, is_error) = told(&world, " \n").await;
        assert!(is_error && text.ends_with("bash: the command is empty"), "{text}");
    });
}

#[test]
fn r048_the_folder_of_a_session_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().to_owned();
    run_with(ShellConfig { workspace: Some(workspace.clone()), ..ShellConfig::default() }, async |world| {
        let (text, _) = told(&world, "pwd").await;
        assert_eq!(Path::new(text.trim()), workspace.canonicalize().unwrap());
        folder.close().unwrap();
        let (text, is_error) = told(&world, "pwd").await;
        assert!(is_error && text.contains(&format!("cannot run a command in {}: ", workspace.display())), "{text}");
    });
}

#[test]
fn a_command_runs_in_the_folder_of_its_session_and_is_told_to_its_agent() {
    run(async |world| {
        let (ada, bob) = (undriven_agent(&world.root, "ada").await, undriven_agent(&world.root, "bob").await);
        let (to_ada, to_bob) = (Recorder::new(), Recorder::new());
        let note = |it: &ShellOutputChunk| (it.call_id.to_string(), it.stream, it.text.clone());
        to_ada.note(ada.agent().context(), note).unwrap();
        to_bob.note(bob.agent().context(), note).unwrap();
        let input = ToolExecutionInput::new("c7", "bash", json!({ "command": "pwd" }));
        world.tools.execute(ToolExecutionInput { agent: Some(ada.agent().clone()), ..input }).await.unwrap();
        let heard = to_ada.heard::<(String, ShellStream, String)>();
        assert_eq!(heard, [("c7".to_owned(), ShellStream::Stdout, "/\n".to_owned())]);
        assert!(to_bob.names().is_empty());
    });
}

#[test]
fn output_is_told_while_the_command_runs() {
    run(async |world| {
        let recorder = Recorder::new();
        recorder.note(&world.root, |it: &ShellOutputChunk| it.text.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let line = format!("echo first; while ! test -e {}; do sleep 0.01; done; echo second", go.display());
        let go_on = async {
            assert_eq!(recorder.nth::<String>(1).await, "first\n");
            std::fs::write(&go, "").unwrap();
        };
        let ((text, _), ()) = futures_util::future::join(told(&world, &line), go_on).await;
        assert_eq!(text, "first\nsecond\n");
        assert_eq!(recorder.heard::<String>().concat(), text);
    });
}

#[test]
fn r117_what_is_left_behind_is_told() {
    run(async |world| {
        let (text, is_error) = told(&world, "sleep 300 & echo done").await;
        assert!(!is_error && text.starts_with("done\n[a background process still holds the output open"), "{text}");
    });
}

#[test]
fn r120_a_cut_never_falls_into_a_character() {
    for character in ["\u{4e2d}", "\u{1f642}"] {
        for limit in 29_998..=30_003 {
            run_with(with_limit(limit), async |world| {
                let python = format!("import sys; sys.stdout.write('a' * 29999 + '{character}' + 'b' * 10)");
                let (text, is_error) = told(&world, &format!("python3 -c \"{python}\"")).await;
                let n_bytes = 29_999 + character.len() + 10;
                assert!(!is_error && text.len() <= limit && !text.contains('\u{fffd}'), "{limit}: {}", text.len());
                assert!(text.contains(&format!(" of {n_bytes} bytes shown")), "{limit}");
            });
        }
    }
}

#[test]
fn r121_raw_bytes_survive_as_text() {
    run(async |world| {
        let line = r"printf 'a\000b\377c\033[2J\033]0;title\007d\r\ne'";
        let result = bash(&world, json!({ "command": line })).await;
        assert_eq!(text_of(&result.content), "a\0b\u{fffd}c\u{1b}[2J\u{1b}]0;title\u{7}d\r\ne");
        let line = serde_json::to_string(&result).unwrap();
        assert!(line.contains(r"a\u0000b") && line.contains(r"\u001b[2J") && line.bytes().all(|it| it >= b' '));
    });
}

#[test]
fn r122_long_output_is_cut_and_all_of_it_can_be_read_by_bytes() {
    run_with(with_limit(4_000), async |world| {
        let line = "(echo begin; head -c 52428800 /dev/zero | tr '\\0' x; echo; echo middle; head -c 5000 /dev/zero | tr '\\0' y)";
        let result = bash(&world, json!({ "command": line })).await;
        let text = text_of(&result.content);
        assert!(text.len() <= 4_000 && text.starts_with("begin\nxxx") && text.ends_with("yyy"), "{}", text.len());
        let path = result.meta.unwrap()["outputFiles"][0].as_str().unwrap().to_owned();
        assert!(text.contains(&format!(" of 52433814 bytes shown; all of it is in {path}")), "{text}");
        let (part, _) = told(&world, &format!("tail -c +52428807 {path} | head -c 9")).await;
        assert_eq!(part, "\nmiddle\ny");
        world.plugin.dispose().await.unwrap();
        assert!(!PathBuf::from(&path).exists() && !PathBuf::from(path).parent().unwrap().exists());
    });
}

#[test]
fn long_output_is_cut_once_and_says_so_once() {
    run(async |world| {
        let (text, is_error) = told(&world, "seq 1 20000; echo 'error: it ends' >&2; exit 1").await;
        assert!(is_error && text.len() <= RESULT_LIMIT_BYTES, "{}", text.len());
        assert_eq!((text.matches(" bytes shown").count(), text.matches("output truncated").count()), (1, 0), "{text}");
        assert!(text.starts_with("1\n2\n3\n") && text.contains("\n19999\n20000\n"), "{text}");
        assert!(text.ends_with("--- stderr ---\nerror: it ends\n[exit code 1]"), "{}", &text[text.len() - 200..]);
    });
}

#[test]
fn r122_what_is_kept_of_long_output_has_limits() {
    let folder = tempfile::tempdir().unwrap();
    let bash_config = BashConfig {
        limit_bytes: 2_000,
        output_folder: Some(folder.path().to_owned()),
        output_limit_bytes: 10_000,
        n_outputs: 2,
        ..BashConfig::default()
    };
    run_with(ShellConfig { bash: bash_config, ..ShellConfig::default() }, async |world| {
        for _ in 0..3 {
            let (text, _) = told(&world, "head -c 20000 /dev/zero").await;
            assert!(text.contains(" of 20000 bytes shown; the first 10000 bytes are in "), "{text}");
        }
        let kept = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let sizes: Vec<u64> =
            std::fs::read_dir(kept).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes, [10_000, 10_000]);
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn output_that_cannot_be_kept_is_cut_all_the_same() {
    let bash_config =
        BashConfig { limit_bytes: 2_000, output_folder: Some("/nowhere/at/all".into()), ..BashConfig::default() };
    run_with(ShellConfig { bash: bash_config, ..ShellConfig::default() }, async |world| {
        let (text, is_error) = told(&world, "head -c 20000 /dev/zero").await;
        assert!(!is_error && text.contains(" of 20000 bytes shown]..."), "{text}");
    });
}

#[test]
fn r110_r112_a_call_that_is_aborted_leaves_no_process() {
    run(async |world| {
        let recorder = Recorder::new();
        recorder.note(&world.root, |it: &ShellOutputChunk| it.text.clone()).unwrap();
        let signal = CancellationToken::new();
        let arguments = json!({ "command": "trap '' TERM; echo $$; while :; do sleep 300; done" });
        let input = ToolExecutionInput { signal: signal.clone(), ..ToolExecutionInput::new("c1", "bash", arguments) };
        let cancel = async {
            let pid: i32 = recorder.nth::<String>(1).await.trim().parse().unwrap();
            signal.cancel();
            pid
        };
        let (result, pid) = futures_util::future::join(world.tools.execute(input), cancel).await;
        let result = result.unwrap();
        assert!(result.is_error && text_of(&result.content).contains("aborted"), "{result:?}");
        until(|| is_reaped(pid)).await;
    });
}

#[test]
fn r111_calls_beside_each_other_end_each_on_its_own() {
    run(async |world| {
        let signal = CancellationToken::new();
        let call = |id: &str, line: &str| {
            let input = ToolExecutionInput::new(id, "bash", json!({ "command": line }));
            world.tools.execute(ToolExecutionInput { signal: signal.clone(), ..input })
        };
        let first = async {
            let result = call("c1", "echo real").await.unwrap();
            signal.cancel();
            result
        };
        let (first, second) = futures_util::future::join(first, call("c2", "sleep 300")).await;
        assert_eq!((text_of(&first.content).as_str(), first.is_error), ("real\n", false));
        assert!(text_of(&second.unwrap().content).contains("aborted"));
    });
}
