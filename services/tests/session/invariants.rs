//! The invariants of development builds.

use linn_bus_test::{leak_check, run};
use linn_services::session::invariants::{InvariantsPlugin, LogChecker};
use linn_services::session::{
    AssistantMessage, CreateSession, RewindCause, Session, SessionRewind, Sessions, SessionsPlugin, SurfaceOp, repair,
};

use crate::{
    assistant, call, call_block, result, seeded, sessions, step_end, step_start, turn, turn_end, turn_start, user,
};

fn broken(session: &Session) -> Vec<String> {
    let mut checker = LogChecker::default();
    session.records_from(0).iter().filter_map(|it| checker.take(it).err()).map(|it| it.to_string()).collect()
}

#[test]
fn se_14_each_broken_rule_is_found() {
    type Script = fn(&Session);
    let cases: &[(&str, Script, &str)] = &[
        ("skipped turn", |it| turn(it, 2), "`turn/start` has number 2, the next one is 1"),
        ("nested turn", |it| drop((it.append(turn_start(1)), it.append(turn_start(2)))), "begins while a turn is open"),
        ("step outside", |it| drop(it.append(step_start(1, 1))), "`step/start` stands outside of a turn"),
        (
            "skipped step",
            |it| drop((it.append(turn_start(1)), it.append(step_start(1, 2)))),
            "`step/start` has number 2, the next one is 1",
        ),
        (
            "nested step",
            |it| drop((it.append(turn_start(1)), it.append(step_start(1, 1)), it.append(step_start(1, 2)))),
            "begins while a step is open",
        ),
        (
            "turn that ends in a step",
            |it| drop((it.append(turn_start(1)), it.append(step_start(1, 1)), it.append(turn_end(1)))),
            "ends while a step is open",
        ),
        (
            "result without call",
            |it| drop((it.append(turn_start(1)), it.append(step_start(1, 1)), it.say(result(1, 1, "c1")))),
            "a result for call \"c1\"",
        ),
        ("event outside of a turn", |it| drop(it.say(user("a"))), "`user/message` stands outside of a turn"),
        (
            "answer outside of a step",
            |it| drop((it.append(turn_start(1)), it.say(assistant(1, 0, vec![])))),
            "`assistant/message` stands outside of a step",
        ),
        (
            "replacement that does not name what it replaces",
            |it| {
                it.append(turn_start(1)).unwrap();
                it.say(user("a")).unwrap();
                it.say(user("b")).unwrap();
                it.append_to_surface(user("ab"), SurfaceOp::Replace { start: 1, end: 2 }, Some(vec![1])).unwrap();
            },
            "record 3 takes the place of record 2",
        ),
    ];
    for (name, script, expected) in cases {
        run(async |root| {
            let sessions = sessions(&root).await;
            let session = sessions.create(&root, CreateSession::default()).unwrap();
            script(&session);
            let broken = broken(&session);
            assert!(broken.iter().any(|it| it.contains(expected)), "{name}: {broken:?}");
        });
    }
}

#[test]
fn se_14_with_the_plugin_whoever_breaks_a_rule_hears_of_it() {
    run(async |root| {
        root.mount::<InvariantsPlugin>(()).unwrap().running().await.unwrap();
        let sessions = sessions(&root).await;
        let session = sessions.create(&root, CreateSession::default()).unwrap();
        turn(&session, 1);
        let error = session.append(turn_start(3)).unwrap_err();
        assert!(format!("{error}").contains("turn/start"), "{error}");
        assert!(error.is_logged());
    });
}

#[test]
fn se_14_good_logs_break_nothing_also_repaired_compacted_and_rewound_ones() {
    run(async |root| {
        root.mount::<InvariantsPlugin>(()).unwrap().running().await.unwrap();
        let sessions = sessions(&root).await;
        let session = seeded(&sessions, &root, vec![]);
        turn(&session, 1);
        session.append(turn_start(2)).unwrap();
        session.append_to_surface(user("sum"), SurfaceOp::Replace { start: 1, end: 3 }, Some(vec![1, 3])).unwrap();
        session.append(step_start(2, 1)).unwrap();
        session.say(AssistantMessage { turn: 2, step: 1, content: vec![call_block("c1")], usage: None }).unwrap();
        session.append(call(2, 1, "c1")).unwrap();
        session.say(result(2, 1, "c1")).unwrap();
        session.append(step_end(2, 1)).unwrap();
        session.append(step_start(2, 2)).unwrap();
        session.say(assistant(2, 2, vec![call_block("c2")])).unwrap();

        let mut records = session.records_from(0);
        records.extend(repair(&records));
        let again = seeded(&sessions, &root, records);
        again.append(SessionRewind { to: 6, cause: RewindCause::Undo }).unwrap();
        turn(&again, 3);
        assert_eq!(broken(&again), Vec::<String>::new());
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let invariants = ctx.mount::<InvariantsPlugin>(()).unwrap();
            let plugin = ctx.mount::<SessionsPlugin>(()).unwrap();
            plugin.running().await.unwrap();
            let scope = ctx.scope().unwrap();
            ctx.get::<dyn Sessions>().unwrap().create(scope.context(), CreateSession::default()).unwrap();
            scope.dispose().await.unwrap();
            plugin.dispose().await.unwrap();
            invariants.dispose().await.unwrap();
        })
        .await;
    });
}
