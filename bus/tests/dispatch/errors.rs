//! Errors of dispatches: what they say, what is behind them, and how they pass through layers.

use std::error::Error as _;

use linn_bus::{Cause, Context, Fault, ListenerError, Next, listener};
use linn_bus_test::run;

use crate::{Ask, Fan, Ping, Step, Wrap};

#[derive(Debug, thiserror::Error)]
#[error("cannot read the rules")]
struct Unreadable(#[source] std::num::ParseIntError);

fn unreadable() -> Unreadable {
    Unreadable("x".parse::<u8>().unwrap_err())
}

/// Mounts a plugin whose innermost layer fails.
async fn failing(ctx: &Context) {
    let fiber = ctx
        .mount_fn("inner", async |ctx: Context, (): ()| ctx.on(|_: &Wrap| Err::<u32, _>(unreadable())).map(drop))
        .unwrap();
    fiber.running().await.unwrap();
}

#[test]
fn an_error_says_who_and_its_source_says_why() {
    run(async |root| {
        root.on(|_: &Ask| Err::<Option<u32>, _>(unreadable())).unwrap();
        let error = root.bail(&Ask(0)).unwrap_err();
        assert_eq!(error.to_string(), "listener of plugin `root` on `plain/bail` failed");
        let why = "cannot read the rules: invalid digit found in string";
        assert_eq!(format!("{error:#}"), format!("listener of plugin `root` on `plain/bail` failed: {why}"));
        assert_eq!(error.source().unwrap().to_string(), why);
        assert!(error.source().unwrap().source().is_none());
        let Cause::Failed(fault) = error.cause() else { panic!("{error:?}") };
        assert_eq!(fault.to_string(), "cannot read the rules");
        assert_eq!(fault.sources().collect::<Vec<_>>(), ["invalid digit found in string"]);
    });
}

#[test]
fn every_cause_has_words_and_a_code() {
    run(async |root| {
        let panics = root.on(|_: &Ask| -> Option<u32> { panic!("at {}", 7) }).unwrap();
        let error = root.bail(&Ask(0)).unwrap_err();
        assert_eq!(format!("{error:#}"), "listener of plugin `root` on `plain/bail` panicked: at 7");
        panics.dispose();

        let ctx = root.context().clone();
        let nests = root.on(move |_: &Ask| ctx.bail(&Ask(0))).unwrap();
        let error = root.bail(&Ask(0)).unwrap_err();
        assert_eq!(error.code(), "DISPATCH_TOO_DEEP");
        assert_eq!(
            format!("{error:#}"),
            "listener of plugin `root` dispatches `plain/bail` from inside itself: more than 64 levels"
        );
        nests.dispose();

        root.on(|_: &linn_bus::InternalDispatch| Err::<(), _>(Fault::msg("closed"))).unwrap();
        let error = root.bail(&Ask(0)).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "an observer refused the dispatch of `plain/bail`: it belongs to plugin `root`: closed"
        );
    });
}

#[test]
fn an_error_passed_through_layers_names_the_inner_listener() {
    run(async |root| {
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| next.run().await).unwrap();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| Ok::<_, ListenerError>(next.run().await? + 1)).unwrap();
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| Ok::<_, Fault>(next.run().await? + 1)).unwrap();
        failing(&root).await;
        let error = root.waterfall(&Wrap(0), async || 0).await.unwrap_err();
        assert_eq!((error.plugin(), error.code()), ("inner", "LISTENER_FAILED"));
        assert!(matches!(error.cause(), Cause::Failed(fault) if fault.to_string() == "cannot read the rules"));
    });
}

#[test]
fn an_error_of_a_nested_dispatch_names_its_own_listener() {
    run(async |root| {
        failing(&root).await;
        let ctx = root.context().clone();
        root.on(listener!(async move |_: &Step| {
            let answer = ctx.waterfall(&Wrap(0), async || 0).await?;
            Ok::<_, Fault>(Some(answer))
        }))
        .unwrap();
        let error = root.serial(&Step(0)).await.unwrap_err();
        assert_eq!((error.plugin(), error.event()), ("inner", "plain/waterfall"));
    });
}

#[test]
fn a_layer_that_says_more_is_the_one_that_failed() {
    #[derive(Debug, thiserror::Error)]
    #[error("the policy could not be asked")]
    struct Wrapped(#[source] ListenerError);
    run(async |root| {
        root.on(async |_: &Wrap, next: Next<'_, Wrap>| next.run().await.map_err(Wrapped)).unwrap();
        failing(&root).await;
        let error = root.waterfall(&Wrap(0), async || 0).await.unwrap_err();
        let text = format!("{error:#}");
        for part in ["the policy could not be asked", "inner", "cannot read the rules"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    });
}

#[test]
fn an_aggregate_is_in_order_of_the_listeners() {
    run(async |root| {
        for text in ["one", "two"] {
            root.on(move |_: &Ping| Err::<(), _>(Fault::msg(text))).unwrap();
            root.on(|_: &Ping| {}).unwrap();
            root.on(move |_: &Fan| Err::<(), _>(Fault::msg(text))).unwrap();
        }
        let emit = root.try_emit(&Ping(0)).unwrap_err();
        let parallel = root.parallel(&Fan(0)).await.unwrap_err();
        for errors in [emit, parallel] {
            let causes: Vec<_> = errors.iter().map(|it| it.source().unwrap().to_string()).collect();
            assert_eq!((errors.len(), causes), (2, vec!["one".to_owned(), "two".to_owned()]));
            assert!(errors.to_string().starts_with("2 listeners failed; listener of plugin `root`"), "{errors}");
        }
    });
}

#[test]
fn a_code_of_the_author_is_kept() {
    run(async |root| {
        root.on(|_: &Ask| Err::<Option<u32>, _>(Fault::msg("no").with_code("DENIED"))).unwrap();
        let error = root.bail(&Ask(0)).unwrap_err();
        assert!(matches!(error.cause(), Cause::Failed(fault) if fault.code() == Some("DENIED")));
    });
}
