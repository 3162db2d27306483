//! Going back: reset, clear, undo, one in the other, and across compactions.

use linn_bus_test::run;
use linn_services::session::{Fact, RewindCause, Session, SessionRewind, SurfaceOp};
use proptest::prelude::*;

use crate::{replace, session, texts, turn, turn_end, turn_start, user};

fn go_back(session: &Session, to: u64, cause: RewindCause) {
    session.append(SessionRewind { to, cause }).unwrap();
}

/// The surface by the definition: read the log up to `to`, and where it goes back, begin again from there.
fn surface_by_definition(session: &Session, to: u64) -> Vec<u64> {
    let mut surface: Vec<u64> = Vec::new();
    for record in session.records_from(0).iter().take_while(|it| it.seq < to) {
        match (&record.fact, record.surface.as_ref().map(|it| it.op)) {
            (Fact::SessionRewind(it), _) => surface = surface_by_definition(session, it.to),
            (_, None) => {}
            (_, Some(SurfaceOp::Append)) => surface.push(record.seq),
            (_, Some(SurfaceOp::Replace { start, end })) => {
                let place = |seq| surface.iter().position(|it| *it == seq).unwrap();
                surface.splice(place(start)..=place(end), [record.seq]);
            }
        }
    }
    surface
}

#[test]
fn reset_and_clear_begin_anew_and_undo_takes_back_the_last_turn() {
    run(async |root| {
        let session = session(&root).await;
        turn(&session, 1);
        turn(&session, 2);
        go_back(&session, 6, RewindCause::Undo);
        assert_eq!(texts(&session), ["prompt 1", "answer 1"]);
        turn(&session, 3);
        assert_eq!(texts(&session), ["prompt 1", "answer 1", "prompt 3", "answer 3"]);
        go_back(&session, 0, RewindCause::Clear);
        assert!(texts(&session).is_empty());
        turn(&session, 4);
        go_back(&session, 0, RewindCause::Reset);
        assert!(texts(&session).is_empty());
        // The log keeps everything, and turns go on counting.
        assert_eq!((session.len(), session.turns().last_turn), (27, 4));
    });
}

#[test]
fn an_undo_can_be_undone_and_one_across_a_compaction_brings_the_range_back() {
    run(async |root| {
        let session = session(&root).await;
        turn(&session, 1);
        turn(&session, 2);
        session.append(turn_start(3)).unwrap();
        replace(&session, "sum", 1, 9);
        session.say(user("prompt 3")).unwrap();
        session.append(turn_end(3)).unwrap();
        assert_eq!(texts(&session), ["sum", "prompt 3"]);
        go_back(&session, 12, RewindCause::Undo);
        assert_eq!(texts(&session), ["prompt 1", "answer 1", "prompt 2", "answer 2"]);
        go_back(&session, 16, RewindCause::Undo);
        assert_eq!(texts(&session), ["sum", "prompt 3"]);
        go_back(&session, 6, RewindCause::Undo);
        assert_eq!(texts(&session), ["prompt 1", "answer 1"]);
    });
}

#[test]
fn a_rewind_stands_outside_of_turns_and_goes_to_a_place_between_turns() {
    run(async |root| {
        let session = session(&root).await;
        turn(&session, 1);
        let refused = |to| session.append(SessionRewind { to, cause: RewindCause::Undo }).unwrap_err().code();
        assert_eq!([refused(1), refused(5), refused(7), refused(u64::MAX)], ["BAD_REWIND"; 4]);
        session.append(turn_start(2)).unwrap();
        assert_eq!(refused(0), "BAD_REWIND");
        assert_eq!(session.len(), 7);
        session.append(turn_end(2)).unwrap();
        go_back(&session, 8, RewindCause::Undo);
        assert_eq!(texts(&session).len(), 2);
    });
}

/// One thing a session goes through.
#[derive(Debug, Clone)]
enum Act {
    Turn,
    Compact(prop::sample::Index, prop::sample::Index),
    GoBack(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => Just(Act::Turn),
        2 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(a, b)| Act::Compact(a, b)),
        3 => any::<prop::sample::Index>().prop_map(Act::GoBack),
    ];
    prop::collection::vec(act, 1..24)
}

fn act_out(session: &Session, acts: &[Act]) {
    let mut boundaries = vec![0];
    for act in acts {
        let number = session.turns().last_turn + 1;
        match act {
            Act::Turn => turn(session, number),
            Act::Compact(a, b) => {
                let surface = session.surface();
                if surface.is_empty() {
                    continue;
                }
                let (a, b) = (a.index(surface.len()), b.index(surface.len()));
                session.append(turn_start(number)).unwrap();
                replace(session, "sum", surface[a.min(b)], surface[a.max(b)]);
                session.append(turn_end(number)).unwrap();
            }
            Act::GoBack(to) => go_back(session, boundaries[to.index(boundaries.len())], RewindCause::Undo),
        }
        boundaries.push(session.len());
        assert_eq!(session.surface(), surface_by_definition(session, session.len()), "after {act:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_of_turns_compactions_and_rewinds_gives_the_surface_of_the_definition(acts in acts()) {
        run(async |root| {
            let session = session(&root).await;
            act_out(&session, &acts);
            // Read again from its records it is the same.
            let sessions = root.get::<dyn linn_services::session::Sessions>().unwrap();
            let again = crate::seeded(&sessions, &root, session.records_from(0));
            assert_eq!(again.surface(), session.surface());
            assert_eq!(again.messages(), session.messages());
        });
    }
}
