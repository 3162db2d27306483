//! Time for n and for 2n of the same thing: `cargo bench -p linn-bus --bench growth`. What can be counted is a test.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, reason = "a table of real time")]
#![allow(dead_code, reason = "a service that nobody calls")]

use std::time::{Duration, Instant};

use linn_bus::{Context, Event, Root, ScopeKey, ServiceError, TokioRuntime, provider, service};

#[derive(Event)]
#[event(name = "growth/scoped", mode = Emit, subject = key)]
struct Scoped {
    key: Option<ScopeKey>,
}
#[service("growth/foo")]
trait Foo {
    fn value(&self) -> Result<u32, ServiceError>;
}
struct One;
#[provider]
impl Foo for One {
    fn value(&self) -> Result<u32, ServiceError> {
        Ok(1)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Run as a test it only has to work.
    let sizes: &[usize] = if std::env::args().any(|it| it == "--bench") { &[400, 800, 1600] } else { &[4] };
    for &n in sizes {
        let root = Root::new(TokioRuntime::seams());
        let at = Instant::now();
        let fibers: Vec<_> = (0..n).map(|_| root.mount_fn("f", async |_: Context, (): ()| {}).unwrap()).collect();
        for it in &fibers {
            it.running().await.unwrap();
        }
        let mounted = at.elapsed();
        let at = Instant::now();
        for it in &fibers {
            it.dispose().await.unwrap();
        }
        let disposed = at.elapsed();
        let fibers: Vec<_> = (0..n).map(|_| root.mount_fn("f", async |_: Context, (): ()| {}).unwrap()).collect();
        for it in &fibers {
            it.running().await.unwrap();
        }
        let at = Instant::now();
        futures::future::join_all(fibers.iter().map(|it| it.dispose())).await;
        let together = at.elapsed();

        let at = Instant::now();
        let providers: Vec<_> = (0..n)
            .map(|_| {
                root.isolate::<dyn Foo>()
                    .mount_fn("p", async |ctx: Context, (): ()| {
                        ctx.provide::<dyn Foo>(std::sync::Arc::new(One)).map(drop)
                    })
                    .unwrap()
            })
            .collect();
        for it in &providers {
            it.running().await.unwrap();
        }
        let provided = at.elapsed();
        root.fiber().dispose().await.unwrap();
        let ctx = root.fiber().context().unwrap();

        let at = Instant::now();
        let scopes: Vec<_> = (0..n)
            .map(|_| {
                let scope = ctx.scope().unwrap();
                scope.context().on(|_: &Scoped| {}).unwrap();
                ctx.emit(&Scoped { key: Some(scope.key().clone()) });
                scope
            })
            .collect();
        let scoped = at.elapsed();
        let at = Instant::now();
        for it in &scopes {
            it.dispose().await.unwrap();
        }
        let unscoped = at.elapsed();

        let at = Instant::now();
        let timers: Vec<_> = (0..n).map(|_| ctx.interval(Duration::from_millis(100), || {}).unwrap()).collect();
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(250)).await;
        for it in &timers {
            it.dispose();
        }
        tokio::task::yield_now().await;
        let ticked = at.elapsed().saturating_sub(Duration::from_millis(250));
        println!(
            "{n}: mount {mounted:?} dispose {disposed:?} together {together:?} provide {provided:?} scopes {scoped:?} their end {unscoped:?} intervals {ticked:?}"
        );
    }
}
