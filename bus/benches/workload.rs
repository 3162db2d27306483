//! The work that benchmarks and the cost table share: listeners that do next to nothing, and the bare loops beside them.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use futures::future::join_all;
use linn_bus::{Context, Event, Next, Root, Run, ScopeKey, listener};
use linn_bus_test::TestRuntime;

#[derive(Event)]
#[event(name = "bench/emit", mode = Emit)]
pub struct Told(pub u64);

#[derive(Event)]
#[event(name = "bench/bail", mode = Bail, output = u64)]
pub struct Asked(pub u64);

#[derive(Event)]
#[event(name = "bench/serial", mode = Serial, output = u64)]
pub struct InTurn(pub u64);

#[derive(Event)]
#[event(name = "bench/parallel", mode = Parallel)]
pub struct Together(pub u64);

#[derive(Event)]
#[event(name = "bench/waterfall", mode = Waterfall, output = u64)]
pub struct Around(pub u64);

#[derive(Event)]
#[event(name = "bench/scoped", mode = Emit, subject = key)]
pub struct About {
    pub key: Option<ScopeKey>,
    pub value: u64,
}

#[derive(Event)]
#[event(name = "bench/unheard", mode = Emit)]
pub struct Unheard;

/// A bus that nobody else is on.
pub fn bus() -> Root {
    TestRuntime::new().root()
}

/// Polls a future that is ready at its `polls`-th poll.
pub fn drive<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut cx = TaskContext::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
    }
}

/// Pending once, then ready.
#[derive(Default)]
pub struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

pub fn on_told(ctx: &Context, n: u64) {
    for k in 0..n {
        ctx.on(move |e: &Told| {
            black_box(e.0 ^ k);
        })
        .expect("the root is active");
    }
}

pub fn on_asked(ctx: &Context, n: u64) {
    for k in 0..n {
        ctx.on(move |e: &Asked| {
            black_box(e.0 ^ k);
            None::<u64>
        })
        .expect("the root is active");
    }
}

pub fn on_in_turn(ctx: &Context, n: u64) {
    for k in 0..n {
        ctx.on(listener!(async move |e: &InTurn| {
            black_box(e.0 ^ k);
            None::<u64>
        }))
        .expect("the root is active");
    }
}

pub fn on_together(ctx: &Context, n: u64, pending: bool) {
    for k in 0..n {
        let registered = if pending {
            ctx.on(listener!(async move |e: &Together| {
                YieldOnce::default().await;
                black_box(e.0 ^ k);
            }))
        } else {
            ctx.on(listener!(async move |e: &Together| {
                black_box(e.0 ^ k);
            }))
        };
        registered.expect("the root is active");
    }
}

pub fn on_around(ctx: &Context, n: u64) {
    for k in 0..n {
        ctx.on(listener!(async move |e: &Around, next: Next<'_, Around>| {
            black_box(e.0 ^ k);
            next.run().await
        }))
        .expect("the root is active");
    }
}

/// Listeners that hand the rest of the chain on without a future of their own.
pub fn on_around_plain(ctx: &Context, n: u64) {
    fn pass<'a>(e: &'a Around, next: Next<'a, Around>) -> Run<'a, Around> {
        black_box(e.0);
        next.run()
    }
    for _ in 0..n {
        ctx.on(pass).expect("the root is active");
    }
}

pub fn on_about(ctx: &Context, n: u64) {
    for k in 0..n {
        ctx.on(move |e: &About| {
            black_box(e.value ^ k);
        })
        .expect("the root is active");
    }
}

pub type Bare = Vec<Arc<dyn Fn(&Told) + Send + Sync>>;

/// The limit row of emit and bail: a loop over shared closures.
pub fn bare(n: u64) -> Bare {
    (0..n)
        .map(|k| {
            Arc::new(move |e: &Told| {
                black_box(e.0 ^ k);
            }) as Arc<dyn Fn(&Told) + Send + Sync>
        })
        .collect()
}

pub fn run_bare(bare: &Bare, event: &Told) {
    for listener in bare {
        listener(event);
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type BareListener = Arc<dyn for<'a> Fn(&'a Told) -> Boxed<'a, Option<u64>> + Send + Sync>;
pub type BareAsync = Vec<BareListener>;

fn bare_listener(
    listener: impl for<'a> Fn(&'a Told) -> Boxed<'a, Option<u64>> + Send + Sync + 'static,
) -> BareListener {
    Arc::new(listener)
}

/// The limit row of serial and parallel: boxed futures.
pub fn bare_async(n: u64, pending: bool) -> BareAsync {
    let listener = |k| {
        bare_listener(move |e| {
            let value = e.0;
            Box::pin(async move {
                if pending {
                    YieldOnce::default().await;
                }
                black_box(value ^ k);
                None
            })
        })
    };
    (0..n).map(listener).collect()
}

pub async fn run_serial(bare: &BareAsync, event: &Told) -> Option<u64> {
    for listener in bare {
        if let Some(answer) = listener(event).await {
            return Some(answer);
        }
    }
    None
}

pub async fn run_join_all(bare: &BareAsync, event: &Told) {
    black_box(join_all(bare.iter().map(|it| it(event))).await);
}

/// The limit row of waterfall: boxed recursion.
pub struct BareLayers(Vec<Layer>);
type Layer = Arc<dyn for<'a> Fn(&'a Around, &'a BareLayers, usize) -> Boxed<'a, u64> + Send + Sync>;

fn bare_layer(
    layer: impl for<'a> Fn(&'a Around, &'a BareLayers, usize) -> Boxed<'a, u64> + Send + Sync + 'static,
) -> Layer {
    Arc::new(layer)
}

pub fn bare_layers(n: u64) -> BareLayers {
    let layer = |k| {
        bare_layer(move |e, all, at| {
            Box::pin(async move {
                black_box(e.0 ^ k);
                run_layers(e, all, at + 1).await
            })
        })
    };
    BareLayers((0..n).map(layer).collect())
}

pub fn run_layers<'a>(e: &'a Around, all: &'a BareLayers, at: usize) -> Boxed<'a, u64> {
    match all.0.get(at) {
        Some(layer) => layer(e, all, at),
        None => Box::pin(async move { e.0 }),
    }
}

type PlainLayer = Arc<dyn Fn(&Around, &[PlainLayerOf]) -> u64 + Send + Sync>;
/// A layer of the recursion without futures.
pub struct PlainLayerOf(PlainLayer);

pub fn plain_layers(n: u64) -> Vec<PlainLayerOf> {
    (0..n)
        .map(|k| {
            PlainLayerOf(Arc::new(move |e: &Around, rest: &[PlainLayerOf]| {
                black_box(e.0 ^ k);
                run_plain(e, rest)
            }))
        })
        .collect()
}

pub fn run_plain(e: &Around, layers: &[PlainLayerOf]) -> u64 {
    match layers.split_first() {
        Some((first, rest)) => first.0(e, rest),
        None => e.0,
    }
}
