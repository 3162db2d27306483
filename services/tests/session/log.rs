//! Appending, seeding, the surface, scopes.

use std::sync::{Arc, Mutex};

use linn_bus_test::run;
use linn_services::events::SessionEvent;
use linn_services::model::{ContentBlock, EpochHeader, LlmCallConfig, MessageSource};
use linn_services::session::{
    AppendError, AssistantMessage, ContextMessage, CreateSession, Fact, HeaderReason, Record, RecordSurface,
    RequestHeader, SessionError, SteeringMessage, SurfaceOp,
};
use serde_json::{Value, json};

use crate::{assistant, other, replace, result, session, sessions, texts, turn, turn_start, user};

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

fn header_with_temperature(temperature: f64) -> RequestHeader {
    let config = LlmCallConfig { temperature: Some(temperature), ..LlmCallConfig::of_model("m") };
    RequestHeader { header: EpochHeader { config, ..EpochHeader::default() }, reason: HeaderReason::Initial }
}

#[test]
fn se_01_what_json_cannot_hold_is_refused_and_the_log_stays_as_it_was() {
    run(async |root| {
        let session = session(&root).await;
        let refused: Vec<Fact> = vec![
            header_with_temperature(f64::NAN).into(),
            header_with_temperature(f64::INFINITY).into(),
            other("plugin/deep", nested(97)),
        ];
        for fact in refused {
            assert_eq!(session.append(fact).unwrap_err().code(), "NOT_JSON");
        }
        // Content that would come back as something else, or not at all.
        let blocks =
            [json!({"type": "text"}), json!({"text": "a"}), json!("text"), json!({"type": "x", "deep": nested(96)})];
        for block in blocks {
            let fact = assistant(1, 1, vec![ContentBlock::Other(block)]);
            assert_eq!(session.say(fact).unwrap_err().code(), "NOT_JSON");
        }
        let deep = (0..60).fold(ContentBlock::text("x"), |inner, _| ContentBlock::ToolResult {
            tool_call_id: "c".into(),
            content: vec![inner],
            is_error: false,
        });
        assert_eq!(session.say(assistant(1, 1, vec![deep])).unwrap_err().code(), "NOT_JSON");
        for source in [json!({"kind": "user"}), json!({}), json!(null)] {
            let fact = ContextMessage { content: vec![], source: MessageSource::Other(source) };
            assert_eq!(session.say(fact).unwrap_err().code(), "NOT_JSON");
        }
        assert_eq!((session.len(), session.surface()), (0, vec![]));
        session.append(other("plugin/deep", nested(96))).unwrap();
        session.append(header_with_temperature(0.7)).unwrap();
        let records = session.records_from(0);
        for record in &records {
            let line = serde_json::to_string(&**record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), **record, "{line}");
        }
    });
}

#[test]
fn se_01_a_known_kind_given_by_name_is_checked_and_typed() {
    run(async |root| {
        let session = session(&root).await;
        let error = session.append(other("turn/start", json!({"turn": "one"}))).unwrap_err();
        assert_eq!(error.code(), "BAD_DATA");
        assert!(session.is_empty());
        let data = json!({"turn": 1, "trigger": {"kind": "message", "source": {"kind": "user"}}});
        session.append(other("turn/start", data)).unwrap();
        assert_eq!(session.record(0).unwrap().fact, turn_start(1).into());
        assert_eq!(session.turns().open_turn(), Some(1));
    });
}

#[test]
fn se_02_a_surface_kind_without_a_place_is_refused_and_so_is_a_place_for_another_kind() {
    run(async |root| {
        let session = session(&root).await;
        assert_eq!(session.append(user("a")).unwrap_err().code(), "SURFACE_OP_MISSING");
        assert_eq!(session.say(turn_start(1)).unwrap_err().code(), "SURFACE_OP_UNEXPECTED");
        let data = json!({"content": [], "source": {"kind": "user"}});
        assert_eq!(session.append(other("user/message", data)).unwrap_err().code(), "SURFACE_OP_MISSING");
        assert!(session.is_empty());
    });
}

#[test]
fn se_03_what_was_logged_is_shared_and_does_not_change() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let fact = user("before");
        let session = sessions.create(&root, CreateSession::default()).unwrap();
        let mut mine = fact.clone();
        session.say(fact).unwrap();
        mine.content[0] = "after".into();
        assert_eq!(texts(&session), ["before"]);

        let mut seed = session.records_from(0);
        let options = CreateSession { seed: seed.clone(), ..CreateSession::default() };
        let second = sessions.create(&root, options).unwrap();
        seed.clear();
        assert_eq!(texts(&second), ["before"]);
        session.say(user("more")).unwrap();
        assert_eq!(texts(&second), ["before"]);
    });
}

#[test]
fn se_04_a_seed_with_a_gap_or_a_record_that_does_not_fit_is_refused() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let append = Some(RecordSurface { op: SurfaceOp::Append, source_seqs: None });
        let record = |seq, fact: Fact, surface| Arc::new(Record { seq, time_ms: 0, fact, surface });
        let from_zero = record(0, user("a").into(), append.clone());
        let seeds = [
            (vec![record(1, turn_start(1).into(), None)], "the log has a gap"),
            (vec![from_zero.clone(), record(0, turn_start(1).into(), None)], "the log has a gap"),
            (vec![record(0, header_with_temperature(f64::NAN).into(), None)], "holds what JSON cannot"),
            (vec![record(0, user("a").into(), None)], "say where"),
            (vec![from_zero.clone(), record(1, turn_start(1).into(), append.clone())], "does not lie on the surface"),
        ];
        for (seed, why) in seeds {
            let error = sessions.create(&root, CreateSession { seed, ..CreateSession::default() }).unwrap_err();
            assert!(matches!(error, SessionError::Seed { .. }), "{error:?}");
            let mut text = String::new();
            let mut source: Option<&dyn std::error::Error> = Some(&error);
            while let Some(it) = source {
                text += &format!("{it}: ");
                source = it.source();
            }
            assert!(text.contains(why), "{text}");
        }
        // The id is free again.
        assert_eq!(sessions.create(&root, CreateSession::default()).unwrap().id().as_str(), "session-1");
    });
}

#[test]
fn se_05_records_are_heard_in_the_scope_of_the_session_and_outside_of_all_scopes() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let (a, b) = (root.scope().unwrap(), root.scope().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        for (name, ctx) in [("a", a.context()), ("b", b.context()), ("root", root.context())] {
            let heard = heard.clone();
            ctx.on(move |it: &SessionEvent| heard.lock().unwrap().push(format!("{name} {}", it.session.id()))).unwrap();
        }
        let of_a = CreateSession { id: Some("of-a".into()), ..CreateSession::default() };
        let of_a = sessions.create(a.context(), of_a).unwrap();
        assert_eq!(of_a.owner().as_ref(), Some(a.key()));
        of_a.append(turn_start(1)).unwrap();
        let bare = CreateSession { id: Some("bare".into()), ..CreateSession::default() };
        sessions.create(&root, bare).unwrap().append(turn_start(1)).unwrap();
        let mut heard = std::mem::take(&mut *heard.lock().unwrap());
        heard.sort();
        assert_eq!(heard, ["a of-a", "root bare", "root of-a"]);
    });
}

#[test]
fn se_07_a_replacement_takes_the_place_of_a_range() {
    run(async |root| {
        let session = session(&root).await;
        for text in ["a", "b", "c", "d"] {
            session.say(user(text)).unwrap();
        }
        assert_eq!(replace(&session, "bc", 1, 2), 4);
        assert_eq!((session.surface(), texts(&session).join(" ")), (vec![0, 4, 3], "a bc d".to_owned()));
        replace(&session, "BC", 4, 4);
        assert_eq!(session.surface(), [0, 5, 3]);

        let op = |start, end| SurfaceOp::Replace { start, end };
        let refused = |op| session.append_to_surface(user("x"), op, None).unwrap_err();
        assert!(matches!(refused(op(1, 3)), AppendError::NotOnSurface { seq: 1 }));
        assert!(matches!(refused(op(0, 99)), AppendError::NotOnSurface { seq: 99 }));
        // By place: record 5 lies before record 3.
        assert!(matches!(refused(op(3, 5)), AppendError::RangeReversed { start: 3, end: 5 }));
        assert_eq!((session.len(), session.surface()), (6, vec![0, 5, 3]));
        session.append_to_surface(user("all"), op(0, 3), Some(vec![3, 0, 5])).unwrap();
        assert_eq!(texts(&session), ["all"]);
    });
}

#[test]
fn se_07_sources_are_older_records_each_named_once() {
    run(async |root| {
        let session = session(&root).await;
        turn(&session, 1);
        let refused = [vec![], vec![6], vec![1, 1], vec![3, 2, 3], vec![0, 1, 99]];
        for seqs in refused {
            let error = session.append_to_surface(user("x"), SurfaceOp::Append, Some(seqs.clone())).unwrap_err();
            assert_eq!(error.code(), "BAD_SOURCE", "{seqs:?}");
        }
        for seqs in [vec![0], vec![0, 3, 5], vec![5, 0]] {
            session.append_to_surface(user("x"), SurfaceOp::Append, Some(seqs)).unwrap();
        }
    });
}

#[test]
fn se_08_history_derives_from_the_surface_and_snapshots_stay() {
    run(async |root| {
        let session = session(&root).await;
        session.say(user("hello")).unwrap();
        session.say(assistant(1, 1, vec![])).unwrap();
        session.say(assistant(1, 1, vec!["hi".into()])).unwrap();
        session.say(result(1, 1, "c1")).unwrap();
        let source = MessageSource::plugin("memory");
        session.say(ContextMessage { content: vec!["note".into()], source: source.clone() }).unwrap();
        session.say(SteeringMessage { turn: 1, content: vec!["left".into()], source }).unwrap();
        let held = session.messages();
        let roles: Vec<_> = held.iter().map(|it| serde_json::to_value(it.role).unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "user", "user"]);
        assert_eq!(
            texts(&session)[3..],
            ["<context source=\"plugin\">note</context>", "<steering source=\"plugin\">left</steering>"]
        );
        assert!(matches!(&held[2].content[..], [ContentBlock::ToolResult { is_error: false, .. }]));

        replace(&session, "short", 0, 3);
        assert_eq!(texts(&session).len(), 3);
        assert_eq!(texts(&session)[0], "short");
        assert_eq!(held.len(), 5);
        // What was not replaced is the same message still, not a copy.
        assert!(Arc::ptr_eq(&held[4], &session.messages()[2]));
    });
}

#[test]
fn an_append_to_a_session_that_left_the_store_is_logged_and_not_told() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let heard = Arc::new(Mutex::new(0));
        let count = heard.clone();
        root.on(move |_: &SessionEvent| *count.lock().unwrap() += 1).unwrap();
        let scope = root.scope().unwrap();
        let session = sessions.create(scope.context(), CreateSession::default()).unwrap();
        scope.dispose().await.unwrap();
        let message = AssistantMessage { turn: 1, step: 1, content: vec![], usage: None };
        session.say(message).unwrap();
        assert_eq!((session.len(), *heard.lock().unwrap()), (1, 0));
    });
}
