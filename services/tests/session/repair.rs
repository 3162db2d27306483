//! Closing what was left open.

use linn_bus_test::run;
use linn_services::session::{Fact, RewindCause, Session, SessionRewind, StepEnd, TurnEndReason, repair};

use crate::{
    assistant, call, call_block, result, seeded, session, sessions, step_end, step_start, turn, turn_start, user,
};

/// What repair adds, in short.
fn added(session: &Session) -> Vec<String> {
    let last = session.records_from(0).last().map_or(0, |it| it.time_ms);
    let records = repair(&session.records_from(0));
    for (seq, record) in (session.len()..).zip(&records) {
        assert_eq!((record.seq, record.time_ms), (seq, last));
    }
    let short = |fact: &Fact| match fact {
        Fact::ToolResult(it) => {
            let error = it.error.clone().unwrap();
            assert!(it.is_error && (error.name.as_str(), error.code.as_str()) == ("InterruptedError", "interrupted"));
            format!("{} in {}.{}", it.call_id, it.turn, it.step)
        }
        Fact::StepEnd(StepEnd { turn, step }) => format!("end of {turn}.{step}"),
        Fact::TurnEnd(it) if it.reason == TurnEndReason::Interrupted => format!("interrupted {}", it.turn),
        fact => format!("{fact:?}"),
    };
    records.iter().map(|it| short(&it.fact)).collect()
}

#[test]
fn se_11_a_balanced_log_needs_nothing() {
    run(async |root| {
        let session = session(&root).await;
        assert!(added(&session).is_empty());
        turn(&session, 1);
        assert!(added(&session).is_empty());
        session.append(SessionRewind { to: 0, cause: RewindCause::Reset }).unwrap();
        assert!(added(&session).is_empty());
    });
}

#[test]
fn se_11_an_open_turn_is_ended_and_so_is_an_open_step() {
    run(async |root| {
        let session = session(&root).await;
        turn(&session, 1);
        session.append(turn_start(2)).unwrap();
        assert_eq!(added(&session), ["interrupted 2"]);
        session.say(user("a")).unwrap();
        session.append(step_start(2, 1)).unwrap();
        assert_eq!(added(&session), ["end of 2.1", "interrupted 2"]);
        session.append(step_end(2, 1)).unwrap();
        assert_eq!(added(&session), ["interrupted 2"]);
    });
}

#[test]
fn se_11_calls_without_a_result_are_answered_in_the_order_of_the_log() {
    run(async |root| {
        let sessions = sessions(&root).await;
        let session = seeded(&sessions, &root, vec![]);
        session.append(turn_start(1)).unwrap();
        session.append(step_start(1, 1)).unwrap();
        let blocks = ["c1", "c2", "c3", "c4"].map(call_block).to_vec();
        session.say(assistant(1, 1, blocks)).unwrap();
        session.append(call(1, 1, "c2")).unwrap();
        session.append(call(1, 1, "c1")).unwrap();
        session.append(call(1, 1, "c3")).unwrap();
        session.say(result(1, 1, "c3")).unwrap();
        // Nobody got to c4, and the answer holds it all the same.
        assert_eq!(added(&session), ["c2 in 1.1", "c1 in 1.1", "c4 in 1.1", "end of 1.1", "interrupted 1"]);

        // What is repaired needs no repair, and can be the seed of a session.
        let mut records = session.records_from(0);
        records.extend(repair(&records));
        assert!(repair(&records).is_empty());
        let again = seeded(&sessions, &root, records);
        assert_eq!((again.turns().is_open, again.turns().open_step), (false, None));
        assert_eq!(again.messages().len(), 5);
    });
}

#[test]
fn se_11_answered_calls_are_left_alone() {
    run(async |root| {
        let session = session(&root).await;
        session.append(turn_start(1)).unwrap();
        session.append(step_start(1, 1)).unwrap();
        session.say(assistant(1, 1, vec![call_block("c1")])).unwrap();
        session.append(call(1, 1, "c1")).unwrap();
        session.say(result(1, 1, "c1")).unwrap();
        assert_eq!(added(&session), ["end of 1.1", "interrupted 1"]);
    });
}
