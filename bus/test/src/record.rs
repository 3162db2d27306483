//! Time and numbers recorded, and played back.
//!
//! The bus takes them from its seams alone, so a recording needs no help from it: [`Recording`] wraps the seams of one run
//! and writes down what they gave, [`Playback`] gives the same again. To record elsewhere, or in another format, wrap the
//! seams the same way.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use linn_bus::{BoxFuture, Clock, Ids, Seams};

/// One thing that was taken from a seam.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// The time of day.
    Now(SystemTime),
    /// The time that has passed.
    Monotonic(Duration),
    /// A wait of this length began.
    Sleep(Duration),
    /// A number.
    Id(u64),
}

/// Seams that write down what is taken from them.
///
/// ```
/// use std::time::Duration;
/// use linn_bus::Root;
/// use linn_bus_test::{Playback, Recording, TestRuntime};
///
/// async fn session(root: &Root) -> (u64, Duration) {
///     root.sleep(Duration::from_secs(3)).await.unwrap();
///     (root.ids().next_u64(), root.clock().monotonic())
/// }
///
/// let runtime = TestRuntime::new();
/// let recording = Recording::of(runtime.seams());
/// let first = runtime.block_on(session(&Root::new(recording.seams())));
///
/// let runtime = TestRuntime::new();
/// let playback = Playback::of(recording.draws(), runtime.seams());
/// let again = runtime.block_on(session(&Root::new(playback.seams())));
/// assert_eq!(first, again);
/// playback.assert_finished();
/// ```
#[derive(Clone)]
pub struct Recording(Arc<RecordingInner>);

struct RecordingInner {
    seams: Seams,
    draws: Mutex<Vec<Draw>>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recording").field(&self.draws()).finish()
    }
}

impl Recording {
    /// Records what is taken from `seams`.
    pub fn of(seams: Seams) -> Self {
        Self(Arc::new(RecordingInner { seams, draws: Mutex::default() }))
    }

    /// The seams to give to a root.
    pub fn seams(&self) -> Seams {
        Seams { executor: self.0.seams.executor.clone(), clock: self.0.clone(), ids: self.0.clone() }
    }

    /// What was taken so far, in order.
    pub fn draws(&self) -> Vec<Draw> {
        lock(&self.0.draws).clone()
    }
}

impl RecordingInner {
    fn add(&self, draw: Draw) {
        lock(&self.draws).push(draw);
    }
}

impl Clock for RecordingInner {
    fn now(&self) -> SystemTime {
        let now = self.seams.clock.now();
        self.add(Draw::Now(now));
        now
    }

    fn monotonic(&self) -> Duration {
        let passed = self.seams.clock.monotonic();
        self.add(Draw::Monotonic(passed));
        passed
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.add(Draw::Sleep(duration));
        self.seams.clock.sleep(duration)
    }
}

impl Ids for RecordingInner {
    fn next_u64(&self) -> u64 {
        let id = self.seams.ids.next_u64();
        self.add(Draw::Id(id));
        id
    }
}

/// Seams that give what a recording holds. Tasks run, and waits end, by the seams of the new run.
///
/// Where the new run asks for something else than the old one did, the rest comes from the seams of the new run, and
/// [`assert_finished`](Self::assert_finished) says where the two part.
#[derive(Clone)]
pub struct Playback(Arc<PlaybackInner>);

struct PlaybackInner {
    seams: Seams,
    state: Mutex<PlaybackState>,
}

struct PlaybackState {
    left: VecDeque<Draw>,
    n_played: usize,
    /// What was asked for first that the recording does not have.
    parted: Option<String>,
}

impl fmt::Debug for Playback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.0.state);
        f.debug_struct("Playback").field("left", &state.left).field("parted", &state.parted).finish()
    }
}

impl Playback {
    /// Plays `draws` back; `seams` are those of the new run.
    pub fn of(draws: Vec<Draw>, seams: Seams) -> Self {
        let state = PlaybackState { left: draws.into(), n_played: 0, parted: None };
        Self(Arc::new(PlaybackInner { seams, state: Mutex::new(state) }))
    }

    /// The seams to give to a root.
    pub fn seams(&self) -> Seams {
        Seams { executor: self.0.seams.executor.clone(), clock: self.0.clone(), ids: self.0.clone() }
    }

    /// Where the two runs part; `None` when this one took all that was recorded, in order.
    pub fn difference(&self) -> Option<String> {
        let state = lock(&self.0.state);
        let unused = || state.left.front().map(|it| format!("draw {} was not taken: {it:?}", state.n_played + 1));
        state.parted.clone().or_else(unused)
    }

    /// # Panics
    ///
    /// When this run asked for something else than the recorded one; says where they part.
    #[track_caller]
    pub fn assert_finished(&self) {
        if let Some(difference) = self.difference() {
            panic!("the run is not the recorded one: {difference}");
        }
    }
}

impl PlaybackInner {
    /// The next draw, if it is what `pick` looks for.
    fn take<T>(&self, asked: impl fmt::Display, pick: impl FnOnce(Draw) -> Option<T>) -> Option<T> {
        let mut state = lock(&self.state);
        if state.parted.is_some() {
            return None;
        }
        let next = state.left.front().copied();
        let taken = next.and_then(pick);
        if taken.is_some() {
            state.left.pop_front();
            state.n_played += 1;
        } else {
            let recorded = next.map_or("the end".to_owned(), |it| format!("{it:?}"));
            state.parted = Some(format!("draw {} is {asked}, recorded was {recorded}", state.n_played + 1));
        }
        taken
    }
}

impl Clock for PlaybackInner {
    fn now(&self) -> SystemTime {
        let recorded = self.take("the time of day", |it| if let Draw::Now(now) = it { Some(now) } else { None });
        recorded.unwrap_or_else(|| self.seams.clock.now())
    }

    fn monotonic(&self) -> Duration {
        let pick = |it| if let Draw::Monotonic(passed) = it { Some(passed) } else { None };
        self.take("the time passed", pick).unwrap_or_else(|| self.seams.clock.monotonic())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // The wait itself belongs to the new run; only that it is asked for is compared.
        self.take(format_args!("a wait of {duration:?}"), |it| (it == Draw::Sleep(duration)).then_some(()));
        self.seams.clock.sleep(duration)
    }
}

impl Ids for PlaybackInner {
    fn next_u64(&self) -> u64 {
        let recorded = self.take("a number", |it| if let Draw::Id(id) = it { Some(id) } else { None });
        recorded.unwrap_or_else(|| self.seams.ids.next_u64())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
