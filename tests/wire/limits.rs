//! What a front end, a disk or an endpoint may do to the program without taking it down.

use std::fs::File;
use std::io::{self, BufRead as _, Write as _};
use std::process::{Command, Stdio};

use linn_model_server::{Answer, Wire};
use serde_json::{Value, json};

use crate::client::{Client, Setup, of, said, server, text};

/// The most memory that the program ever had, in KiB.
fn peak_kib(client: &Client) -> u64 {
    let all = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = all.lines().find(|it| it.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn lines_that_are_too_long_one_after_the_other_take_no_memory() {
    let server = server([]);
    let mut client = Client::start(&server);
    let before = peak_kib(&client);
    let mut line = vec![b'x'; 64 << 20];
    line.push(b'\n');
    for _ in 0..2 {
        client.send_bytes(&line);
        let error = client.event("error");
        assert_eq!(error["message"], "command exceeds 8388608 byte limit");
    }
    let grown = peak_kib(&client) - before;
    assert!(grown < 48 << 10, "{grown} KiB for lines that nobody wanted");
    client.ask(json!({ "type": "stats" }), "stats");
}

#[test]
fn half_a_line_and_then_nothing_waits_without_harm_and_ends_with_the_input() {
    let server = server([text("hi")]);
    let mut client = Client::start(&server);
    client.prompt("hello");
    client.send_bytes(b"{\"type\":\"st");
    // What came before the half line is served.
    assert_eq!(said(&client.until("done")), "hi");
    let (events, status) = client.close();
    let error = of(&events, "error")[0];
    assert_eq!(error["code"], "invalid_command", "{error}");
    assert_eq!(status.code(), Some(0));
}

/// Whether no thread of a process has anything to do.
fn is_at_rest(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    threads.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok()).all(|stat| {
        // The state comes behind the name, which stands in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    })
}

#[test]
fn r131_a_front_end_that_writes_and_does_not_read_waits_for_itself_and_then_has_every_answer() {
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the program is what is tested")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_linn"));
    command.env_clear().env("HOME", folder.path()).current_dir(folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let flags = rustix::fs::fcntl_getfl(&stdin).unwrap();
    rustix::fs::fcntl_setfl(&stdin, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    // As short as it is, a line is written as a whole or not at all.
    let line = b"{\"type\":\"list_provider_presets\"}\n";
    let mut n_asked = 0;
    loop {
        match stdin.write(line) {
            Ok(_) => n_asked += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if is_at_rest(child.id()) {
                    break;
                }
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
        assert!(n_asked < 1_000_000, "the program reads on and on");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    assert!(peak.parse::<u64>().unwrap() < 96 << 10, "{peak} KiB for answers that nobody reads");
    drop(stdin);
    let output = io::BufReader::new(child.stdout.take().unwrap());
    let answers = output.lines().filter(|it| it.as_ref().unwrap().contains("\"type\":\"provider_presets\"")).count();
    assert_eq!(answers, n_asked);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_output_that_takes_nothing_ends_the_program_and_the_session_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let session = folder.path().join("session.jsonl");
    #[expect(clippy::disallowed_methods, reason = "the program is what is tested")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_linn"));
    command.env_clear().env("HOME", folder.path()).current_dir(folder.path());
    command.args(["--session", session.to_str().unwrap()]);
    let mut child = command.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", json!({ "type": "init" })).unwrap();
    // The input stays open: it ends because nobody can be told anything.
    let status = child.wait().unwrap();
    drop(stdin);
    assert!(status.code().is_some(), "it ended by itself: {status:?}");
}

#[test]
fn a_disk_that_is_full_is_told_and_the_conversation_goes_on() {
    let long = "a long answer ".repeat(3_000);
    let server = server((0..4).map(|_| text(&long)).chain([text("still here")]));
    let setup = Setup { file_limit: Some(64 << 10), ..Setup::default() };
    let mut client = Client::with(&server, setup);
    for _ in 0..4 {
        client.prompt("more");
        client.until("done");
    }
    let unsaved = client.seen.iter().filter(|it| it["type"] == "info").find_map(|it| {
        it["message"].as_str().filter(|it| it.starts_with("the session could not be saved")).map(str::to_owned)
    });
    let unsaved = unsaved.unwrap_or_else(|| panic!("nobody was told: {:#?}", client.seen.last()));
    assert!(unsaved.contains("in memory alone"), "{unsaved}");
    client.prompt("there?");
    assert_eq!(said(&client.until("done")), "still here");
    let folder = client.leave();
    // What was written before can be read by the next program.
    let mut client = Client::within(folder, &server, Setup { init: false, ..Setup::default() });
    client.send(json!({ "type": "init" }));
    client.until("agents");
    client.ask(json!({ "type": "stats" }), "stats");
    let wrong: Vec<&Value> = of(&client.seen, "error");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_call_of_five_megabytes_in_many_pieces_arrives_whole() {
    let piece = "x".repeat(250);
    let call = |fields: Value| {
        let delta = json!({ "tool_calls": [{ "index": 0, "function": fields }] });
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }))
    };
    let begin = json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": {
        "name": "write_file", "arguments": "{\"path\":\"big.txt\",\"content\":\"" } }] });
    let begin = format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": begin }] }));
    let end = Wire::OpenAi.call_frames(&[]);
    let frames = std::iter::once(begin)
        .chain(std::iter::repeat_n(call(json!({ "arguments": piece })), 20_000))
        .chain([call(json!({ "arguments": "\"}" }))])
        .chain(end);
    let server = server([Answer::stream(frames), text("Written.")]);
    let mut client = Client::start(&server);
    client.prompt("write");
    let events = client.until("done");
    assert_eq!(said(&events), "Written.", "{:#?}", of(&events, "error"));
    assert_eq!(std::fs::metadata(client.path("big.txt")).unwrap().len(), 5_000_000);
    let pieces: usize = of(&events, "tool_call_args").iter().map(|it| it["args"].as_str().unwrap().len()).sum();
    assert_eq!(pieces, of(&events, "tool_call")[0]["args"].as_str().unwrap().len());
}
