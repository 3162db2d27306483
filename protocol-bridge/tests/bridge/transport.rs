//! Lines in, lines out.

use std::cell::Cell;
use std::pin::pin;

use linn_bus_test::{leak_check, run, run_with};
use linn_services::model::StreamChunk;
use linn_services_test::{Gate, Reply};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::kit::{Setup, World, first, mount_bridge, mount_harness, text_of, types};

#[test]
fn r128_bad_lines_are_errors_and_the_next_command_works() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        let bad: &[(&[u8], &str)] = &[
            (b"not json\n", "bad command: "),
            (b"[1,2]\n", "bad command: "),
            (b"{\"id\":1}\n", "bad command: missing field `type`"),
            (b"{\"type\":\"no/such\"}\n", "bad command: unknown variant `no/such`, expected one of `init`, `send`"),
            (b"{\"type\":\"send\",\"prompt\":17}\n", "bad command: invalid type: integer `17`, expected a string"),
            (b"{\"type\":\"send\",\"prompt\":\"x\"}\n", "bad command: missing field `model`"),
            (b"{\"type\":\"steer\",\"prompt\":\"\xff\"}\n", "command is not valid UTF-8: "),
        ];
        world.front.write(b"\n   \r\n").await;
        for (line, message) in bad {
            world.front.write(line).await;
            let error = world.next().await;
            assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("invalid_command")));
            assert!(error["message"].as_str().unwrap().starts_with(message), "{error}");
            assert_eq!(error["protocol_version"], 2);
            assert!(error["session_id"].as_str().unwrap().starts_with("session-"));
        }
        assert_eq!(world.status().await["type"], "runtime_status");
    });
}

#[test]
fn a_line_that_is_too_long_is_an_error_1_2() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        let line = vec![b'x'; 8 << 20];
        world.front.write(&line).await;
        world.front.write(b"\n").await;
        let error = world.next().await;
        assert_eq!(error["message"], "command exceeds 8388608 byte limit");
        assert_eq!(error["code"], "invalid_command");
        assert_eq!(world.status().await["type"], "runtime_status");
    });
}

#[test]
fn a_last_line_without_an_end_is_a_command_1_1() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.front.write(b"{\"type\":\"runtime_status\"}").await;
        world.front.hang_up();
        assert_eq!(world.next().await["type"], "runtime_status");
        world.handle.ended().await;
    });
}

#[test]
fn r127_line_separators_arrive_as_escapes() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("a\u{2028}b\u{2029}c")]).await;
        world.prompt("hi").await;
        assert_eq!(text_of(&world.until("done").await), "a\u{2028}b\u{2029}c");
    });
}

#[test]
fn the_end_of_the_input_cancels_the_run_1_7() {
    run(async |root| {
        let gate = Gate::new();
        let mut world = World::new(root, [Reply::text("one").held_at(&gate)]).await;
        world.prompt("hi").await;
        gate.reached().await;
        world.front.hang_up();
        world.handle.ended().await;
        let mut events = Vec::new();
        world.root.fiber().dispose().await.unwrap();
        drop(world.root);
        while let Some(event) = world.front.next().await {
            events.push(event);
        }
        let told = types(&events);
        assert_eq!(told.last(), Some(&"run_cancelled"));
        assert_eq!(first(&events, "run_cancelled")["reason"], "shutdown");
        assert!(!told.contains(&"done") && !told.contains(&"aborted"));
    });
}

#[test]
fn r129_front_end_goes_away_with_an_open_approval() {
    run(async |root| {
        let mut world = World::new(root, [Reply::call("c1", "write", json!({ "text": "a" }))]).await;
        world.add_tools();
        world.prompt("hi").await;
        world.event("approval_request").await;
        let agent = world.agent();
        world.front.hang_up();
        world.handle.ended().await;
        let log = linn_services_test::log_of(agent.session());
        assert_eq!(log.last().unwrap(), "turn/end{aborted \"shutdown\"}");
        assert!(log.contains(&"tool/result".to_owned()));
        assert!(log.contains(&"approval/decided".to_owned()));
    });
}

#[test]
fn stop_is_as_the_end_of_the_input() {
    run(async |root| {
        let mut world = World::new(root, []).await;
        world.handle.stop();
        world.handle.ended().await;
        world.root.fiber().dispose().await.unwrap();
        drop(world.root);
        assert!(world.front.next().await.is_none());
    });
}

#[test]
fn r131_a_front_end_that_does_not_read_holds_nothing_up_and_loses_nothing() {
    run_with(async |root, time| {
        const PIECES: usize = 2_000;
        let piece = "x".repeat(10 << 10);
        let mut reply = Reply::empty();
        for _ in 0..PIECES {
            reply = reply.and_chunk(StreamChunk::TextDelta { index: 0, text: piece.clone() });
        }
        // 20 MiB are more than an answer may have, so the turn would fail; it is cancelled before.
        let mut world = World::new(root, [reply, Reply::text("next")]).await;
        world.prompt("hi").await;
        // Nobody reads: the pipe is full, then the queue, then the stream waits.
        time.idle().await;
        let n_bytes = world.agent().session().len() * piece.len() as u64;
        assert!(n_bytes > 4 << 20 && n_bytes < 6 << 20, "{n_bytes}");
        world.send(json!({ "type": "abort" })).await;
        let events = world.until("aborted").await;
        let told = types(&events);
        assert_eq!(told[told.len() - 2..], ["run_cancelled", "aborted"]);
        assert!(text_of(&events).bytes().all(|it| it == b'x'));
        let sequences: Vec<_> = events.iter().filter_map(|it| it["sequence"].as_u64()).collect();
        assert!(sequences.iter().copied().eq(1..=sequences.len() as u64));
        world.prompt("again").await;
        assert_eq!(text_of(&world.until("done").await), "next");
    });
}

#[test]
fn r131_a_front_end_that_writes_and_does_not_read_waits_for_itself() {
    run_with(async |root, time| {
        const COMMANDS: usize = 40;
        let command = format!("{{\"type\":\"{}\"}}\n", "x".repeat(512 << 10));
        let mut world = World::new(root, []).await;
        let mut commands = world.front.commands.take().unwrap();
        let n_written = Cell::new(0);
        let mut writing = pin!(async {
            for _ in 0..COMMANDS {
                commands.write_all(command.as_bytes()).await.unwrap();
                n_written.set(n_written.get() + 1);
            }
        });
        tokio::select! {
            biased;
            () = &mut writing => panic!("all was taken, and nothing read"),
            () = time.idle() => {}
        }
        // What answers may fill, what is read ahead, and the two pipes.
        let taken_bytes = n_written.get() * command.len();
        assert!(taken_bytes > 8 << 20 && taken_bytes < 16 << 20, "{taken_bytes}");
        let reading = async {
            for _ in 0..COMMANDS {
                assert_eq!(world.event("error").await["code"], "invalid_command");
            }
        };
        tokio::join!(writing, reading);
    });
}

#[test]
fn commands_that_nobody_reads_the_answers_of_do_not_keep_the_bridge_from_ending() {
    run(async |root| {
        let command = format!("{{\"type\":\"{}\"}}\n", "x".repeat(512 << 10));
        let mut world = World::new(root, []).await;
        for _ in 0..20 {
            world.front.write(command.as_bytes()).await;
        }
        world.front.hang_up();
        world.handle.ended().await;
    });
}

#[test]
fn r132_when_nobody_reads_any_more_the_bridge_ends() {
    run(async |root| {
        let mut world = World::new(root, [Reply::text("one")]).await;
        world.front.events = None;
        world.prompt("hi").await;
        world.handle.ended().await;
    });
}

#[test]
fn the_bridge_leaves_no_trace() {
    run(async |root| {
        mount_harness(&root, Default::default()).await;
        leak_check(&root, async |_| {
            let (mut front, handle) = mount_bridge(&root, &Setup::default()).await;
            front.send(json!({ "type": "init" })).await;
            assert_eq!(front.next().await.unwrap()["type"], "ready");
            handle.stop();
            handle.ended().await;
            root.unmount::<linn_bridge::BridgePlugin>().await.unwrap();
        })
        .await;
    });
}
