//! What the bus asks of the program around it: to run tasks, to tell and wait for time, and to draw numbers.
//!
//! The bus knows no executor. A root context is given these objects, everything below reaches them through its context, and
//! a program that records and plays back gives recording ones.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A future in a box, as the seams hand it over.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs tasks to their end.
pub trait Executor: Send + Sync + 'static {
    /// Starts `task`. It is polled on its own until it ends; the bus cancels what it wants to end by itself.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// Time of day, for what people and files see.
    fn now(&self) -> SystemTime;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Ready after `duration`. Dropping the future gives the timer up.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Draws numbers: ids and whatever else is left to chance.
pub trait Ids: Send + Sync + 'static {
    /// The next number, all 64 bits of it random.
    fn next_u64(&self) -> u64;
}

/// The three seams together, as a root context takes them.
#[derive(Clone)]
pub struct Seams {
    /// Runs tasks.
    pub executor: Arc<dyn Executor>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Draws numbers.
    pub ids: Arc<dyn Ids>,
}

impl std::fmt::Debug for Seams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}

/// Numbers from a seed (SplitMix64): the same seed gives the same numbers. Not for secrets.
#[derive(Debug)]
pub struct SeededIds(AtomicU64);

impl SeededIds {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Numbers from a seed that differs each time, drawn from the randomness of the standard library's hash maps.
    pub fn from_entropy() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::new(RandomState::new().hash_one(0_u8))
    }
}

impl Ids for SeededIds {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Tasks and time of the tokio runtime it was made in.
#[cfg(feature = "tokio")]
#[derive(Debug, Clone)]
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    start: tokio::time::Instant,
}

#[cfg(feature = "tokio")]
impl TokioRuntime {
    /// The runtime that is current here.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "this is the seam through which time is told")]
    pub fn current() -> Self {
        Self { handle: tokio::runtime::Handle::current(), start: tokio::time::Instant::now() }
    }

    /// Executor and clock of this runtime, ids from entropy.
    pub fn seams() -> Seams {
        let runtime = Arc::new(Self::current());
        Seams { executor: runtime.clone(), clock: runtime, ids: Arc::new(SeededIds::from_entropy()) }
    }
}

#[cfg(feature = "tokio")]
impl Executor for TokioRuntime {
    #[expect(clippy::disallowed_methods, reason = "this is the seam through which the bus spawns")]
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // The bus tracks the task itself; the handle has nothing to add.
        drop(self.handle.spawn(task));
    }
}

#[cfg(feature = "tokio")]
impl Clock for TokioRuntime {
    #[expect(clippy::disallowed_methods, reason = "this is the seam through which the time is told")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam through which the bus sleeps")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let _entered = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let (a, b) = (SeededIds::new(7), SeededIds::new(7));
        let numbers: Vec<_> = (0..8).map(|_| a.next_u64()).collect();
        assert_eq!(numbers, (0..8).map(|_| b.next_u64()).collect::<Vec<_>>());
        assert_eq!(numbers[0], 0x63cb_e1e4_5932_0dd7, "SplitMix64 of seed 7");
    }
}
