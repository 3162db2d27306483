//! Everything that changes a bus at once, from many threads, in a random order that a seed gives: mounting, restarting,
//! updating, disposing, switching versions, providing, and dispatching in all modes. And sizes nobody has in mind.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use linn_bus::{
    Context, Event, Fault, FiberState, Ids, InternalDecision, ListenerError, Mounted, Next, Plugin, Root, SeededIds,
    ServiceError, Svc, TokioRuntime, listener, provider, service,
};

#[derive(Event)]
#[event(name = "races/tell", mode = Emit)]
struct Tell(AtomicUsize);
#[derive(Event)]
#[event(name = "races/which", mode = Bail, output = u32)]
struct Which;
#[derive(Event)]
#[event(name = "races/ask", mode = Serial, output = u32)]
struct Ask;
#[derive(Event)]
#[event(name = "races/all", mode = Parallel)]
struct All;
#[derive(Event)]
#[event(name = "races/wrap", mode = Waterfall, output = u32)]
struct Wrap;

#[service("races/number")]
trait Number {
    async fn number(&self) -> Result<u32, ServiceError>;
}

struct Fixed(u32);

#[provider]
impl Number for Fixed {
    async fn number(&self) -> Result<u32, ServiceError> {
        yield_now().await;
        Ok(self.0)
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

/// One mounted part, with what its code checks whenever it runs.
#[derive(Default)]
struct Life {
    quiet: AtomicBool,
    /// Runs after its disposal. Counted, for a panic of a listener is contained by the bus.
    late: AtomicU64,
}

impl Life {
    fn runs(&self) {
        if self.quiet.load(Ordering::SeqCst) {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
    }
    async fn waits(&self) {
        self.runs();
        yield_now().await;
        self.runs();
    }
}

/// A part in front of the gate: it listens to everything and decides nothing.
struct Part;

impl Plugin for Part {
    const NAME: &'static str = "part";
    type Config = Arc<Life>;
    type Needs = Option<Svc<dyn Number>>;
    async fn start(ctx: &Context, life: Arc<Life>, number: Self::Needs) -> Result<(), Fault> {
        let it = life.clone();
        ctx.on(move |_: &Tell| it.runs())?;
        let it = life.clone();
        ctx.on(move |_: &Which| {
            it.runs();
            None::<u32>
        })?;
        let it = life.clone();
        ctx.on(listener!(async move |_: &Ask| {
            it.waits().await;
            if let Some(number) = &number {
                // It may be gone by now; then the part goes as well.
                drop(number.number().await);
            }
            it.runs();
            None::<u32>
        }))?;
        let it = life.clone();
        ctx.on(listener!(async move |_: &All| it.waits().await))?;
        let it = life.clone();
        ctx.on(listener!(async move |_: &Wrap, next: Next<'_, Wrap>| {
            it.waits().await;
            let inner = next.run().await;
            it.runs();
            inner
        }))?;
        ctx.spawn(async move {
            loop {
                life.waits().await;
            }
        })?;
        Ok(())
    }
}

/// Behind all parts, in one version or another, at every moment.
struct Gate;

impl Plugin for Gate {
    const NAME: &'static str = "gate";
    type Config = u32;
    type Needs = ();
    async fn start(ctx: &Context, version: u32, (): ()) -> Result<(), Fault> {
        ctx.on(|tell: &Tell| {
            tell.0.fetch_add(1, Ordering::Relaxed);
        })?;
        ctx.on(move |_: &Which| Some(version))?;
        ctx.on(listener!(async move |_: &Ask| {
            yield_now().await;
            Some(version)
        }))?;
        ctx.on(async |_: &Wrap, next: Next<'_, Wrap>| Ok::<_, ListenerError>(next.run().await? + 1))?;
        Ok(())
    }
}

const THREADS: u64 = 3;

/// Steps of each thread; fewer under a slow checker.
fn n_steps() -> u32 {
    if cfg!(miri) || option_env!("LINN_STRESS_SHORT").is_some() { 20 } else { 250 }
}

/// A mounted part with its life, while there is one.
type Place = Mutex<Option<(Mounted<Part>, Arc<Life>)>>;

struct World {
    root: Root,
    parts: [Place; 4],
    lives: Mutex<Vec<Arc<Life>>>,
    gate: Mutex<Mounted<Gate>>,
    version: AtomicU64,
}

impl World {
    fn part(&self, number: u64) -> Option<(Mounted<Part>, Arc<Life>)> {
        self.parts[number as usize % 4].lock().unwrap().clone()
    }

    /// One step of a thread.
    async fn step(&self, draw: u64) {
        let (what, which) = (draw % 16, draw >> 8);
        match what {
            0 | 1 => {
                let mut part = self.parts[which as usize % 4].lock().unwrap();
                if part.is_none() {
                    let life = Arc::new(Life::default());
                    self.lives.lock().unwrap().push(life.clone());
                    *part = Some((self.root.mount_at::<Part>(which as u32 % 8, life.clone()).unwrap(), life));
                }
            }
            2 => {
                let part = self.parts[which as usize % 4].lock().unwrap().take();
                if let Some((part, life)) = part {
                    part.dispose().await.unwrap();
                    life.quiet.store(true, Ordering::SeqCst);
                }
            }
            3 => {
                if let Some((part, _)) = self.part(which) {
                    // It may have been disposed meanwhile.
                    drop(part.restart().await);
                }
            }
            4 => {
                if let Some((part, life)) = self.part(which) {
                    drop(part.update(life).await);
                }
            }
            5 | 6 => self.switch().await,
            7 => {
                // Another thread may have its own at the same time.
                if let Ok(provided) = self.root.provide::<dyn Number>(Arc::new(Fixed(1))) {
                    yield_now().await;
                    provided.dispose().await;
                }
            }
            8 => {
                if let Some(number) = self.root.get::<dyn Number>() {
                    drop(number.number().await);
                }
            }
            9 => {
                let recorder = self.root.on(|_: &InternalDecision| {}).unwrap();
                self.dispatch().await;
                assert!(recorder.dispose());
            }
            _ => self.dispatch().await,
        }
    }

    #[expect(clippy::await_holding_lock, reason = "the guard is dropped before the only wait that follows it")]
    async fn switch(&self) {
        // One at a time: two versions cannot both replace the same one.
        let Ok(current) = self.gate.try_lock().map(|it| it.clone()) else { return };
        let version = self.version.fetch_add(1, Ordering::Relaxed) as u32;
        let Ok(prepared) = self.root.prepare_for::<Gate>(&current, version) else { return };
        let mut gate = match self.gate.try_lock() {
            Ok(gate) if *gate.fiber() == *current.fiber() => gate,
            _ => {
                drop(prepared.fiber().dispose().await);
                return;
            }
        };
        // Blocks no other thread, for they try only.
        let switched = futures::executor::block_on(prepared.switch()).unwrap();
        *gate = switched.mounted().clone();
        drop(gate);
        switched.old_gone().await.unwrap();
    }

    /// Whatever else happens, there is exactly one gate.
    async fn dispatch(&self) {
        let tell = Tell(AtomicUsize::new(0));
        self.root.emit(&tell);
        assert_eq!(tell.0.load(Ordering::Relaxed), 1, "one version hears it");
        assert!(self.root.bail(&Which).unwrap().is_some());
        assert!(self.root.serial(&Ask).await.unwrap().is_some(), "a dispatch passed over the gate");
        self.root.parallel(&All).await.unwrap();
        assert_eq!(self.root.waterfall(&Wrap, async || 0).await.unwrap(), 1, "one version is a layer");
    }
}

fn race(seed: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let root = {
        let _entered = runtime.enter();
        Root::new(TokioRuntime::seams())
    };
    let gate = root.mount_at::<Gate>(1_000, 0).unwrap();
    runtime.block_on(gate.running()).unwrap();
    let world = World {
        root,
        parts: Default::default(),
        lives: Mutex::default(),
        gate: Mutex::new(gate),
        version: AtomicU64::new(1),
    };
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (world, runtime) = (&world, &runtime);
            threads.spawn(move || {
                let draws = SeededIds::new(seed * THREADS + thread);
                for _ in 0..n_steps() {
                    runtime.block_on(world.step(draws.next_u64()));
                }
            });
        }
    });
    let late: u64 = world.lives.lock().unwrap().iter().map(|it| it.late.load(Ordering::Relaxed)).sum();
    assert_eq!(late, 0, "code of a part ran after its disposal");
    runtime.block_on(world.root.fiber().dispose()).unwrap();
    let left = world.root.inspect();
    assert_eq!((left.fibers.len(), left.services.len(), left.events.len()), (1, 0, 0), "{left:?}");
}

#[test]
fn whatever_happens_at_once_one_version_is_met_and_nothing_runs_after_quiet() {
    for seed in 0..4 {
        let (done, is_done) = mpsc::channel();
        #[expect(clippy::disallowed_methods, reason = "a race that hangs is not waited for")]
        let racing = std::thread::spawn(move || {
            race(seed);
            done.send(()).unwrap();
        });
        match is_done.recv_timeout(Duration::from_secs(100)) {
            Ok(()) => racing.join().unwrap(),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("seed {seed}: the threads wait for each other"),
            Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(racing.join().unwrap_err()),
        }
    }
}

#[test]
fn a_hundred_thousand_listeners_hear_an_event_and_leave_nothing() {
    linn_bus_test::run(async |root| {
        let scope = root.scope().unwrap();
        for _ in 0..100_000 {
            scope
                .context()
                .on(|tell: &Tell| {
                    tell.0.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
        }
        let tell = Tell(AtomicUsize::new(0));
        root.emit(&tell);
        assert_eq!(tell.0.load(Ordering::Relaxed), 100_000);
        scope.dispose().await.unwrap();
        root.emit(&tell);
        assert_eq!(tell.0.load(Ordering::Relaxed), 100_000);
        assert!(root.inspect().events.is_empty());
    });
}

/// Mounts another one of itself, so many levels deep.
struct Nested;

impl Plugin for Nested {
    const NAME: &'static str = "nested";
    type Config = u32;
    type Needs = ();
    async fn start(ctx: &Context, levels: u32, (): ()) -> Result<(), Fault> {
        ctx.on(|tell: &Tell| {
            tell.0.fetch_add(1, Ordering::Relaxed);
        })?;
        if levels > 1 {
            ctx.mount::<Nested>(levels - 1)?.running().await?;
        }
        Ok(())
    }
}

#[test]
fn five_hundred_fibers_inside_each_other_come_and_go() {
    linn_bus_test::run(async |root| {
        let top = root.mount::<Nested>(500).unwrap();
        top.running().await.unwrap();
        let tell = Tell(AtomicUsize::new(0));
        root.emit(&tell);
        assert_eq!(tell.0.load(Ordering::Relaxed), 500);
        top.restart().await.unwrap();
        assert_eq!(root.inspect().fibers.len(), 501);
        top.dispose().await.unwrap();
        assert_eq!(top.state(), FiberState::Disposed);
        assert_eq!(root.inspect().fibers.len(), 1);
    });
}

#[repr(align(128))]
struct Aligned([u8; 128]);

#[test]
fn futures_of_any_size_and_alignment_wait() {
    // Unoptimised code copies a future of this size on the stack.
    #[expect(clippy::disallowed_methods, reason = "the thread needs a large stack, and is joined below")]
    let big = std::thread::Builder::new().stack_size(32 << 20).spawn(|| {
        linn_bus_test::run(async |root| {
            root.on(async |_: &Ask| {
                let block = [7u8; 1 << 20];
                yield_now().await;
                (block.iter().map(|it| u32::from(*it)).sum::<u32>() != 7 << 20).then_some(0)
            })
            .unwrap();
            root.on(async |_: &Ask| {
                let aligned = Aligned([3; 128]);
                let before = std::ptr::from_ref(&aligned) as usize;
                yield_now().await;
                let after = std::ptr::from_ref(&aligned) as usize;
                Some(u32::from(before == after && after.is_multiple_of(128) && aligned.0 == [3; 128]))
            })
            .unwrap();
            for _ in 0..3 {
                assert_eq!(root.serial(&Ask).await.unwrap(), Some(1));
            }
        });
    });
    big.unwrap().join().unwrap();
}
