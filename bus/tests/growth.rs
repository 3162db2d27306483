//! Work for n and for 2n of the same thing: what the bus does for each must not depend on how many there are.
//!
//! Counted in polls, of the tasks of the bus and of the futures that wait, since times would depend on the machine.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]
#![allow(dead_code, reason = "a service that nobody calls")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Poll};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use linn_bus::{BoxFuture, Context, Executor, Fiber, Root, ServiceError, Svc, provider, service};
use linn_bus_test::TestRuntime;

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

/// A future whose polls are counted.
struct Counted<T> {
    future: BoxFuture<'static, T>,
    polls: Arc<AtomicUsize>,
}

impl<T> Future for Counted<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<T> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.future.as_mut().poll(cx)
    }
}

/// Runs tasks on the runtime of the test and counts their polls.
struct Counting(TestRuntime, Arc<AtomicUsize>);

impl Executor for Counting {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.0.spawn(Box::pin(Counted { future, polls: self.1.clone() }));
    }
}

/// How many polls the part of `test` takes that it hands to its counter.
fn polls(test: impl AsyncFnOnce(&Root, Count)) -> usize {
    let (runtime, polls) = (TestRuntime::new(), Arc::new(AtomicUsize::new(0)));
    let executor = Arc::new(Counting(runtime.clone(), polls.clone()));
    let root = Root::new(linn_bus::Seams { executor, ..runtime.seams() });
    let count = Count(polls.clone());
    runtime.block_on(test(&root, count));
    polls.load(Ordering::Relaxed)
}

struct Count(Arc<AtomicUsize>);

impl Count {
    /// Counts from here.
    fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Awaits all of them at once, each polled when it is woken.
    async fn together<T>(&self, futures: impl Iterator<Item = BoxFuture<'static, T>>) {
        let counted = futures.map(|future| Counted { future, polls: self.0.clone() });
        counted.collect::<FuturesUnordered<_>>().for_each(|_| std::future::ready(())).await;
    }
}

/// Fails unless twice as many take twice the polls, give or take what is done once.
#[track_caller]
fn is_linear(test: impl AsyncFn(&Root, Count, usize)) {
    let [once, twice] = [100, 200].map(|n| polls(async |root, count| test(root, count, n).await));
    assert!(once >= 100, "{once} polls do not count what they should");
    assert!(twice <= 2 * once + 10, "100 take {once} polls, and 200 take {twice}");
}

async fn fibers(root: &Root, n: usize) -> Vec<Fiber> {
    let mount = |_| Fiber::clone(&root.mount_fn("f", async |_: Context, (): ()| {}).unwrap());
    let fibers: Vec<_> = (0..n).map(mount).collect();
    for it in &fibers {
        it.running().await.unwrap();
    }
    fibers
}

fn dispose(fiber: &Fiber) -> BoxFuture<'static, ()> {
    let fiber = fiber.clone();
    Box::pin(async move { fiber.dispose().await.unwrap() })
}

#[test]
fn fibers_disposed_one_after_the_other_take_as_much_each() {
    is_linear(async |root, count, n| {
        let fibers = fibers(root, n).await;
        count.begin();
        for it in &fibers {
            count.together([dispose(it)].into_iter()).await;
        }
    });
}

#[test]
fn fibers_disposed_together_take_as_much_each() {
    is_linear(async |root, count, n| {
        let fibers = fibers(root, n).await;
        count.begin();
        count.together(fibers.iter().map(dispose)).await;
    });
}

#[test]
fn fibers_started_together_take_as_much_each() {
    is_linear(async |root, count, n| {
        count.begin();
        let mount = |_| Fiber::clone(&root.mount_fn("f", async |_: Context, (): ()| {}).unwrap());
        let fibers: Vec<_> = (0..n).map(mount).collect();
        let settled = fibers
            .into_iter()
            .map(|it| -> BoxFuture<'static, ()> { Box::pin(async move { it.running().await.unwrap() }) });
        count.together(settled).await;
    });
}

/// Each provider in a realm of its own, with a plugin that needs it there.
#[test]
fn providers_that_come_and_go_with_their_users_take_as_much_each() {
    is_linear(async |root, count, n| {
        count.begin();
        let mut pairs = Vec::new();
        for _ in 0..n {
            let realm = root.isolate::<dyn Foo>();
            let user = realm.mount_fn("user", async |_: Context, _: Svc<dyn Foo>| {}).unwrap();
            let provide = async |ctx: Context, (): ()| ctx.provide::<dyn Foo>(Arc::new(One)).map(drop);
            let provider = realm.mount_fn("provider", provide).unwrap();
            provider.running().await.unwrap();
            user.running().await.unwrap();
            pairs.push(Fiber::clone(&provider));
        }
        count.together(pairs.iter().map(dispose)).await;
    });
}

/// One provider, and a withdrawal that waits for every plugin that needs it.
#[test]
fn users_that_a_provider_takes_with_it_take_as_much_each() {
    is_linear(async |root, count, n| {
        let provide = async |ctx: Context, (): ()| ctx.provide::<dyn Foo>(Arc::new(One)).map(drop);
        let provider = root.mount_fn("provider", provide).unwrap();
        let users: Vec<_> =
            (0..n).map(|_| root.mount_fn("user", async |_: Context, _: Svc<dyn Foo>| {}).unwrap()).collect();
        for it in &users {
            it.running().await.unwrap();
        }
        count.begin();
        count.together([dispose(&provider)].into_iter()).await;
    });
}

#[test]
fn scopes_that_end_together_take_as_much_each() {
    is_linear(async |root, count, n| {
        let scopes: Vec<_> = (0..n).map(|_| root.scope().unwrap().fiber().clone()).collect();
        count.begin();
        count.together(scopes.iter().map(dispose)).await;
    });
}
