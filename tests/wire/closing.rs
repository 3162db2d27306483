//! Section 6.3: how a turn with calls is brought to its end.

use linn_model_server::Answer;
use serde_json::{Value, json};

use crate::client::{Client, Setup, calls, check_sequences, of, said, server, text, types};

fn reading() -> Answer {
    calls(&[("c1", "list_dir", json!({ "path": "." }))])
}

fn reflecting() -> Setup {
    Setup { reflect: true, ..Setup::default() }
}

/// The types of a turn that matter here.
fn course(events: &[Value]) -> Vec<&str> {
    let wanted =
        ["tool_call", "tool_result", "reflecting", "summary_required", "metrics", "cost_update", "done", "error"];
    types(events).into_iter().filter(|it| wanted.contains(it)).collect()
}

#[test]
fn a_turn_with_calls_and_no_word_for_the_human_is_asked_for_one_and_then_told_to_write_it() {
    let server = server([reading(), text("ok"), text("hm"), text("so"), text("fine")]);
    let mut client = Client::with(&server, reflecting());
    client.prompt("look");
    let events = client.until("done");
    let expected = [
        "tool_call",
        "tool_result",
        "reflecting",
        "summary_required",
        "summary_required",
        "metrics",
        "cost_update",
        "done",
    ];
    assert_eq!(course(&events), expected);
    assert_eq!(of(&events, "reflecting")[0]["recurrence"], 1);
    let rounds: Vec<_> =
        of(&events, "summary_required").iter().map(|it| (&it["attempt"], &it["max_attempts"])).collect();
    assert_eq!(rounds, [(&json!(1), &json!(2)), (&json!(2), &json!(2))]);
    check_sequences(&events);
    assert_eq!(server.n_left(), 0);
}

#[test]
fn a_word_of_some_length_ends_the_turn_and_so_does_a_turn_without_calls() {
    let word = "I looked into the folder, and there is nothing in it but what the program itself keeps there. ";
    let server = server([reading(), text(word), text("hi")]);
    let mut client = Client::with(&server, reflecting());
    client.prompt("look");
    assert_eq!(course(&client.until("done")), ["tool_call", "tool_result", "metrics", "cost_update", "done"]);
    client.prompt("hello");
    let events = client.until("done");
    assert_eq!((course(&events), said(&events).as_str()), (vec!["metrics", "cost_update", "done"], "hi"));
}

#[test]
fn finish_ends_the_turn_and_what_stands_behind_it_is_not_run() {
    let both = [("c1", "finish", json!({})), ("c2", "write_file", json!({ "path": "a.txt", "content": "x" }))];
    let server = server([calls(&both), text("next")]);
    let mut client = Client::start(&server);
    client.prompt("finish");
    let events = client.until("done");
    let result = of(&events, "tool_result")[0];
    assert_eq!((&result["ok"], &result["output"]), (&json!(true), &json!("This turn has finished")));
    assert_eq!(of(&events, "tool_result")[1]["ok"], false);
    assert!(!client.path("a.txt").exists());
    assert_eq!(server.requests().len(), 1);
    client.prompt("again");
    assert_eq!(said(&client.until("done")), "next");
}

#[test]
fn the_first_finish_without_a_word_for_the_human_is_answered_with_the_question() {
    let finish = || calls(&[("c9", "finish", json!({}))]);
    let word = "I looked into the folder, and there is nothing in it but what the program itself keeps there. ";
    let server = server([reading(), finish(), text(word)]);
    let mut client = Client::with(&server, reflecting());
    client.prompt("look");
    let events = client.until("done");
    let expected =
        ["tool_call", "tool_result", "tool_call", "reflecting", "tool_result", "metrics", "cost_update", "done"];
    assert_eq!(course(&events), expected);
    let told = of(&events, "tool_result")[1]["output"].as_str().unwrap().to_owned();
    assert!(told.starts_with("Before this turn ends, look back"), "{told}");
}

#[test]
fn a_model_that_looks_at_the_same_thing_three_times_is_told_so_in_its_next_request() {
    let server = server([reading(), reading(), reading(), text("I see.")]);
    let mut client = Client::start(&server);
    client.prompt("look");
    let events = client.until("done");
    let nudges = of(&events, "stuck_nudge");
    let message = nudges[0]["message"].as_str().unwrap();
    assert!(message.starts_with("`list_dir` was called 3 times with the same arguments"), "{message}");
    assert_eq!((nudges.len(), of(&events, "tool_result").len()), (1, 3));
    check_sequences(&events);
    let requests = server.requests();
    let said: Vec<_> =
        requests.iter().map(|it| String::from_utf8_lossy(&it.body).contains("was called 3 times")).collect();
    assert_eq!(said, [false, false, false, true]);
}
