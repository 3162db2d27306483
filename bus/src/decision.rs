//! Who decided what: one record for each dispatch that came to an answer, or was refused, or failed.
//!
//! Records are made only while somebody listens to [`InternalDecision`]; without that a dispatch is none the dearer.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::dispatch::EventRef;
use crate::event::{Event, EventDescriptor};
use crate::fault::ListenerError;
use crate::scope::ScopeKey;

/// A dispatch was decided. Listeners keep the record or show it; they change nothing.
///
/// - Mode: emit.
/// - Scope: everybody.
/// - Emitted by: the bus, after the listeners and before the caller has the answer: for each bail and serial dispatch that was answered, each waterfall, and every dispatch that was refused or failed, of events whose name does not begin with `internal/`.
/// - On listener error or panic: logged.
/// - Cancelled by: a dispatch whose future is dropped decides nothing and is not recorded.
#[derive(crate::Event)]
#[event(name = "internal/decision", mode = Emit)]
#[non_exhaustive]
pub struct InternalDecision {
    /// The record, to be kept as long as one likes.
    pub decision: Arc<Decision>,
    pub(crate) payload: Lent,
    pub(crate) slot: u32,
}

/// Address of a payload, which is there as long as anybody can reach the event that has it.
pub(crate) struct Lent(pub(crate) *const ());

// SAFETY: payloads are `Send` and `Sync` like every event.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl InternalDecision {
    /// The payload that was dispatched, if the event is `E`.
    pub fn payload<E: Event>(&self) -> Option<&E> {
        self.event_ref().payload()
    }

    /// The payload that was dispatched, without its type.
    pub fn event_ref(&self) -> EventRef<'_> {
        // This value is only ever lent to listeners while the dispatch borrows its payload, and it cannot be cloned.
        EventRef::lent(self.decision.event, self.slot, self.payload.0)
    }

    /// The payload as JSON, made now; `None` for an event that declares no `view`.
    ///
    /// # Errors
    ///
    /// As [`EventRef::view`].
    #[cfg(feature = "json")]
    pub fn view(&self) -> Result<Option<serde_json::Value>, crate::ViewError> {
        self.event_ref().view()
    }
}

impl std::fmt::Debug for InternalDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.decision.fmt(f)
    }
}

/// How one dispatch was decided.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Decision {
    /// The event.
    pub event: &'static EventDescriptor,
    /// Plugin that dispatched it.
    pub plugin: Arc<str>,
    /// Scope the payload is about, for an event that scopes filter.
    pub scope: Option<ScopeKey>,
    /// The listeners: those that ran, in the order they began, then those that were not come to, in the order they would
    /// have run, then those of other scopes.
    pub steps: Vec<DecisionStep>,
    /// What it came to.
    pub outcome: DecisionOutcome,
}

/// What a dispatch came to.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum DecisionOutcome {
    /// It was answered.
    Answered {
        /// Place in [`steps`](Decision::steps) of who gave the answer as it is: of a waterfall, the innermost step whose
        /// answer no layer around it changed, or of which that is not known.
        by: usize,
    },
    /// A listener failed, or it was nested too deep.
    Failed {
        /// The failure; the first one where there were several.
        error: ListenerError,
    },
    /// An observer of `internal/dispatch` refused it, and no listener ran.
    Refused {
        /// The refusal, which names the observer's plugin.
        error: ListenerError,
    },
}

/// One listener of a dispatch, or the default of a waterfall.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct DecisionStep {
    /// Name of its plugin; of the dispatching plugin for the default.
    pub plugin: Arc<str>,
    /// Number of the fiber that registered it; none for the default of a waterfall.
    pub fiber: Option<u64>,
    /// Place in [`steps`](Decision::steps) of the layer whose `next` ran it; none for the outermost, and in other modes.
    pub inside: Option<usize>,
    /// How often it ran `next`.
    pub n_next: u32,
    /// What became of it.
    pub result: StepResult,
    /// The answer as JSON, for an event that declares `output_view`.
    #[cfg(feature = "json")]
    pub answer: Option<serde_json::Value>,
}

/// What became of one listener in a dispatch.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum StepResult {
    /// It ran, and left the question to the others.
    Passed,
    /// It answered.
    Answered(Change),
    /// It failed, panicked, or was unloaded meanwhile.
    Failed(ListenerError),
    /// It was dropped where it waited, by the layer whose `next` ran it.
    Dropped,
    /// It did not run.
    Skipped(SkipReason),
}

/// What an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It is an answer of its own: `next` was not run, or gave none.
    Decided,
    /// It is what `next` gave.
    Kept,
    /// It is another one than `next` gave.
    Changed,
    /// Nobody can tell: the output can neither be copied and compared, nor is there an `output_view` of it.
    Unknown,
}

/// Why a listener did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It was disposed after the dispatch began.
    Disposed,
    /// It runs once, and did so in another dispatch.
    Once,
    /// Its plugin was unloaded after the dispatch began.
    Unloaded,
    /// An earlier listener answered, or a layer around it did not run `next`.
    Answered,
    /// An earlier listener failed, or a layer around it.
    Failed,
    /// It hears another scope.
    Scope,
}

impl Decision {
    /// Who gave the answer as it is, if it was answered.
    pub fn answered_by(&self) -> Option<&DecisionStep> {
        match self.outcome {
            DecisionOutcome::Answered { by } => self.steps.get(by),
            _ => None,
        }
    }

    /// The failure or refusal, if it was not answered.
    pub fn error(&self) -> Option<&ListenerError> {
        match &self.outcome {
            DecisionOutcome::Answered { .. } => None,
            DecisionOutcome::Failed { error } | DecisionOutcome::Refused { error } => Some(error),
        }
    }
}

/// Whether another answer is the same as one that was kept to be compared with.
#[doc(hidden)]
pub type Same<T> = Box<dyn Fn(&T) -> bool + Send>;

/// Keeps what can be copied and compared. The macro calls `keep` through a reference, by which the compiler takes the
/// first of the two traits where it holds and the second elsewhere.
#[doc(hidden)]
#[derive(Debug)]
pub struct Keep<T>(PhantomData<T>);

impl<T> Keep<T> {
    pub const NEW: Self = Self(PhantomData);
}

#[doc(hidden)]
pub trait KeepEqual<T> {
    fn keep(&self, value: &T) -> Option<Same<T>>;
}
impl<T: Clone + PartialEq + Send + 'static> KeepEqual<T> for Keep<T> {
    fn keep(&self, value: &T) -> Option<Same<T>> {
        let kept = value.clone();
        Some(Box::new(move |other| kept == *other))
    }
}

#[doc(hidden)]
pub trait KeepNothing<T> {
    fn keep(&self, value: &T) -> Option<Same<T>>;
}
impl<T> KeepNothing<T> for &Keep<T> {
    fn keep(&self, _: &T) -> Option<Same<T>> {
        None
    }
}
