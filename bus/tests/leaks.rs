//! What is mounted and disposed leaves nothing behind: not in listings, not in memory.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linn_bus::{Context, Event, Fiber, Root, ScopeKey, ServiceError, Svc, listener, provider, service};
use linn_bus_test::TestRuntime;

/// Counts the bytes that are allocated and not freed.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static LIVE_HERE: Cell<isize> = const { Cell::new(0) };
}

fn count(size: isize) {
    LIVE.fetch_add(size, Ordering::Relaxed);
    // A thread that has lost its locals counts for the process only.
    let _ = LIVE_HERE.try_with(|it| it.set(it.get() + size));
}

// SAFETY: every call goes to the system allocator as it is; the counter beside it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: by the contract of this method.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: by the contract of this method.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The counter is that of the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of this thread, for tests that need no other; that of a watched runtime frees some that this one took.
fn live() -> isize {
    LIVE_HERE.get()
}

/// Bytes of all threads; those of the test harness come and go among them.
fn live_everywhere() -> isize {
    LIVE.load(Ordering::Relaxed)
}

#[derive(Event)]
#[event(name = "leaks/tell", mode = Emit)]
struct Tell;

#[derive(Event)]
#[event(name = "leaks/ask", mode = Serial, output = u32)]
struct Ask;

#[derive(Event)]
#[event(name = "leaks/scoped", mode = Bail, output = u32, subject = key)]
struct Scoped {
    key: Option<ScopeKey>,
}

#[service("leaks/counter")]
trait Counter {
    async fn count(&self) -> Result<u32, ServiceError>;
}

struct One;

#[provider]
impl Counter for One {
    async fn count(&self) -> Result<u32, ServiceError> {
        Ok(1)
    }
}

/// One of everything.
async fn start(ctx: Context) -> Result<(), linn_bus::BusError> {
    let text = "some bytes of its own".to_owned();
    ctx.on(move |_: &Tell| assert!(!text.is_empty()))?;
    ctx.once().on(|_: &Tell| {})?;
    ctx.first().on(listener!(async move |_: &Ask| None::<u32>))?;
    let scope = ctx.scope()?;
    scope.context().on(|_: &Scoped| Some(1))?;
    scope.context().global().on(|_: &Scoped| None::<u32>)?;
    assert_eq!(ctx.bail(&Scoped { key: Some(scope.key().clone()) }).ok().flatten(), Some(1));
    let ended = ctx.scope()?;
    ended.context().on(|_: &Scoped| Some(2))?;
    ended.dispose().await.ok();
    // A late word about a scope that has ended.
    assert_eq!(ctx.bail(&Scoped { key: Some(ended.key().clone()) }).ok().flatten(), None);
    ctx.provide::<dyn Counter>(Arc::new(One))?;
    ctx.isolate::<dyn Counter>().provide::<dyn Counter>(Arc::new(One))?;
    ctx.mount_fn("user", async |ctx: Context, counter: Svc<dyn Counter>| {
        assert_eq!(counter.count().await.ok(), Some(1));
        ctx.on(|_: &Tell| {}).map(drop)
    })?;
    ctx.spawn(async {})?;
    ctx.spawn(std::future::pending::<()>())?;
    ctx.timeout(Duration::from_secs(3600), || {})?;
    ctx.interval(Duration::from_secs(3600), || {})?;
    let effect = ctx.effect("composite", |fx| {
        fx.defer(|| {});
        fx.defer_async(async {});
        if let Ok(listener) = fx.context().on(|_: &Tell| {}) {
            fx.own(listener);
        }
    })?;
    ctx.effect("undone at once", |fx| fx.defer(|| {}))?.dispose().await;
    let _ = effect;
    Ok(())
}

fn mount(root: &Root) -> Fiber {
    root.mount_fn("plugin", |ctx: Context, (): ()| start(ctx)).unwrap()
}

async fn round(root: &Root) {
    let fiber = mount(root);
    fiber.settled().await.unwrap();
    root.emit(&Tell);
    root.serial(&Ask).await.unwrap();
    fiber.dispose().await.unwrap();
}

#[test]
fn a_thousand_mounts_and_disposals_leave_counts_and_bytes_where_they_were() {
    let _alone = alone();
    let runtime = TestRuntime::new();
    let root = runtime.root();
    runtime.block_on(async {
        // Lists and tables grow to their size first.
        for _ in 0..100 {
            round(&root).await;
        }
        let (listed, before) = (format!("{:?}", root.inspect()), live());
        for _ in 0..1_000 {
            round(&root).await;
        }
        let grown = live() - before;
        assert_eq!(format!("{:?}", root.inspect()), listed);
        assert!(grown < 4_096, "{grown} bytes more after 1,000 rounds");
        assert_eq!((runtime.n_tasks(), runtime.n_timers()), (0, 0));
    });
}

/// Counts of bytes asked for, which hold on every machine: there may be a scope for every little thing that lives.
#[test]
fn a_listener_and_an_empty_scope_are_small() {
    let _alone = alone();
    let runtime = TestRuntime::new();
    let root = runtime.root();

    const LISTENERS: isize = 10_000;
    let before = live();
    for _ in 0..LISTENERS {
        root.on(|_: &Tell| {}).unwrap();
    }
    let listener = (live() - before) / LISTENERS;

    runtime.block_on(root.fiber().dispose()).unwrap();

    let runtime = TestRuntime::new();
    let root = runtime.root();
    const SCOPES: isize = 1_024;
    let mut handles = Vec::with_capacity(SCOPES as usize);
    let before = live();
    for _ in 0..SCOPES {
        handles.push(root.scope().unwrap());
    }
    let scope = (live() - before) / SCOPES;

    println!("{listener} bytes a listener, {scope} bytes an empty scope");
    assert!(listener <= 128, "{listener} bytes a listener");
    assert!(scope <= 512, "{scope} bytes an empty scope");
    drop(handles);
    runtime.block_on(root.fiber().dispose()).unwrap();
}

#[test]
fn scopes_that_hear_of_after_their_end_leave_nothing() {
    let _alone = alone();
    let runtime = TestRuntime::new();
    let root = runtime.root();
    runtime.block_on(async {
        let round = async || {
            let scope = root.scope().unwrap();
            scope.context().on(|_: &Scoped| Some(1)).unwrap();
            let about = Scoped { key: Some(scope.key().clone()) };
            assert_eq!(root.bail(&about).unwrap(), Some(1));
            scope.dispose().await.unwrap();
            assert_eq!(root.bail(&about).unwrap(), None);
        };
        for _ in 0..100 {
            round().await;
        }
        let before = live();
        for _ in 0..1_000 {
            round().await;
        }
        let grown = live() - before;
        assert!(grown < 4_096, "{grown} bytes more after 1,000 scopes");
    });
}

#[test]
fn a_disposed_root_that_is_dropped_frees_everything() {
    let _alone = alone();
    let life = || {
        let runtime = TestRuntime::unwatched();
        let root = runtime.root();
        runtime.block_on(async {
            let fiber = mount(&root);
            fiber.settled().await.unwrap();
            root.on(|_: &Tell| {}).unwrap();
            root.emit(&Tell);
            root.fiber().dispose().await.unwrap();
        });
    };
    life();
    let before = live();
    for _ in 0..100 {
        life();
    }
    let grown = live() - before;
    // The thread keeps its row of the last bus until it meets another one.
    assert!(grown < 4_096, "{grown} bytes more after 100 buses");
}

#[test]
fn a_root_that_is_dropped_takes_everything_along() {
    let _alone = alone();
    let life = || {
        let runtime = TestRuntime::unwatched();
        let root = runtime.root();
        runtime.block_on(async {
            let fiber = mount(&root);
            fiber.settled().await.unwrap();
            root.emit(&Tell);
            drop(root);
            fiber.dispose().await.unwrap();
        });
        // What the drop began ends with the tasks of the runtime.
        runtime.block_on(async {
            while runtime.n_tasks() > 0 {
                linn_bus::Clock::sleep(&runtime, Duration::from_secs(1)).await;
            }
        });
    };
    life();
    let before = live();
    for _ in 0..50 {
        life();
    }
    let grown = live() - before;
    assert!(grown < 4_096, "{grown} bytes more after 50 buses");
}

#[test]
fn threads_that_end_give_their_rows_back() {
    let _alone = alone();
    let runtime = TestRuntime::new();
    let root = runtime.root();
    root.on(|_: &Tell| {}).unwrap();
    let visit = || std::thread::scope(|threads| drop(threads.spawn(|| root.emit(&Tell)).join()));
    for _ in 0..10 {
        visit();
    }
    let before = live_everywhere();
    for _ in 0..200 {
        visit();
    }
    let grown = live_everywhere() - before;
    assert!(grown < 64 * 1_024, "{grown} bytes more after 200 threads");
    runtime.block_on(root.fiber().dispose()).unwrap();
}

#[test]
fn threads_that_outlive_many_buses_forget_their_rows() {
    let _alone = alone();
    // Two threads have been inside every bus, so neither is the last to know of it.
    let (to_other, from_here) = std::sync::mpsc::channel::<Context>();
    let (to_here, from_other) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for ctx in from_here {
                ctx.emit(&Tell);
                drop(ctx);
                to_here.send(()).unwrap();
            }
        });
        let visit = || {
            let runtime = TestRuntime::new();
            let root = runtime.root();
            root.on(|_: &Tell| {}).unwrap();
            root.emit(&Tell);
            to_other.send(root.context().clone()).unwrap();
            from_other.recv().unwrap();
            runtime.block_on(root.fiber().dispose()).unwrap();
        };
        for _ in 0..10 {
            visit();
        }
        let before = live_everywhere();
        for _ in 0..100 {
            visit();
        }
        let grown = live_everywhere() - before;
        drop(to_other);
        assert!(grown < 16 * 1_024, "{grown} bytes more after 100 buses");
    });
}

/// Emits when its thread ends.
struct LastWords(Context);

impl Drop for LastWords {
    fn drop(&mut self) {
        for _ in 0..100 {
            self.0.emit(&Tell);
        }
    }
}

#[test]
fn a_thread_that_emits_while_it_ends_takes_one_row() {
    thread_local! {
        static LAST: std::cell::RefCell<Option<LastWords>> = const { std::cell::RefCell::new(None) };
    }
    let _alone = alone();
    let runtime = TestRuntime::new();
    let root = runtime.root();
    root.on(|_: &Tell| {}).unwrap();
    let visit = || {
        std::thread::scope(|threads| {
            let end = threads.spawn(|| {
                // Destroyed after what the thread met later, the list of its rows among it.
                LAST.set(Some(LastWords(root.context().clone())));
                root.emit(&Tell);
            });
            end.join().unwrap();
        });
    };
    for _ in 0..10 {
        visit();
    }
    let before = live_everywhere();
    for _ in 0..20 {
        visit();
    }
    let grown = live_everywhere() - before;
    assert!(grown < 64 * 1_024, "{grown} bytes more after 2,000 last words");
    runtime.block_on(root.fiber().dispose()).unwrap();
}

#[test]
fn a_handle_that_is_kept_keeps_nothing_of_its_listener() {
    #[derive(Event)]
    #[event(name = "leaks/held", mode = Emit)]
    struct Held;
    let root = TestRuntime::new().root();
    let captured = Arc::new(());
    let inner = captured.clone();
    let handle = root.on(move |_: &Held| drop(inner.clone())).unwrap();
    root.emit(&Held);
    assert!(handle.dispose());
    assert_eq!(Arc::strong_count(&captured), 1);
    assert!(!handle.dispose());
}
