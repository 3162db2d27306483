//! Files that front ends name: the view, its log, and the older format.

use std::path::Path;

use linn_bus_test::run;
use linn_services::ids::SessionId;
use linn_services::model::{ContentBlock, StreamChunk, text_of};
use linn_services::session::{
    AssistantChunk, CreateSession, RewindCause, Session, SessionRewind, SurfaceOp, UserMessage,
};
use serde_json::{Value, json};

use crate::script::{answer, assert_paired, begin, chunk, end, turn, turn_with_calls};
use crate::{assert_whole, folder, lines, seed_of, store};

fn values(path: &Path) -> Vec<Value> {
    lines(path).iter().map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// Role and content of the messages of a view.
fn messages(path: &Path) -> Vec<String> {
    let values = values(path);
    assert_eq!(values[0], json!({"_session_version": 2}));
    let short = |it: &Value| match (it["role"].as_str(), it["content"].as_str()) {
        (Some(role), content) => format!("{role}: {}", content.unwrap_or("-")),
        (None, _) => format!("run {}", it["_run"]["state"].as_str().unwrap()),
    };
    values[1..].iter().map(short).collect()
}

fn rewind(session: &Session, to: u64, cause: RewindCause) {
    session.append(SessionRewind { to, cause }).unwrap();
}

#[test]
fn a_new_file_gets_its_view_at_once_and_its_log_with_the_first_record() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("s.jsonl");
        let store = store(&root, &folder.path().join("own")).await;
        let opened = store.files.open(&file).await.unwrap();
        assert_eq!((opened.records.len(), opened.notices.len()), (0, 0));
        assert_eq!(lines(&file), [r#"{"_session_version":2}"#]);
        let entered = store.resume(&root, &opened);
        turn_with_calls(&entered.session, 1);
        let log = folder.path().join("s.jsonl.events");
        assert_whole(&log);
        assert_eq!(messages(&file), ["user: do it", "assistant: -", "tool: done"]);
        let assistant = &values(&file)[2];
        assert_eq!(
            assistant["tool_calls"],
            json!([{"id": "call-1-0", "type": "function", "function": {"name": "echo", "arguments": "{}"}}])
        );
        assert_eq!(values(&file)[3]["tool_call_id"], "call-1-0");
        assert_eq!(store.files.find(&file).await.unwrap(), *entered.session.id());
        assert_eq!(store.files.open(&file).await.unwrap_err().code(), "SESSION_LIVE");
        entered.handle.dispose().await;

        let again = store.files.open(&file).await.unwrap();
        assert_eq!(again.records, entered.session.records_from(0));
        assert_eq!(store.files.open(Path::new("s.jsonl")).await.unwrap_err().code(), "SESSION_IO");
    });
}

#[test]
fn what_an_attempt_said_that_was_discarded_is_in_the_log_and_not_in_the_view() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("s.jsonl");
        let store = store(&root, &folder.path().join("own")).await;
        let opened = store.files.open(&file).await.unwrap();
        let entered = store.resume(&root, &opened);
        let session = &entered.session;
        let number = begin(session, "hi");
        chunk(session, number, "broken");
        session.append(AssistantChunk { turn: number, step: 1, chunk: StreamChunk::Discard }).unwrap();
        answer(session, number, "whole answer");
        end(session, number);
        assert_eq!(messages(&file), ["user: hi", "assistant: whole answer"]);
        let log = lines(&folder.path().join("s.jsonl.events")).concat();
        assert!(log.contains("\"broken\"") && log.contains("{\"type\":\"discard\"}"), "{log}");
        let records = session.records_from(0);
        entered.handle.dispose().await;
        assert_eq!(store.files.open(&file).await.unwrap().records, records);
    });
}

#[test]
fn reset_undo_and_compaction_rewrite_the_view_and_never_the_log_and_clear_neither() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("s.jsonl");
        let log = folder.path().join("s.jsonl.events");
        let store = store(&root, folder.path()).await;
        let opened = store.files.open(&file).await.unwrap();
        let session = store.resume(&root, &opened).session;
        let id = session.id().clone();
        store.files.note_run(&id, &json!({"run_id": "r1", "state": "started"})).await.unwrap();
        turn(&session, "one", "1");
        let middle = session.len();
        turn(&session, "two", "2");
        store.files.note_run(&id, &json!({"run_id": "r1", "state": "completed"})).await.unwrap();
        assert_eq!(messages(&file).len(), 6);
        let log_before = lines(&log);

        rewind(&session, middle, RewindCause::Undo);
        assert_eq!(messages(&file), ["user: one", "assistant: 1", "run started", "run completed"]);
        rewind(&session, session.len(), RewindCause::Clear);
        turn(&session, "three", "3");
        assert_eq!(messages(&file)[4..], ["user: three", "assistant: 3"]);

        let number = begin(&session, "four");
        let surface = session.surface();
        let range = SurfaceOp::Replace { start: surface[0], end: surface[surface.len() - 2] };
        let source = linn_services::model::MessageSource::plugin("compact");
        session.append_to_surface(UserMessage { content: vec!["sum".into()], source }, range, None).unwrap();
        end(&session, number);
        assert_eq!(messages(&file)[..2], ["user: sum", "user: four"]);

        rewind(&session, 0, RewindCause::Reset);
        assert_eq!(messages(&file), ["run started", "run completed"]);
        assert_eq!(lines(&log)[..log_before.len()], log_before);
        assert_whole(&log);
        let notes = store.files.run_notes(&id).await.unwrap();
        assert_eq!(notes[1], json!({"run_id": "r1", "state": "completed"}));
    });
}

#[test]
fn a_view_that_is_gone_or_behind_is_made_again() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("s.jsonl");
        let store = store(&root, folder.path()).await;
        let opened = store.files.open(&file).await.unwrap();
        let entered = store.resume(&root, &opened);
        turn(&entered.session, "one", "1");
        entered.handle.dispose().await;
        let whole = lines(&file);

        std::fs::remove_file(&file).unwrap();
        let id = store.files.find(&file).await.unwrap();
        store.files.rebuild_view(&id).await.unwrap();
        assert_eq!(lines(&file), whole);

        // As if the process had died between the log and the view.
        std::fs::write(&file, whole[..2].join("\n")).unwrap();
        let opened = store.files.open(&file).await.unwrap();
        let session = store.resume(&root, &opened).session;
        turn(&session, "two", "2");
        assert_eq!(messages(&file), ["user: one", "assistant: 1", "user: two", "assistant: 2"]);
    });
}

const OLDER: &str = r#"{"_session_version":2}
{"role":"system","content":"be kind"}
{"role":"user","content":"hello"}
{"_run":{"run_id":"r","state":"started"}}
{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"ls","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"c1","content":"a.txt"}
{"role":"tool","tool_call_id":"c9","content":"of nobody"}
not json
{"role":"assistant","content":"done"}
{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:x"}}]}
"#;

#[test]
fn a_file_of_the_older_format_is_taken_over_once_and_stays() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("old.jsonl");
        std::fs::write(&file, format!("{OLDER}{{\"role\":\"user\",\"con")).unwrap();
        let store = store(&root, folder.path()).await;
        let opened = store.files.open(&file).await.unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().starts_with(OLDER));
        assert_eq!(
            opened.notices,
            [
                "recovered session after ignoring a truncated final record at line 11",
                "ignored 1 malformed session record(s) at line(s) 8",
                "left out 1 result(s) of calls that nobody made",
            ]
        );
        let entered = store.resume(&root, &opened);
        let session = &entered.session;
        assert_paired(session);
        assert_eq!(session.turns().last_turn, 2);
        let texts: Vec<_> = session.messages().iter().map(|it| text_of(&it.content)).collect();
        assert_eq!(texts, ["hello", "", "", "", "done", "look"]);
        assert!(matches!(session.messages()[5].content[1], ContentBlock::Image { .. }));
        let mut checker = linn_services::session::invariants::LogChecker::default();
        session.records_from(0).iter().for_each(|it| checker.take(it).unwrap());

        turn(session, "more", "yes");
        let records = session.records_from(0);
        let id = session.id().clone();
        entered.handle.dispose().await;
        // The second time the log is the truth, whatever the file says.
        let again = store.files.open(&file).await.unwrap();
        assert_eq!((again.header.id, again.records, again.notices), (id, records, vec![]));
    });
}

#[test]
fn import_by_name_gives_the_id_and_opens_nothing() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("old.jsonl");
        std::fs::write(&file, OLDER).unwrap();
        let store = store(&root, folder.path()).await;
        let name = file.to_str().unwrap();
        let id = store.stored.import(name).await.unwrap();
        assert_eq!(store.stored.import(name).await.unwrap(), id);
        assert_whole(&folder.path().join("old.jsonl.events"));
        let loaded = store.stored.load(&id).await.unwrap();
        store.resume(&root, &loaded);
        let missing = folder.path().join("missing.jsonl");
        assert_eq!(store.stored.import(missing.to_str().unwrap()).await.unwrap_err().code(), "SESSION_NOT_FOUND");
    });
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_nothing_is_made() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("new.jsonl");
        std::fs::write(&file, "{\"_session_version\":3}\n{\"role\":\"user\",\"content\":\"a\"}\n").unwrap();
        let store = store(&root, folder.path()).await;
        let error = store.files.open(&file).await.unwrap_err();
        assert!(error.to_string().contains("is version 3, newer than supported (2)"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    });
}

#[test]
fn a_session_made_under_the_id_of_an_opened_file_goes_there_and_one_of_another_id_does_not() {
    run(async |root| {
        let folder = folder();
        let own = folder.path().join("own");
        let file = folder.path().join("s.jsonl");
        let store = store(&root, &own).await;
        let opened = store.files.open(&file).await.unwrap();
        let mine = store.enter(&root, CreateSession { id: Some("mine".into()), ..seed_of(&opened) }).session;
        turn(&mine, "a", "b");
        assert_whole(&own.join("mine.events"));
        assert!(!folder.path().join("s.jsonl.events").exists());
        let filed = store.resume(&root, &opened).session;
        turn(&filed, "a", "b");
        assert_whole(&folder.path().join("s.jsonl.events"));
    });
}

#[test]
fn two_sessions_never_share_a_new_file() {
    run(async |root| {
        let folder = folder();
        let file = folder.path().join("s.jsonl");
        let store = store(&root, folder.path()).await;
        let first = store.files.open(&file).await.unwrap().header.id;
        // Nothing came of it; the next one opens anew.
        store.files.release(&first).await.unwrap();
        let opened = store.files.open(&file).await.unwrap();
        let second: SessionId = opened.header.id.clone();
        store.resume(&root, &opened);
        assert_eq!(store.files.find(&file).await.unwrap(), second);
    });
}

#[test]
fn a_file_that_is_no_session_is_refused_and_stays_as_it_is() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, &folder.path().join("own")).await;
        let damaged = "not json\n{\"role\":\"user\",\"content\":\"a\"}\n";
        let foreign = [
            ("notes.md", "# hi\n", "line 1 is no JSON"),
            ("data.jsonl", "{\"a\":1}\n", "line 1 is neither"),
            ("people.jsonl", "\n{\"role\":\"admin\"}\n", "line 2 is neither"),
            ("list.json", "[1]\n", "line 1 is neither"),
            ("damaged.jsonl", damaged, "line 1 is no JSON"),
            ("blank", " \n\n", "holds no lines"),
        ];
        for (name, text, why) in foreign {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            let id = store.files.find(&file).await.unwrap();
            let errors = [
                store.files.open(&file).await.unwrap_err(),
                store.stored.import(file.to_str().unwrap()).await.unwrap_err(),
                store.stored.delete(&id).await.unwrap_err(),
                store.stored.set_title(&id, Some("t")).await.unwrap_err(),
                store.stored.set_pinned(&id, true).await.unwrap_err(),
                store.files.rebuild_view(&id).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.code(), "NOT_A_SESSION");
                let text = error.to_string();
                assert!(text.contains(name) && text.contains(why), "{text}");
            }
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        let n_files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(n_files, foreign.len(), "nothing is made beside them");
        assert!(store.files.list_in(folder.path()).await.unwrap().is_empty());
    });
}

#[test]
fn an_empty_file_can_become_a_session_and_is_none_to_delete() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, &folder.path().join("own")).await;
        let file = folder.path().join("empty");
        std::fs::write(&file, "").unwrap();
        let id = store.files.find(&file).await.unwrap();
        assert_eq!(store.stored.delete(&id).await.unwrap_err().code(), "NOT_A_SESSION");
        assert!(file.exists());
        let opened = store.files.open(&file).await.unwrap();
        store.files.release(&opened.header.id).await.unwrap();
        assert_eq!(lines(&file), [r#"{"_session_version":2}"#]);
        // A view alone is a session, and can be deleted.
        let id = store.files.find(&file).await.unwrap();
        store.stored.delete(&id).await.unwrap();
        assert!(!file.exists());
    });
}

#[test]
fn a_log_that_is_none_protects_the_files_beside_it() {
    run(async |root| {
        let folder = folder();
        let store = store(&root, &folder.path().join("own")).await;
        let file = folder.path().join("a.txt");
        std::fs::write(&file, "text\n").unwrap();
        let id = store.files.find(&file).await.unwrap();
        std::fs::write(folder.path().join("a.txt.events"), "of somebody else\n").unwrap();
        let refused = store.stored.delete(&id).await.unwrap_err();
        assert_eq!((refused.code(), file.exists()), ("SESSION_DAMAGED", true));
        assert_eq!(store.files.open(&file).await.unwrap_err().code(), "SESSION_DAMAGED");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text\n");
    });
}
