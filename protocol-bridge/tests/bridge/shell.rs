//! Commands of the human and of the model, on a real runtime.

use std::time::Duration;

use futures_util::future::{Either, select};
use linn_bus::{Root, TokioRuntime};
use linn_plugin_shell::{ShellConfig, ShellPlugin};
use linn_services::tools::Tools;
use linn_services_test::{Gate, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{Setup, World, all, first, types};

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test with a shell in a folder of its own.
fn run(script: impl IntoIterator<Item = Reply>, test: impl AsyncFnOnce(&mut World, &TempDir)) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let root = Root::new(TokioRuntime::seams());
        let config = ShellConfig { workspace: Some(folder.path().to_owned()), ..ShellConfig::default() };
        let setup = Setup { workspace: folder.path().to_owned(), ..Setup::default() };
        let mut world = World::with(root, script, setup).await;
        world.root.mount::<ShellPlugin>(config).unwrap().running().await.unwrap();
        // The tool comes when the service is there.
        let tools = world.root.get::<dyn Tools>().unwrap();
        while tools.get(None, &"bash".into()).unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let clock = world.root.clock().clone();
        let is_late = {
            let tested = std::pin::pin!(test(&mut world, &folder));
            let late = std::pin::pin!(clock.sleep(LIMIT));
            matches!(select(tested, late).await, Either::Right(_))
        };
        assert!(!is_late, "the test takes more than {LIMIT:?}");
        world.front.hang_up();
        world.handle.ended().await;
        world.root.fiber().dispose().await.unwrap();
    });
}

fn user_bash(command: &str) -> Value {
    json!({ "type": "user_bash", "command": command })
}

#[test]
fn a_command_of_the_human_is_run_and_told_to_the_model_6_19() {
    run([Reply::text("ok")], async |world, _| {
        world.send(user_bash("echo out; echo err >&2; exit 3")).await;
        let told = world.event("bash_execution").await;
        assert_eq!((&told["ok"], &told["exclude_from_context"]), (&json!(false), &json!(false)));
        assert_eq!(told["output"], "out\n--- stderr ---\nerr\n\n[exit code 3]");
        assert_eq!(told.get("run_id"), None);
        world.send(json!({ "type": "user_bash", "command": "echo secret", "exclude_from_context": true })).await;
        assert_eq!(world.event("bash_execution").await["exclude_from_context"], true);
        world.prompt("what did I do?").await;
        world.until("done").await;
        let asked = linn_services_test::request_of(&world.model.requests()[0]).join("\n");
        assert!(asked.contains("Ran `echo out; echo err >&2; exit 3`\n```\nout\n"), "{asked}");
        assert!(!asked.contains("secret"));
    });
}

#[test]
fn while_a_turn_runs_the_model_is_told_at_its_end_6_19() {
    let gate = Gate::new();
    run([Reply::text("one").held_at(&gate), Reply::text("two")], async |world, _| {
        world.prompt("first").await;
        gate.reached().await;
        world.send(user_bash("echo meanwhile")).await;
        world.event("bash_execution").await;
        gate.open();
        world.until("done").await;
        world.prompt("second").await;
        world.until("done").await;
        let requests = world.model.requests();
        assert!(!linn_services_test::request_of(&requests[0]).join("\n").contains("meanwhile"));
        assert!(linn_services_test::request_of(&requests[1]).join("\n").contains("meanwhile"));
    });
}

#[test]
fn abort_ends_a_command_of_the_human_6_19() {
    run([], async |world, folder| {
        world.send(user_bash("echo $$ > pid; exec sleep 600")).await;
        let pid = written(&folder.path().join("pid")).await;
        let status = world.status().await;
        assert_eq!(
            (&status["resources"][0]["kind"], &status["resources"][0]["label"]),
            (&json!("subprocess"), &json!("user_bash"))
        );
        world.send(json!({ "type": "abort" })).await;
        let events = [world.next().await, world.next().await];
        let mut told = types(&events);
        told.sort_unstable();
        assert_eq!(told, ["aborted", "bash_execution"]);
        assert_eq!(first(&events, "bash_execution")["output"], "(aborted)");
        gone(&pid).await;
    });
}

#[test]
fn sudo_of_the_human_can_be_declined_while_other_commands_are_served_6_19() {
    run([], async |world, _| {
        world.send(user_bash("sudo mkdir /nothing")).await;
        let request = world.event("sudo_request").await;
        assert_eq!(request["command"], "sudo mkdir /nothing");
        assert_eq!(world.status().await["pending_sudos"], 1);
        world.send(json!({ "type": "sudo_reply", "request_id": request["request_id"], "approved": false })).await;
        let told = world.event("bash_execution").await;
        assert_eq!(told["output"], "(sudo declined — command was not run)");
        assert_eq!((&told["ok"], &told["exclude_from_context"]), (&json!(false), &json!(true)));
    });
}

#[test]
fn sudo_of_the_model_asks_and_a_decline_is_a_result_6_8() {
    let call = Reply::call("c1", "bash", json!({ "command": "sudo true" }));
    run([call, Reply::text("ok")], async |world, _| {
        world.send(json!({ "type": "set_approval", "mode": "never" })).await;
        world.prompt("hi").await;
        let events = world.until("sudo_request").await;
        let request = events.last().unwrap();
        assert!(request["run_id"].is_string());
        world.send(json!({ "type": "sudo_reply", "request_id": request["request_id"], "approved": true })).await;
        let result = world.event("tool_result").await;
        assert_eq!((&result["ok"], &result["status"]), (&json!(true), &json!("success")));
        assert!(result["output"].as_str().unwrap().starts_with("The user declined the sudo request"));
        world.until("done").await;
    });
}

#[test]
fn abort_during_bash_ends_its_process_9() {
    let call = Reply::call("c1", "bash", json!({ "command": "echo $$ > pid; exec sleep 600" }));
    run([call, Reply::text("ok")], async |world, folder| {
        world.send(json!({ "type": "set_approval", "mode": "never" })).await;
        world.prompt("hi").await;
        let pid = written(&folder.path().join("pid")).await;
        world.send(json!({ "type": "abort" })).await;
        let events = world.until("aborted").await;
        assert!(first(&events, "run_cancelled")["duration_ms"].as_u64().unwrap() < 3_000);
        assert!(all(&events, "tool_result").is_empty());
        gone(&pid).await;
        let status = world.status().await;
        assert_eq!(status["resources"], json!([]));
    });
}

#[test]
fn a_command_that_takes_too_long_has_timed_out_5_2() {
    let call = Reply::call("c1", "bash", json!({ "command": "sleep 600", "timeout": 1 }));
    run([call, Reply::text("ok")], async |world, _| {
        world.send(json!({ "type": "set_approval", "mode": "never" })).await;
        world.prompt("hi").await;
        let events = world.until("done").await;
        let result = first(&events, "tool_result");
        assert_eq!((&result["ok"], &result["status"]), (&json!(false), &json!("timed_out")));
    });
}

/// Waits until a process is gone.
async fn gone(pid: &str) {
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        tokio::task::yield_now().await;
    }
}

/// What a command writes into a file, once it has.
async fn written(file: &std::path::Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Commands that wait for a word in a pipe, and a word for them.
const AT_GATE: &str = "mkfifo gate; read x < gate; echo one >> order";

async fn open_gate(folder: &TempDir) {
    let gate = folder.path().join("gate");
    while !gate.exists() {
        tokio::task::yield_now().await;
    }
    std::fs::write(gate, "go\n").unwrap();
}

#[test]
fn commands_of_the_human_run_one_after_the_other_6_19() {
    run([], async |world, folder| {
        world.send(user_bash(AT_GATE)).await;
        world.send(user_bash("echo two >> order")).await;
        let status = world.status().await;
        assert_eq!(status["resources"].as_array().map(Vec::len), Some(2), "{status}");
        open_gate(folder).await;
        assert_eq!(world.event("bash_execution").await["command"], AT_GATE);
        assert_eq!(world.event("bash_execution").await["command"], "echo two >> order");
        assert_eq!(std::fs::read_to_string(folder.path().join("order")).unwrap(), "one\ntwo\n");
    });
}

#[test]
fn so_many_commands_wait_and_no_more_and_an_abort_ends_them_all_6_19() {
    run([], async |world, folder| {
        world.send(user_bash(AT_GATE)).await;
        for _ in 0..65 {
            world.send(user_bash("touch ran")).await;
        }
        let error = world.event("error").await;
        assert_eq!(error["message"], "64 commands wait already; `touch ran` is not run");
        world.send(json!({ "type": "abort" })).await;
        for _ in 0..65 {
            assert_eq!(world.event("bash_execution").await["output"], "(aborted)");
        }
        assert!(!folder.path().join("ran").exists());
    });
}

#[test]
fn a_reset_beside_a_command_of_the_human_is_between_two_turns_6_19() {
    run([], async |world, _| {
        for _ in 0..40 {
            world.send(user_bash("true")).await;
            world.send(json!({ "type": "reset" })).await;
            let events = world.until("reset").await;
            assert!(!types(&events).contains(&"error"), "{events:?}");
            let is_told = types(&events).contains(&"bash_execution");
            if !is_told {
                world.event("bash_execution").await;
            }
        }
    });
}
