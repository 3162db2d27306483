//! Registering, disposing and dispatching from many threads at once: nothing runs after quiet, and nothing is lost.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};

use linn_bus::{Context, Event, Grace, Next, Root, ScopeKey, ServiceError, TokioRuntime, listener, provider, service};

#[derive(Event)]
#[event(name = "stress/emit", mode = Emit)]
struct Tell;
#[derive(Event)]
#[event(name = "stress/bail", mode = Bail, output = u32, subject = key)]
struct Ask {
    key: Option<ScopeKey>,
}
#[derive(Event)]
#[event(name = "stress/serial", mode = Serial, output = u32)]
struct InTurn;
#[derive(Event)]
#[event(name = "stress/parallel", mode = Parallel)]
struct All;
#[derive(Event)]
#[event(name = "stress/waterfall", mode = Waterfall, output = u32)]
struct Wrap;

#[service("stress/service")]
trait Serves {
    async fn serve(&self) -> Result<(), ServiceError>;
}

/// One life of a plugin, with what its code checks whenever it runs.
struct Life {
    quiet: AtomicBool,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    runs: AtomicU64,
    /// Runs after quiet. Counted, for a panic of a listener is contained by the bus.
    late: AtomicU64,
}

impl Life {
    /// Some code of the plugin runs.
    fn runs(&self) {
        self.counts.runs.fetch_add(1, Ordering::Relaxed);
        for _ in 0..4 {
            if self.quiet.load(Ordering::SeqCst) {
                self.counts.late.fetch_add(1, Ordering::Relaxed);
            }
            std::hint::spin_loop();
        }
    }

    async fn waits(&self) {
        self.runs();
        yield_now().await;
        self.runs();
    }
}

#[provider]
impl Serves for Life {
    async fn serve(&self) -> Result<(), ServiceError> {
        self.waits().await;
        Ok(())
    }
}

/// Pending once.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Registers a listener of each mode, and more.
fn start(ctx: &Context, life: &Arc<Life>) -> Result<(), linn_bus::BusError> {
    let it = life.clone();
    ctx.on(move |_: &Tell| it.runs())?;
    let it = life.clone();
    ctx.once().on(move |_: &Tell| it.runs())?;
    let it = life.clone();
    ctx.on(move |_: &Ask| {
        it.runs();
        None::<u32>
    })?;
    let it = life.clone();
    ctx.on(listener!(async move |_: &InTurn| {
        it.waits().await;
        None::<u32>
    }))?;
    let it = life.clone();
    ctx.first().on(listener!(async move |_: &All| it.waits().await))?;
    let it = life.clone();
    ctx.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
        it.runs();
        let inner = next.run().await;
        it.runs();
        inner
    }))?;
    let it = life.clone();
    ctx.spawn(async move {
        loop {
            it.waits().await;
        }
    })?;
    Ok(())
}

const THREADS: usize = 2;

/// How often each thread mounts and disposes; fewer under a slow checker.
fn rounds() -> usize {
    if cfg!(miri) || option_env!("LINN_STRESS_SHORT").is_some() { 8 } else { 150 }
}

#[test]
fn nothing_runs_after_quiet_while_all_modes_are_dispatched() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let root = {
        let _entered = runtime.enter();
        Root::new(TokioRuntime::seams())
    };
    let key = root.new_scope_key();
    let (counts, working) = (Arc::new(Counts::default()), AtomicUsize::new(THREADS));
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (root, runtime, key, counts, working) = (&root, &runtime, &key, &counts, &working);
            threads.spawn(move || {
                let ended = Ended(working);
                for round in 0..rounds() {
                    let life = Arc::new(Life { quiet: AtomicBool::new(false), counts: counts.clone() });
                    let scope = if round % 2 == 0 { root.scope_for(key) } else { root.scope() }.unwrap();
                    start(scope.context(), &life).unwrap();
                    if thread == 0 {
                        // The other thread may have its own at the same time.
                        scope.context().provide::<dyn Serves>(life.clone()).unwrap();
                    }
                    runtime.block_on(async {
                        for _ in 0..3 {
                            root.emit(&Tell);
                            yield_now().await;
                        }
                        scope.dispose().await.unwrap();
                    });
                    life.quiet.store(true, Ordering::SeqCst);
                }
                drop(ended);
            });
        }
        for _ in 0..THREADS {
            threads.spawn(|| {
                while working.load(Ordering::Relaxed) > 0 {
                    root.emit(&Tell);
                    root.bail(&Ask { key: Some(key.clone()) }).unwrap();
                    root.bail(&Ask { key: None }).unwrap();
                    let listener = root.on(|_: &Tell| {}).unwrap();
                    // What unloads meanwhile may be dropped; here it never comes to that within the grace period.
                    runtime.block_on(async {
                        assert_eq!(root.serial(&InTurn).await.unwrap(), None);
                        root.parallel(&All).await.unwrap();
                        assert_eq!(root.waterfall(&Wrap, async || 3).await.unwrap(), 3);
                        if let Some(service) = root.get::<dyn Serves>() {
                            drop(service.serve().await);
                        }
                    });
                    // A call that is dropped while it waits.
                    {
                        let mut call = pin!(root.serial(&InTurn));
                        let _ = call.as_mut().poll(&mut TaskContext::from_waker(std::task::Waker::noop()));
                    }
                    assert!(listener.dispose());
                }
            });
        }
    });
    assert!(counts.runs.load(Ordering::Relaxed) > 0);
    assert_eq!(counts.late.load(Ordering::Relaxed), 0, "code of a plugin ran after its disposal");
    runtime.block_on(root.fiber().dispose()).unwrap();
    let left = root.inspect();
    assert_eq!((left.fibers.len(), left.services.len(), left.events.len()), (1, 0, 0), "{left:?}");
    assert!(root.clock().monotonic() < Grace::default().reload, "somebody waited for a grace period");
}

/// Counts its thread out, also when it panics.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_once_listener_runs_once_however_many_threads_emit() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let root = {
        let _entered = runtime.enter();
        Root::new(TokioRuntime::seams())
    };
    for _ in 0..rounds() {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        root.once()
            .on(move |_: &Tell| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        let together = std::sync::Barrier::new(3);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    together.wait();
                    root.emit(&Tell);
                });
            }
        });
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    }
    runtime.block_on(root.fiber().dispose()).unwrap();
}
