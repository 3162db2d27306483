//! `internal/decision`: who decided what, in which order, and who was left out and why.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;
use futures::poll;
use linn_bus::{
    BusError, Cause, Change, Context, Decision, DecisionOutcome, Event, Fault, InternalDecision, InternalDispatch,
    Listener, ListenerError, Next, Root, ScopeKey, SkipReason, StepResult, listener,
};
use linn_bus_test::run;

#[derive(Event)]
#[event(name = "decision/told", mode = Emit)]
struct Told;

#[derive(Event)]
#[event(name = "decision/asked", mode = Bail, output = u32)]
struct Asked(u32);

#[derive(Event)]
#[event(name = "decision/in-turn", mode = Serial, output = u32)]
struct InTurn;

#[derive(Event)]
#[event(name = "decision/together", mode = Parallel)]
struct Together;

#[derive(Event)]
#[event(name = "decision/around", mode = Waterfall, output = u32)]
struct Around;

#[derive(Event)]
#[event(name = "decision/scoped", mode = Bail, output = u32, subject = key)]
struct Scoped {
    key: Option<ScopeKey>,
}

/// Can be neither copied nor compared.
struct Opaque;

#[derive(Event)]
#[event(name = "decision/opaque", mode = Waterfall, output = Opaque)]
struct OpaqueAround;

/// Is told apart by how it is shown.
#[derive(serde::Serialize)]
struct Shown(u32);

#[derive(Event)]
#[event(name = "decision/shown", mode = Waterfall, output = Shown, output_view)]
struct ShownAround;

type Log = Arc<Mutex<Vec<Arc<Decision>>>>;

/// Keeps every record.
fn record(root: &Root) -> (Log, Listener) {
    let log = Log::default();
    let kept = log.clone();
    let listener = root.on(move |it: &InternalDecision| kept.lock().unwrap().push(it.decision.clone())).unwrap();
    (log, listener)
}

fn only(log: &Log) -> Arc<Decision> {
    let mut log = log.lock().unwrap();
    assert_eq!(log.len(), 1, "{log:?}");
    log.pop().unwrap()
}

/// Plugin, result and layer of each step, in one word each.
fn steps(decision: &Decision) -> Vec<String> {
    let step = |it: &linn_bus::DecisionStep| {
        let result = match &it.result {
            StepResult::Passed => "passed".to_owned(),
            StepResult::Answered(change) => format!("{change:?}").to_lowercase(),
            StepResult::Failed(error) => error.code().to_owned(),
            StepResult::Dropped => "dropped".to_owned(),
            StepResult::Skipped(why) => format!("skipped:{why:?}").to_lowercase(),
            other => panic!("{other:?}"),
        };
        let inside = it.inside.map_or(String::new(), |it| format!(" in {it}"));
        format!("{} {result}{inside}", it.plugin)
    };
    decision.steps.iter().map(step).collect()
}

/// Mounts a plugin with these listeners.
async fn plugin(
    root: &Root,
    name: &str,
    start: impl Fn(&Context) -> Result<Listener, BusError> + Send + Sync + 'static,
) -> linn_bus::Fiber {
    let start = Arc::new(start);
    let fiber = root.mount_fn(name, move |ctx: Context, (): ()| {
        let start = start.clone();
        async move { start(&ctx).map(drop) }
    });
    let fiber = fiber.unwrap();
    fiber.running().await.unwrap();
    fiber
}

#[test]
fn a_bail_says_who_answered_and_who_was_not_asked() {
    run(async |root| {
        plugin(&root, "shy", |ctx| ctx.on(|_: &Asked| None)).await;
        let bold = plugin(&root, "bold", |ctx| ctx.on(|it: &Asked| (it.0 > 1).then_some(7))).await;
        plugin(&root, "late", |ctx| ctx.on(|_: &Asked| Some(9))).await;
        let (log, _) = record(&root);
        assert_eq!(root.bail(&Asked(2)).unwrap(), Some(7));
        let decision = only(&log);
        assert_eq!(steps(&decision), ["shy passed", "bold decided", "late skipped:answered"]);
        assert_eq!((decision.event.name, &*decision.plugin), ("decision/asked", "root"));
        let by = decision.answered_by().unwrap();
        assert_eq!((&*by.plugin, by.fiber), ("bold", bold.id()));
        assert!(decision.error().is_none());
    });
}

#[test]
fn what_decided_nothing_is_not_recorded() {
    run(async |root| {
        let (log, listener) = record(&root);
        root.on(|_: &Asked| None).unwrap();
        root.on(|_: &Told| {}).unwrap();
        root.on(async |_: &InTurn| None).unwrap();
        root.on(async |_: &Together| {}).unwrap();
        assert_eq!(root.bail(&Asked(0)).unwrap(), None);
        root.emit(&Told);
        assert_eq!(root.serial(&InTurn).await.unwrap(), None);
        root.parallel(&Together).await.unwrap();
        assert_eq!(root.bail(&Scoped { key: None }).unwrap(), None);
        assert!(log.lock().unwrap().is_empty(), "{log:?}");
        assert!(listener.dispose());
        root.waterfall(&Around, async || 1).await.unwrap();
        assert!(log.lock().unwrap().is_empty());
    });
}

#[test]
fn a_serial_that_fails_says_who_and_why() {
    run(async |root| {
        plugin(&root, "waits", |ctx| {
            ctx.on(async |_: &InTurn| {
                futures::pending!();
                None::<u32>
            })
        })
        .await;
        plugin(&root, "bad", |ctx| ctx.on(async |_: &InTurn| Err::<Option<u32>, _>(Fault::msg("no")))).await;
        plugin(&root, "late", |ctx| ctx.on(async |_: &InTurn| Some(1))).await;
        let (log, _) = record(&root);
        let mut call = pin!(root.serial(&InTurn));
        assert!(poll!(call.as_mut()).is_pending());
        let error = call.await.unwrap_err();
        let decision = only(&log);
        assert_eq!(steps(&decision), ["waits passed", "bad LISTENER_FAILED", "late skipped:failed"]);
        assert_eq!(decision.error().unwrap().plugin(), error.plugin());
        assert!(matches!(decision.outcome, DecisionOutcome::Failed { .. }));
    });
}

#[test]
fn a_waterfall_says_who_changed_what() {
    run(async |root| {
        let keeps = async |_: &Around, next: Next<'_, Around>| next.run().await;
        plugin(&root, "keeps", move |ctx| ctx.on(keeps)).await;
        plugin(&root, "adds", |ctx| {
            ctx.on(async |_: &Around, next: Next<'_, Around>| Ok::<_, ListenerError>(next.run().await? + 1))
        })
        .await;
        plugin(&root, "twice", |ctx| {
            ctx.on(async |_: &Around, next: Next<'_, Around>| {
                drop(next.run().await);
                next.run().await
            })
        })
        .await;
        let (log, _) = record(&root);
        assert_eq!(root.waterfall(&Around, async || 3).await.unwrap(), 4);
        let decision = only(&log);
        let expected = ["keeps kept", "adds changed in 0", "twice kept in 1", "root decided in 2", "root decided in 2"];
        assert_eq!(steps(&decision), expected);
        assert_eq!(decision.steps.iter().map(|it| it.n_next).collect::<Vec<_>>(), [1, 1, 2, 0, 0]);
        assert_eq!(decision.steps[3].fiber, None, "the default is of no fiber");
        assert_eq!(&*decision.answered_by().unwrap().plugin, "adds");
    });
}

#[test]
fn a_layer_that_answers_alone_keeps_the_others_out() {
    run(async |root| {
        plugin(&root, "recovers", |ctx| {
            ctx.on(async |_: &Around, next: Next<'_, Around>| next.run().await.unwrap_or(8))
        })
        .await;
        plugin(&root, "fails", |ctx| {
            ctx.on(async |_: &Around, _: Next<'_, Around>| -> Result<u32, Fault> { Err(Fault::msg("no")) })
        })
        .await;
        plugin(&root, "unreached", |ctx| ctx.on(async |_: &Around, next: Next<'_, Around>| next.run().await)).await;
        let (log, _) = record(&root);
        assert_eq!(root.waterfall(&Around, async || 3).await.unwrap(), 8);
        let decision = only(&log);
        let expected = ["recovers decided", "fails LISTENER_FAILED in 0", "unreached skipped:answered"];
        assert_eq!(steps(&decision), expected);
        assert_eq!(&*decision.answered_by().unwrap().plugin, "recovers");
    });
}

#[test]
fn a_change_is_unknown_only_where_nothing_can_tell() {
    run(async |root| {
        root.on(async |_: &OpaqueAround, next: Next<'_, OpaqueAround>| next.run().await).unwrap();
        root.on(async |_: &ShownAround, next: Next<'_, ShownAround>| next.run().await).unwrap();
        root.on(async |_: &ShownAround, next: Next<'_, ShownAround>| {
            Ok::<_, ListenerError>(Shown(next.run().await?.0 + 1))
        })
        .unwrap();
        let (log, _) = record(&root);
        root.waterfall(&OpaqueAround, async || Opaque).await.unwrap();
        assert_eq!(steps(&only(&log)), ["root unknown", "root decided in 0"]);
        root.waterfall(&ShownAround, async || Shown(1)).await.unwrap();
        let decision = only(&log);
        assert_eq!(steps(&decision), ["root kept", "root changed in 0", "root decided in 1"]);
        let answers: Vec<_> = decision.steps.iter().map(|it| it.answer.clone().unwrap().as_u64().unwrap()).collect();
        assert_eq!(answers, [2, 2, 1]);
        assert!(matches!(decision.outcome, DecisionOutcome::Answered { by: 1 }));
    });
}

#[test]
fn who_was_left_out_is_there_with_the_reason() {
    run(async |root| {
        let own = Arc::new(Mutex::new(None::<Listener>));
        let (handle, ctx) = (own.clone(), root.context().clone());
        root.on(move |it: &Asked| {
            if it.0 == 0 {
                return None;
            }
            handle.lock().unwrap().take()?.dispose();
            // The one that runs once does so in here.
            drop(ctx.bail(&Asked(0)));
            None
        })
        .unwrap();
        *own.lock().unwrap() = Some(root.on(|_: &Asked| None).unwrap());
        root.once().on(|_: &Asked| None).unwrap();
        root.on(|it: &Asked| (it.0 > 0).then_some(1)).unwrap();
        let (log, _) = record(&root);
        assert_eq!(root.bail(&Asked(1)).unwrap(), Some(1));
        assert_eq!(steps(&only(&log)), ["root passed", "root skipped:disposed", "root skipped:once", "root decided"]);
    });
}

#[test]
fn who_hears_another_scope_is_there() {
    run(async |root| {
        let [one, other] = [root.new_scope_key(), root.new_scope_key()];
        root.scope_for(&one).unwrap().context().on(|_: &Scoped| Some(1)).unwrap();
        root.scope_for(&other).unwrap().context().on(|_: &Scoped| Some(2)).unwrap();
        let (log, _) = record(&root);
        assert_eq!(root.bail(&Scoped { key: Some(one.clone()) }).unwrap(), Some(1));
        let decision = only(&log);
        assert_eq!(steps(&decision), ["scope decided", "scope skipped:scope"]);
        assert_eq!(decision.scope, Some(one));
        assert!(matches!(decision.steps[1].result, StepResult::Skipped(SkipReason::Scope)));
    });
}

#[test]
fn what_is_refused_or_fails_is_recorded_in_every_mode() {
    run(async |root| {
        let (log, _) = record(&root);
        root.on(|_: &Told| -> Result<(), Fault> { Err(Fault::msg("no")) }).unwrap();
        root.on(async |_: &Together| -> Result<(), Fault> { Err(Fault::msg("no")) }).unwrap();
        root.on(async |_: &Together| {}).unwrap();
        root.emit(&Told);
        assert_eq!(steps(&only(&log)), ["root LISTENER_FAILED"]);
        root.parallel(&Together).await.unwrap_err();
        assert_eq!(steps(&only(&log)), ["root LISTENER_FAILED", "root passed"]);
        let censor = plugin(&root, "censor", |ctx| {
            ctx.on(|_: &InternalDispatch| -> Result<(), Fault> { Err(Fault::msg("not today")) })
        });
        censor.await;
        root.emit(&Told);
        root.waterfall(&Around, async || 3).await.unwrap_err();
        root.serial(&InTurn).await.unwrap_err();
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 3);
        for decision in &*log {
            assert!(decision.steps.is_empty());
            assert!(matches!(&decision.outcome, DecisionOutcome::Refused { error } if error.plugin() == "censor"));
            assert!(matches!(decision.error().unwrap().cause(), Cause::Refused(_)));
        }
    });
}

#[test]
fn the_payload_is_there_while_the_record_is_told() {
    run(async |root| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        root.on(move |it: &InternalDecision| log.lock().unwrap().push(it.payload::<Asked>().map(|it| it.0))).unwrap();
        root.on(|it: &Asked| Some(it.0)).unwrap();
        root.bail(&Asked(5)).unwrap();
        root.waterfall(&Around, async || 3).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [Some(5), None]);
    });
}

#[test]
fn a_dispatch_is_the_same_with_a_record_of_it() {
    run(async |root| {
        let (go, wait) = oneshot::channel::<()>();
        let wait = Mutex::new(Some(wait));
        let gone = plugin(&root, "gone", |ctx| {
            ctx.on(async |_: &Around, _: Next<'_, Around>| std::future::pending::<u32>().await)
        })
        .await;
        let (log, _) = record(&root);
        // A layer that is unloaded while it waits, and one that is dropped by the layer around it.
        let mut call = pin!(root.waterfall(&Around, async || 3));
        assert!(poll!(call.as_mut()).is_pending());
        let (answer, disposed) = futures::join!(call, gone.dispose());
        disposed.unwrap();
        assert!(matches!(answer.unwrap_err().cause(), Cause::Unloaded));
        assert_eq!(steps(&only(&log)), ["gone LISTENER_UNLOADED"]);
        let around = root.on(listener!(async move |_: &Around, next: Next<'_, Around>| {
            let wait = wait.lock().unwrap().take().unwrap();
            let mut inner = pin!(next.run());
            assert!(poll!(inner.as_mut()).is_pending());
            wait.await.unwrap();
            7u32
        }));
        around.unwrap();
        root.on(async |_: &Around, _: Next<'_, Around>| std::future::pending::<u32>().await).unwrap();
        let mut call = pin!(root.waterfall(&Around, async || 3));
        assert!(poll!(call.as_mut()).is_pending());
        go.send(()).unwrap();
        assert_eq!(call.await.unwrap(), 7);
        let decision = only(&log);
        assert_eq!(steps(&decision), ["root decided", "root dropped in 0"]);
        assert!(matches!(decision.steps[0].result, StepResult::Answered(Change::Decided)));
    });
}
