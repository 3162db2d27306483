//! `leak_check`: each kind of thing that may be left is named.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use linn_bus::{Context, Event, ServiceError, service};
use linn_bus_test::{leak_check, run};

#[derive(Event)]
#[event(name = "kit/a", mode = Emit)]
struct A;

#[service("kit/names")]
trait Names {
    fn name(&self) -> Result<String, ServiceError>;
}

struct Fixed;

impl Names for Fixed {
    fn name(&self) -> Result<String, ServiceError> {
        Ok("fixed".to_owned())
    }
}

/// What the check says after `leave` ran at the root.
fn complaint(leave: impl AsyncFnOnce(&Context)) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| run(async |root| leak_check(&root, leave).await)));
    *panic.unwrap_err().downcast::<String>().unwrap()
}

async fn busy(ctx: &Context) {
    ctx.on(|_: &A| {}).unwrap();
    ctx.provide::<dyn Names>(Arc::new(Fixed)).unwrap();
    let sleeper = ctx.clone();
    ctx.spawn(async move { sleeper.sleep(Duration::from_secs(9)).await }).unwrap();
    ctx.interval(Duration::from_secs(9), || {}).unwrap();
    ctx.mount_fn("inner", async |_: Context, (): ()| {}).unwrap();
}

#[test]
fn a_listener_that_is_left_is_named() {
    let text = complaint(async |ctx| drop(ctx.on(|_: &A| {})));
    assert!(text.contains("listener on `kit/a` of plugin `root`"), "{text}");
}

#[test]
fn a_service_that_is_left_is_named() {
    let text = complaint(async |ctx| drop(ctx.provide::<dyn Names>(Arc::new(Fixed))));
    assert!(text.contains("service `kit/names` of plugin `root`"), "{text}");
}

#[test]
fn a_task_and_a_timer_that_are_left_are_named() {
    let text = complaint(async |ctx| drop(ctx.spawn(std::future::pending::<()>())));
    assert!(text.contains("effect `ctx.spawn()` of plugin `root`"), "{text}");
    let text = complaint(async |ctx| drop(ctx.timeout(Duration::from_secs(9), || {})));
    assert!(text.contains("effect `ctx.timeout()` of plugin `root`"), "{text}");
}

#[test]
fn a_fiber_that_is_left_is_named_with_its_state() {
    let text = complaint(async |ctx| {
        let fiber = ctx.mount_fn("stays", async |_: Context, (): ()| {}).unwrap();
        fiber.settled().await.unwrap();
    });
    assert!(text.contains("of plugin `stays`, which is active"), "{text}");
}

#[test]
fn what_is_disposed_leaves_nothing() {
    run(async |root| {
        root.on(|_: &A| {}).unwrap();
        leak_check(&root, async |ctx| {
            let fiber = ctx.mount_fn("busy", async |ctx: Context, (): ()| busy(&ctx).await).unwrap();
            fiber.settled().await.unwrap();
            assert_eq!(ctx.get::<dyn Names>().unwrap().name().unwrap(), "fixed");
            fiber.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn what_was_told_to_end_gets_its_turn_to_do_so() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            ctx.spawn(std::future::pending::<()>()).unwrap().abort();
            ctx.timeout(Duration::from_secs(9), || {}).unwrap().dispose();
        })
        .await;
    });
}
