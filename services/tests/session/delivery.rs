//! The order in which records are told.

use std::sync::{Arc, Barrier, Mutex};

use linn_bus::{Fault, MAX_NESTING};
use linn_bus_test::run;
use linn_services::events::SessionEvent;
use linn_services::session::AppendError;

use crate::{other, session, turn_start, user};

#[test]
fn se_09_listeners_that_append_hear_everything_in_the_order_of_the_log() {
    run(async |root| {
        let session = session(&root).await;
        root.on(|it: &SessionEvent| {
            if it.record.seq < 3 {
                it.session.append(other("plugin/answer", it.record.seq.into())).unwrap();
            }
        })
        .unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        root.on(move |it: &SessionEvent| log.lock().unwrap().push(it.record.seq)).unwrap();
        session.append(turn_start(1)).unwrap();
        assert_eq!(*heard.lock().unwrap(), [0, 1, 2, 3]);
    });
}

#[test]
fn se_09_two_threads_that_append_are_told_in_the_order_of_the_log() {
    run(async |root| {
        let session = session(&root).await;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        root.on(move |it: &SessionEvent| log.lock().unwrap().push(it.record.seq)).unwrap();
        let begin = Barrier::new(2);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    begin.wait();
                    for _ in 0..2_000 {
                        session.say(user("x")).unwrap();
                    }
                });
            }
        });
        // Whoever appended last has returned, so all was told.
        assert_eq!(*heard.lock().unwrap(), (0..4_000).collect::<Vec<u64>>());
    });
}

#[test]
fn se_09_a_thread_that_appends_while_another_tells_does_not_wait() {
    run(async |root| {
        let session = session(&root).await;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        root.on(move |it: &SessionEvent| {
            log.lock().unwrap().push(it.record.seq);
            if it.record.seq == 0 {
                // It could not be joined if it waited for this listener.
                std::thread::scope(|threads| threads.spawn(|| it.session.say(user("b")).map(drop)).join().unwrap())
                    .unwrap();
            }
        })
        .unwrap();
        session.say(user("a")).unwrap();
        assert_eq!(*heard.lock().unwrap(), [0, 1]);
    });
}

#[test]
fn the_errors_of_listeners_reach_whoever_appended_and_the_record_stays() {
    run(async |root| {
        let session = session(&root).await;
        root.on(|it: &SessionEvent| match it.record.seq {
            0 => Err(Fault::msg("no")),
            1 => panic!("oh no"),
            _ => Ok(()),
        })
        .unwrap();
        for seq in 0..2 {
            let error = session.append(turn_start(1)).unwrap_err();
            assert!(error.is_logged());
            assert!(matches!(error, AppendError::Listeners { seq: it, .. } if it == seq), "{error:?}");
        }
        session.append(turn_start(1)).unwrap();
        assert_eq!(session.len(), 3);
    });
}

#[test]
fn a_listener_that_answers_every_record_is_stopped() {
    run(async |root| {
        let session = session(&root).await;
        let refused = Arc::new(Mutex::new(Vec::new()));
        let log = refused.clone();
        root.on(move |it: &SessionEvent| {
            if let Err(error) = it.session.append(other("plugin/echo", it.record.seq.into())) {
                log.lock().unwrap().push(error.code());
            }
        })
        .unwrap();
        session.append(turn_start(1)).unwrap();
        assert_eq!(session.len(), MAX_NESTING as u64 + 1);
        assert_eq!(*refused.lock().unwrap(), ["TOO_DEEP"]);
        // The next one begins anew.
        session.append(turn_start(2)).unwrap();
        assert_eq!(session.len(), 2 * (MAX_NESTING as u64 + 1));
    });
}
