//! Sessions in files that the front end names.

use std::path::{Path, PathBuf};

use linn_bus::{Root, listener};
use linn_bus_test::run;
use linn_plugin_session_store::{SessionStoreConfig, SessionStorePlugin};
use linn_services::events::SessionFlush;
use linn_services_test::{Gate, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{Setup, World, first, text_of, types};

/// A world whose sessions are kept in a folder.
async fn world(root: Root, folder: &TempDir, file: &str, script: impl IntoIterator<Item = Reply>) -> World {
    let store = SessionStoreConfig::new(folder.path().join("unnamed"));
    root.mount::<SessionStorePlugin>(store).unwrap().running().await.unwrap();
    let session = Some(folder.path().join(file));
    let setup = Setup { session, workspace: folder.path().to_owned(), ..Setup::default() };
    World::with(root, script, setup).await
}

fn path_of(folder: &TempDir, file: &str) -> PathBuf {
    folder.path().join(file)
}

fn lines_of(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

async fn ended(mut world: World) {
    world.front.hang_up();
    world.handle.ended().await;
    world.root.fiber().dispose().await.unwrap();
}

#[test]
fn a_session_goes_on_after_a_restart_2_2() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one")]).await;
        world.prompt("first").await;
        world.until("done").await;
        ended(world).await;
    });
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("two")]).await;
        world.send(json!({ "type": "init" })).await;
        let events = world.until("history").await;
        assert_eq!(types(&events), ["ready", "protocol_hello", "skills", "agents", "history"]);
        assert_eq!(events[0]["resumed_messages"], 2);
        let expected = json!([{ "role": "user", "content": "first" }, { "role": "assistant", "content": "one" }]);
        assert_eq!(events[4]["messages"], expected);
        world.prompt("second").await;
        world.until("done").await;
        assert_eq!(linn_services_test::request_of(&world.model.requests()[0]).len(), 3);
        ended(world).await;
    });
}

#[test]
fn runs_are_noted_beside_the_messages_3_7() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let call = Reply::call("c1", "echo", json!({ "text": "x" }));
        let mut world = world(root, &folder, "a.jsonl", [call, Reply::text("one")]).await;
        world.add_tools();
        world.prompt("first").await;
        let run = world.until("done").await[0]["run_id"].clone();
        ended(world).await;
        let notes: Vec<Value> =
            lines_of(&path_of(&folder, "a.jsonl")).iter().filter_map(|it| it.get("_run").cloned()).collect();
        let told: Vec<_> =
            notes.iter().map(|it| (it["kind"].as_str().unwrap(), it["state"].as_str().unwrap())).collect();
        assert_eq!(told, [("run", "started"), ("tool", "started"), ("tool", "completed"), ("run", "completed")]);
        assert_eq!(notes[0]["run_id"], run);
        assert_eq!(notes[1]["run_id"], format!("{}:tool:c1", run.as_str().unwrap()));
        assert_eq!((&notes[1]["parent_run_id"], &notes[1]["tool_call_id"]), (&run, &json!("c1")));
        assert!(notes[0]["timestamp_ms"].is_u64() && notes[0]["session_id"].as_str().unwrap().starts_with("session-"));
    });
}

#[test]
fn what_was_cut_off_is_reported_once_2_6() {
    let folder = tempfile::tempdir().unwrap();
    let file = path_of(&folder, "a.jsonl");
    let note = |id: &str, state: &str| {
        json!({ "_run": {
        "session_id": "session-x", "run_id": id, "kind": "tool", "parent_run_id": "run-p", "tool_call_id": "c9",
        "state": state, "timestamp_ms": 1,
    } })
    };
    let lines = [
        json!({ "_session_version": 2 }).to_string(),
        json!({ "role": "user", "content": "hi" }).to_string(),
        note("run-done", "started").to_string(),
        note("run-done", "completed").to_string(),
        note("run-open", "started").to_string(),
    ];
    std::fs::write(&file, lines.join("\n") + "\n{\"role\":\"assis").unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", []).await;
        world.send(json!({ "type": "init" })).await;
        let events = world.until("history").await;
        assert_eq!(types(&events)[2], "session_recovered");
        let recovered = first(&events, "session_recovered");
        assert_eq!(recovered["interrupted_runs"], json!(["run-open"]));
        let activity = json!({ "run_id": "run-open", "kind": "tool", "parent_run_id": "run-p", "tool_call_id": "c9" });
        assert_eq!(recovered["interrupted_activities"], json!([activity]));
        assert!(recovered["warnings"].to_string().contains("truncated"), "{recovered}");
        ended(world).await;
    });
    assert!(std::fs::read_to_string(&file).unwrap().contains(r#""state":"interrupted""#));
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", []).await;
        world.send(json!({ "type": "init" })).await;
        assert!(!types(&world.until("history").await).contains(&"session_recovered"));
        ended(world).await;
    });
}

#[test]
fn a_file_of_a_later_version_is_an_error_and_stays_as_it_is_2_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = path_of(&folder, "a.jsonl");
    std::fs::write(&file, "{\"_session_version\": 99}\n").unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one")]).await;
        world.send(json!({ "type": "init" })).await;
        let events = world.until("agents").await;
        assert_eq!(types(&events), ["ready", "protocol_hello", "error", "skills", "agents"]);
        let message = events[2]["message"].as_str().unwrap();
        assert!(message.contains("is version 99, newer than supported"), "{message}");
        world.prompt("hi").await;
        assert_eq!(text_of(&world.until("done").await), "one");
        world.send(json!({ "type": "load_session", "path": file })).await;
        let failed = world.event("session_change_failed").await;
        assert_eq!(failed["path"], json!(file));
        ended(world).await;
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"_session_version\": 99}\n");
}

#[test]
fn new_session_during_a_run_6_15() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let gate = Gate::new();
        let script = [Reply::text("old").held_at(&gate), Reply::text("new")];
        let mut world = world(root, &folder, "a.jsonl", script).await;
        world.prompt("first").await;
        gate.reached().await;
        let old = world.event("delta").await;
        let status = world.status().await;
        let resource = &status["resources"][0];
        assert_eq!((&resource["label"], &resource["run_id"]), (&json!("foreground_agent_turn"), &old["run_id"]));
        assert_eq!((&resource["cancelled"], &resource["kind"]), (&json!(false), &json!("task")));
        world.send(json!({ "type": "new_session", "path": "b.jsonl" })).await;
        let events = world.until("info").await;
        assert_eq!(types(&events), ["run_cancelled", "work_state", "session_changed", "reset", "info"]);
        let cancelled = &events[0];
        assert_eq!((&cancelled["reason"], &cancelled["run_id"]), (&json!("new_session"), &old["run_id"]));
        assert_eq!(cancelled["session_id"], old["session_id"]);
        let changed = &events[2];
        assert_eq!((&changed["path"], &changed["new"]), (&json!(path_of(&folder, "b.jsonl")), &json!(true)));
        assert_ne!(changed["session_id"], old["session_id"]);
        gate.open();
        world.prompt("second").await;
        let events = world.until("done").await;
        assert_eq!(text_of(&events), "new");
        assert!(events.iter().all(|it| it["session_id"] == changed["session_id"] && it["run_id"] != old["run_id"]));
        world.send(json!({ "type": "stats" })).await;
        assert_eq!(world.event("stats").await["session_file"], json!(path_of(&folder, "b.jsonl")));
        ended(world).await;
    });
}

#[test]
fn sessions_are_listed_renamed_pinned_loaded_and_deleted_4_2() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one"), Reply::text("two")]).await;
        world.prompt("what the first is about").await;
        world.until("done").await;
        world.send(json!({ "type": "new_session" })).await;
        world.until("info").await;
        world.prompt("the second").await;
        world.until("done").await;

        world.send(json!({ "type": "rename_session", "path": "a.jsonl", "title": "  My title " })).await;
        let renamed = world.event("session_renamed").await;
        assert_eq!((&renamed["path"], &renamed["title"]), (&json!("a.jsonl"), &json!("My title")));
        world.send(json!({ "type": "rename_session", "path": "a.jsonl", "title": " " })).await;
        assert_eq!(world.event("error").await["message"], "session title cannot be empty");
        world.send(json!({ "type": "pin_session", "path": "a.jsonl", "pinned": true })).await;
        assert_eq!(world.event("session_pinned").await["pinned"], true);

        world.send(json!({ "type": "list_sessions" })).await;
        let listed = world.event("sessions").await;
        let sessions = listed["sessions"].as_array().unwrap();
        let pinned = &sessions[0];
        assert_eq!((&pinned["name"], &pinned["title"]), (&json!("a.jsonl"), &json!("My title")));
        assert_eq!((&pinned["path"], &pinned["pinned"]), (&json!(path_of(&folder, "a.jsonl")), &json!(true)));
        assert_eq!((&pinned["current"], &pinned["messages"]), (&json!(false), &json!(2)));
        assert!(pinned["mtime"].is_u64());
        assert_eq!((sessions.len(), &sessions[1]["current"]), (2, &json!(true)));
        assert_eq!(sessions[1]["title"], "the second");
        assert_eq!(listed["files"].as_array().unwrap().len(), 2);

        let before = listed["session_id"].clone();
        world.send(json!({ "type": "load_session", "path": "a.jsonl" })).await;
        let events = world.until("info").await;
        assert_eq!(types(&events), ["session_changed", "reset", "work_state", "history", "info"]);
        assert_eq!((&events[0]["path"], &events[0]["new"]), (&json!(path_of(&folder, "a.jsonl")), &json!(false)));
        assert_ne!(events[0]["session_id"], before);
        assert_eq!(events[4]["message"], "loaded 2 messages from a.jsonl");

        world.send(json!({ "type": "delete_session", "path": "a.jsonl" })).await;
        let message = "cannot delete the active session; start or load another first";
        assert_eq!(world.event("error").await["message"], message);
        let other = sessions[1]["name"].as_str().unwrap();
        world.send(json!({ "type": "delete_session", "path": other })).await;
        assert_eq!(world.event("session_deleted").await["path"], other);
        assert!(!path_of(&folder, other).exists());
        ended(world).await;
    });
}

#[test]
fn the_current_session_can_be_loaded_again_and_a_missing_file_is_an_empty_session_4_2() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one")]).await;
        world.prompt("first").await;
        world.until("done").await;
        world.send(json!({ "type": "load_session", "path": "a.jsonl" })).await;
        assert_eq!(world.event("info").await["message"], "loaded 2 messages from a.jsonl");
        world.send(json!({ "type": "load_session", "path": "missing.jsonl" })).await;
        let events = world.until("info").await;
        assert_eq!(first(&events, "history")["messages"], json!([]));
        assert_eq!(first(&events, "info")["message"], "loaded 0 messages from missing.jsonl");
        ended(world).await;
    });
}

#[test]
fn a_new_session_in_a_file_that_is_there_begins_empty_and_keeps_what_the_file_holds_4_2() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one"), Reply::text("two")]).await;
        world.prompt("first").await;
        world.until("done").await;
        world.send(json!({ "type": "new_session", "path": "b.jsonl" })).await;
        world.until("info").await;
        world.send(json!({ "type": "new_session", "path": "a.jsonl" })).await;
        world.until("info").await;
        world.prompt("second").await;
        world.until("done").await;
        assert_eq!(linn_services_test::request_of(&world.model.requests()[1]), ["user: second"]);
        ended(world).await;
        let said: Vec<_> =
            lines_of(&path_of(&folder, "a.jsonl")).iter().filter_map(|it| it.get("content").cloned()).collect();
        assert_eq!(said, [json!("first"), json!("one"), json!("second"), json!("two")]);
    });
}

#[test]
fn reset_empties_the_file_and_clear_does_not_4_2() {
    let folder = tempfile::tempdir().unwrap();
    let n_messages = |file: &Path| lines_of(file).iter().filter(|it| it.get("role").is_some()).count();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one")]).await;
        let file = path_of(&folder, "a.jsonl");
        world.prompt("first").await;
        world.until("done").await;
        world.send(json!({ "type": "clear" })).await;
        world.until("reset").await;
        assert_eq!(n_messages(&file), 2);
        world.send(json!({ "type": "reset" })).await;
        world.until("reset").await;
        assert_eq!(n_messages(&file), 0);
        ended(world).await;
    });
}

#[test]
fn a_file_that_is_no_session_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = [("notes.md", "# hi\n"), ("data.jsonl", "{\"a\":1}\n")];
    for (name, text) in foreign {
        std::fs::write(path_of(&folder, name), text).unwrap();
    }
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one")]).await;
        for (name, _) in foreign {
            world.send(json!({ "type": "load_session", "path": name })).await;
            let failed = world.event("session_change_failed").await;
            assert_eq!(failed["path"], name);
            let message = failed["message"].as_str().unwrap();
            assert!(message.contains(name) && message.contains("is no session file: line 1"), "{message}");
            for command in [
                json!({ "type": "new_session", "path": name }),
                json!({ "type": "delete_session", "path": name }),
                json!({ "type": "rename_session", "path": name, "title": "t" }),
                json!({ "type": "pin_session", "path": name, "pinned": true }),
            ] {
                world.send(command.clone()).await;
                let message = world.event("error").await["message"].as_str().unwrap().to_owned();
                assert!(message.contains("is no session file"), "{command}: {message}");
            }
        }
        // The session there was goes on.
        world.prompt("hi").await;
        assert_eq!(text_of(&world.until("done").await), "one");
        world.send(json!({ "type": "reset" })).await;
        world.event("reset").await;
        ended(world).await;
    });
    for (name, text) in foreign {
        assert_eq!(std::fs::read_to_string(path_of(&folder, name)).unwrap(), text);
    }
    assert!(std::fs::read_to_string(path_of(&folder, "a.jsonl")).unwrap().contains("_session_version"));
}

#[test]
fn what_is_told_as_done_is_stored_with_its_end() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let mut world = world(root, &folder, "a.jsonl", [Reply::text("one")]).await;
        let clock = world.root.context().clone();
        let gate = Gate::new();
        let held = gate.clone();
        // Whoever flushes takes its time.
        world.root.on(listener!(async move |_: &SessionFlush| held.pass().await)).unwrap();
        world.prompt("first").await;
        gate.reached().await;
        let told = async { while world.next().await["type"] != "done" {} };
        let told = clock.within(std::time::Duration::from_secs(1), told).await;
        assert!(told.is_err(), "it is not on the medium yet");
        gate.open();
        let run = world.until("done").await.pop().unwrap()["run_id"].clone();
        let lines = lines_of(&path_of(&folder, "a.jsonl"));
        let last = lines.last().unwrap();
        assert_eq!((&last["_run"]["run_id"], &last["_run"]["state"]), (&run, &json!("completed")));
        let log = lines_of(&path_of(&folder, "a.jsonl.events"));
        assert_eq!(log.last().unwrap()["type"], "turn/end");
        ended(world).await;
    });
}
