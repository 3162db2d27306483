//! What the bridge knows, and what all its parts use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::UNIX_EPOCH;

use linn_bus::{Context, Service, Svc};
use linn_services::agent::Agent;
use linn_services::ids::SessionId;
use linn_services::interaction::Question;
use linn_services::session::Session;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::asks::Desk;
use crate::body::WireEvent;
use crate::config::BridgeConfig;
use crate::journal::Journal;
use crate::models::Choice;
use crate::plugin::BridgeNeeds;
use crate::run::{Run, Unsettled, Wanted};
use crate::session::{Current, Recovery};
use crate::sink::{Origin, Sink};
use crate::wire::commands::Init;
use crate::wire::events::{Error, Info};
use crate::work::Work;

/// The bridge.
pub(crate) struct Bridge {
    pub(crate) ctx: Context,
    pub(crate) config: BridgeConfig,
    pub(crate) needs: BridgeNeeds,
    pub(crate) sink: Arc<Sink>,
    pub(crate) desk: Desk,
    pub(crate) journal: Journal,
    /// Settings are changed on behalf of the front end, which is told by the answer.
    pub(crate) is_setting: AtomicBool,
    /// The same for providers.
    pub(crate) is_providing: AtomicBool,
    /// Somebody tells how many sessions of a provider are in use.
    pub(crate) is_watching: AtomicBool,
    /// Held while providers are changed: one change after the other.
    pub(crate) providing: Arc<tokio::sync::Mutex<()>>,
    /// Held by the command of the human that runs.
    pub(crate) shell_turn: tokio::sync::Mutex<()>,
    /// The front end was told `ready`.
    pub(crate) has_greeted: AtomicBool,
    /// Nothing is taken from the front end any more.
    pub(crate) is_over: AtomicBool,
    me: Weak<Self>,
    /// The first half of all ids of this bridge.
    entropy: u64,
    n_ids: AtomicU64,
    state: Mutex<State>,
    /// Held while the agent gets a prompt or is cancelled, so that none slips past a cancel. Taken before the state.
    pub(crate) handing: Mutex<()>,
}

/// What changes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) current: Option<Current>,
    pub(crate) run: Option<Run>,
    /// The prompt that waits for the run to end.
    pub(crate) queued: Option<Wanted>,
    /// A turn that was cancelled and is not over yet.
    pub(crate) unsettled: Option<Unsettled>,
    pub(crate) last_cancellation: Option<Value>,
    /// The model that was asked last.
    pub(crate) last_model: Option<Choice>,
    /// What the human's commands said, for the end of the run.
    pub(crate) deferred: Vec<String>,
    /// What the last request took, with its answer, as the endpoint counted it.
    pub(crate) context_tokens: Option<u64>,
    /// Sessions of which something is in memory alone, and why.
    pub(crate) unsaved: BTreeMap<SessionId, String>,
    /// The front end was told during this run that the session is not saved.
    pub(crate) is_unsaved_told: bool,
    pub(crate) work: Work,
    /// Work beside the run.
    pub(crate) jobs: Vec<Job>,
    pub(crate) n_jobs: u64,
    /// Those who wait for the models with their first answer.
    pub(crate) waiting: Vec<Init>,
    /// Questions of the model that a restart cut off, until they are asked again.
    pub(crate) unanswered: Option<Vec<Question>>,
    /// What was found when the session was opened, until it is told.
    pub(crate) recovery: Recovery,
}

/// Work beside the run.
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) kind: &'static str,
    pub(crate) label: &'static str,
    pub(crate) session_id: Arc<str>,
    pub(crate) signal: CancellationToken,
}

impl State {
    /// The session that is current, if this is it.
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        self.current.as_ref().is_some_and(|it| it.handle.agent().session() == session)
    }

    pub(crate) fn agent(&self) -> Option<&Agent> {
        self.current.as_ref().map(|it| it.handle.agent())
    }
}

impl Bridge {
    pub(crate) fn new(ctx: &Context, config: BridgeConfig, needs: BridgeNeeds) -> Arc<Self> {
        let entropy = ctx.ids().next_u64();
        Arc::new_cyclic(|me| Self {
            ctx: ctx.clone(),
            config,
            needs,
            sink: Arc::new(Sink::new(format!("session-{entropy:016x}-{:016x}", 0).into())),
            desk: Desk::default(),
            journal: Journal::new(),
            is_setting: AtomicBool::new(false),
            is_providing: AtomicBool::new(false),
            is_watching: AtomicBool::new(false),
            providing: Arc::default(),
            has_greeted: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            me: me.clone(),
            entropy,
            n_ids: AtomicU64::new(1),
            state: Mutex::default(),
            handing: Mutex::default(),
            shell_turn: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new id, such as `run-<16 hex>-<16 hex>`.
    pub(crate) fn new_id(&self, what: &str) -> Arc<str> {
        format!("{what}-{:016x}-{:016x}", self.entropy, self.n_ids.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// Emits an answer to a command, or news of the harness.
    pub(crate) fn say<E: WireEvent>(&self, event: &E) {
        self.sink.emit(Origin::Loop, event);
    }

    pub(crate) fn info(&self, message: impl AsRef<str>) {
        self.say(&Info { message: message.as_ref() });
    }

    pub(crate) fn error(&self, message: impl AsRef<str>) {
        self.say(&Error { message: message.as_ref(), code: None });
    }

    /// A service, if somebody provides it at this moment.
    pub(crate) fn service<T: Service + ?Sized>(&self) -> Option<Svc<T>> {
        self.ctx.get::<T>()
    }

    /// The agent of the front end.
    pub(crate) fn agent(&self) -> Option<Agent> {
        self.state().agent().cloned()
    }

    /// The bridge, for a task.
    pub(crate) fn me(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Runs a task; it goes with the bridge.
    pub(crate) fn spawn<F>(&self, body: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(me) = self.me() else { return };
        if let Err(error) = self.ctx.spawn(body(me)) {
            self.ctx.logger().debug(format_args!("nothing is begun any more: {error}"));
        }
    }

    /// Runs a task beside the run, which `abort` ends.
    pub(crate) fn spawn_job<F>(
        &self,
        kind: &'static str,
        label: &'static str,
        body: impl FnOnce(Arc<Self>, CancellationToken) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let signal = CancellationToken::new();
        let id = {
            let mut state = self.state();
            state.n_jobs += 1;
            let session_id = state.current.as_ref().map(|it| it.wire_id.clone()).unwrap_or_else(|| "".into());
            let job = Job { id: state.n_jobs, kind, label, session_id, signal: signal.clone() };
            state.jobs.push(job);
            state.n_jobs
        };
        self.spawn(move |bridge| {
            let done = JobDone { bridge: bridge.clone(), id };
            let work = body(bridge, signal);
            async move {
                let _done = done;
                work.await;
            }
        });
    }

    /// Milliseconds since 1970 UTC.
    pub(crate) fn now_ms(&self) -> u64 {
        let now = self.ctx.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Takes a job off the list, however it ended.
struct JobDone {
    bridge: Arc<Bridge>,
    id: u64,
}

impl Drop for JobDone {
    fn drop(&mut self) {
        self.bridge.state().jobs.retain(|it| it.id != self.id);
    }
}
