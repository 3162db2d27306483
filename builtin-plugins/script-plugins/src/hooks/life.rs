//! Hooks that tell of sessions and turns. Nothing waits for them but what has to come after them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use linn_services::agent::Agent;
use linn_services::events::{AgentDisposed, AgentPreStep, AgentSessionStart, CompactionStart, Exit, SessionEvent};
use linn_services::session::{Fact, RewindCause};

use crate::active::Active;
use crate::fleet::{Fleet, HookCall, is_main};
use crate::hooks::HookPoint;
use crate::metrics::metrics;
use crate::order::Place;

/// How long all hooks together may take when everything ends: front ends wait no longer for a program that they told to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Hooks that tell of sessions and turns.
#[derive(Debug)]
pub(crate) struct Life {
    fleet: Arc<Fleet>,
}

impl Life {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet }
    }

    /// A session begins.
    pub(crate) fn session_starts(&self, it: &AgentSessionStart) {
        if is_main(&it.agent) {
            self.fleet.sessions().insert(it.agent.session().id().clone(), it.agent.clone());
            self.tell_start(&it.agent);
        }
    }

    /// An agent is gone, and its session with it.
    pub(crate) fn session_ends(&self, it: &AgentDisposed) {
        let known = self.fleet.sessions().remove(it.agent.session().id());
        if let Some(agent) = known {
            self.later(HookPoint::SessionStop, &agent);
        }
    }

    /// Something was logged.
    pub(crate) fn logged(&self, it: &SessionEvent) {
        let Some(agent) = self.fleet.sessions().get(it.session.id()).cloned() else { return };
        match &it.record.fact {
            Fact::TurnEnd(_) => self.later(HookPoint::TurnEnd, &agent),
            // Whoever starts anew ends one conversation and begins another.
            Fact::SessionRewind(rewind) if rewind.cause == RewindCause::Reset => {
                self.later(HookPoint::SessionStop, &agent);
                self.tell_start(&agent);
            }
            _ => {}
        }
    }

    /// A history is about to be compacted.
    pub(crate) fn compacting(&self, it: &CompactionStart) {
        self.later(HookPoint::PreCompact, &it.agent);
    }

    /// A turn begins: its first step waits for the scripts.
    pub(crate) async fn turn_starts(&self, it: &AgentPreStep) {
        if it.step != 1 || !is_main(&it.agent) {
            return;
        }
        let plugins = self.fleet.hooked(HookPoint::TurnStart);
        let tell = async |active: &Arc<Active>, place: Place| {
            place.reached().await;
            let call = HookCall { signal: it.signal.clone(), ..HookCall::new(HookPoint::TurnStart, Some(&it.agent)) };
            self.fleet.hook(active, &call).await;
        };
        join_all(plugins.iter().map(|active| tell(active, active.life.take()))).await;
    }

    fn tell_start(&self, agent: &Agent) {
        for active in self.fleet.hooked(HookPoint::SessionStart) {
            let places = (active.life.take(), active.opening.take());
            self.spawn(active, HookPoint::SessionStart, agent.clone(), places);
        }
    }

    fn later(&self, point: HookPoint, agent: &Agent) {
        if self.fleet.is_shut_down.load(Ordering::Relaxed) {
            return;
        }
        for active in self.fleet.hooked(point) {
            let place = active.life.take();
            self.spawn(active, point, agent.clone(), (place, ()));
        }
    }

    /// Tells a plugin in its turn. When the plugin that runs scripts is going, its own end has told what there is to tell.
    fn spawn<T: Send + 'static>(&self, active: Arc<Active>, point: HookPoint, agent: Agent, places: (Place, T)) {
        let fleet = self.fleet.clone();
        let telling = async move {
            places.0.reached().await;
            tell(&fleet, &active, point, Some(&agent)).await;
            drop(places);
        };
        drop(self.fleet.ctx.spawn(telling));
    }

    /// The program is about to end.
    pub(crate) async fn program_ends(&self, _: &Exit) {
        self.shut_down().await;
    }

    /// Tells the end of everything, once; ready when all scripts are over. Plugins are told side by side.
    pub(crate) async fn shut_down(&self) {
        if self.fleet.is_shut_down.swap(true, Ordering::Relaxed) {
            return;
        }
        let sessions: Vec<Agent> = self.fleet.sessions().drain().map(|(_, agent)| agent).collect();
        let plugins = self.fleet.active();
        let end = async |active: &Arc<Active>, place: Place| {
            place.reached().await;
            for agent in &sessions {
                tell(&self.fleet, active, HookPoint::SessionStop, Some(agent)).await;
            }
            tell(&self.fleet, active, HookPoint::SessionShutdown, None).await;
        };
        let concerned = plugins.iter().filter(|it| {
            let hooks = &it.manifest.hooks;
            hooks.contains_key(&HookPoint::SessionStop) || hooks.contains_key(&HookPoint::SessionShutdown)
        });
        let told = join_all(concerned.map(|active| end(active, active.life.take())));
        // Scripts that are still at it are killed when what waits for them is dropped.
        if self.fleet.ctx.within(FAREWELL, told).await.is_err() {
            self.fleet.ctx.logger().warn(format_args!(
                "hooks of the end took longer than {} s together; those that were left are ended",
                FAREWELL.as_secs()
            ));
        }
    }
}

async fn tell(fleet: &Fleet, active: &Arc<Active>, point: HookPoint, agent: Option<&Agent>) {
    if !active.manifest.hooks.contains_key(&point) {
        return;
    }
    let mut call = HookCall::new(point, agent);
    if point == HookPoint::SessionStop {
        call.args = agent.map(|it| metrics(it.session()));
    }
    fleet.hook(active, &call).await;
}
