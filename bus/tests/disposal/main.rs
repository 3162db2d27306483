//! Disposal is quiet: once `dispose().await` has returned nothing of the plugin runs, whatever was in flight, and whoever asked.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod in_flight;
mod own;
mod provided;
mod stubborn;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use linn_bus::{Event, Grace, Root, ServiceError, TokioRuntime, provider, service};

/// Heard by synchronous listeners.
#[derive(Event)]
#[event(name = "disposal/tell", mode = Emit)]
pub struct Tell;

/// Heard by listeners that may wait.
#[derive(Event)]
#[event(name = "disposal/ask", mode = Serial, output = u32)]
pub struct Ask;

/// Heard by another plugin than [`Ask`] is.
#[derive(Event)]
#[event(name = "disposal/ask-other", mode = Serial, output = u32)]
pub struct AskOther;

#[derive(Event)]
#[event(name = "disposal/all", mode = Parallel)]
pub struct All;

#[derive(Event)]
#[event(name = "disposal/wrap", mode = Waterfall, output = u32)]
pub struct Wrap;

/// A service whose one method does what it was made with.
#[service("disposal/worker")]
pub trait Worker {
    async fn work(&self) -> Result<u32, ServiceError>;
}

pub type Work = Box<dyn Fn() -> linn_bus::BoxFuture<'static, u32> + Send + Sync>;

pub struct DoesWork(pub Work);

#[provider]
impl Worker for DoesWork {
    async fn work(&self) -> Result<u32, ServiceError> {
        Ok((self.0)().await)
    }
}

impl DoesWork {
    pub fn new<Fut: Future<Output = u32> + Send + 'static>(
        work: impl Fn() -> Fut + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self(Box::new(move || Box::pin(work()))))
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    pub fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    pub fn seen(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Says so when it is dropped.
pub struct OnDrop(pub Log, pub &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

#[derive(Clone, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Makes something to be met once: what has arrived says so and goes on when it is let go.
pub fn rendezvous() -> (impl Fn() + Send + Sync + 'static, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (arrived, wait_for_it) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let meet = move || {
        arrived.send(()).unwrap();
        // A sender that is gone lets go as well.
        let _ = held.lock().unwrap().recv();
    };
    (meet, wait_for_it, let_go)
}

/// Runs a test beside worker threads of tokio.
pub fn on_threads<T>(test: impl FnOnce(&tokio::runtime::Runtime, Root) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    let root = {
        let _entered = runtime.enter();
        Root::new(TokioRuntime::seams())
    };
    test(&runtime, root)
}

/// Runs a case on one thread with a clock that stands still, and again on many. No grace period may be needed.
pub fn everywhere(case: impl AsyncFn(&Root)) {
    let check = async |root: &Root| {
        let before = root.clock().monotonic();
        case(root).await;
        let passed = root.clock().monotonic() - before;
        assert!(passed < Grace::default().dispose, "it took a grace period: {passed:?}");
        let left = root.inspect();
        assert_eq!(left.services.len(), 0, "{left:?}");
    };
    linn_bus_test::run(async |root| check(&root).await);
    for _ in 0..20 {
        on_threads(|runtime, root| runtime.block_on(check(&root)));
    }
}

pub const SECOND: Duration = Duration::from_secs(1);
