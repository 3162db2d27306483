//! The provider of [`Agents`]: who lives here, and who drives them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, EffectHandle, Event, Fault, Inject, Lookup, NeedList, Plugin, ServiceError, Svc, provider};

use crate::agent::birth::Birth;
use crate::agent::{Agent, AgentFactory, AgentHandle, Agents, AgentsError, CreateAgent, ResumeAgent};
use crate::ids::AgentId;
use crate::persistence::SessionPersistence;
use crate::session::Sessions;

/// Provides [`Agents`].
#[derive(Debug)]
pub struct AgentsPlugin;

/// What [`AgentsPlugin`] needs.
#[derive(Inject)]
pub struct AgentsNeeds {
    sessions: Svc<dyn Sessions>,
    persistence: Lookup<dyn SessionPersistence>,
}

impl std::fmt::Debug for AgentsNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentsNeeds").finish_non_exhaustive()
    }
}

impl Plugin for AgentsPlugin {
    const NAME: &'static str = "agents";
    type Config = ();
    type Needs = AgentsNeeds;

    fn provides(list: &mut NeedList) {
        list.add::<dyn Agents>(true);
    }

    async fn start(ctx: &Context, (): (), needs: AgentsNeeds) -> Result<(), Fault> {
        let registry = Arc::new(Registry { ctx: ctx.clone(), needs, entries: Mutex::default() });
        // An agent belongs to whoever made it, and that one may stay when the registry goes.
        let leaving = registry.clone();
        ctx.effect("agents", |fx| fx.defer_async(async move { leaving.dispose_all().await }))?;
        ctx.provide::<dyn Agents>(Arc::new(Provider(registry)))?;
        Ok(())
    }
}

/// Asks who drives agents; whoever is installed listens and adds itself, so that the bus keeps order and visibility.
#[derive(Event)]
#[event(name = "internal/agents/factory", mode = Emit)]
struct CollectFactories(Mutex<Vec<Arc<dyn AgentFactory>>>);

/// The agents there are.
pub(crate) struct Registry {
    pub(crate) ctx: Context,
    needs: AgentsNeeds,
    entries: Mutex<HashMap<AgentId, Entry>>,
}

/// A taken id.
#[derive(Default)]
struct Entry {
    /// The agent, while it can be found.
    agent: Option<Agent>,
    /// What ends it.
    handle: Option<EffectHandle>,
}

/// An id that is taken until this is dropped.
pub(crate) struct Reservation {
    registry: Arc<Registry>,
    id: AgentId,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // An agent or handle may be dropped for the last time here, so not under the lock.
        let entry = self.registry.entries().remove(&self.id);
        drop(entry);
    }
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, HashMap<AgentId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sessions(&self) -> &Svc<dyn Sessions> {
        &self.needs.sessions
    }

    pub(crate) fn persistence(&self) -> &Lookup<dyn SessionPersistence> {
        &self.needs.persistence
    }

    /// Takes an id.
    pub(crate) fn reserve(self: &Arc<Self>, id: &AgentId) -> Result<Reservation, AgentsError> {
        let mut entries = self.entries();
        if entries.contains_key(id) {
            return Err(AgentsError::Exists(id.clone()));
        }
        entries.insert(id.clone(), Entry::default());
        Ok(Reservation { registry: self.clone(), id: id.clone() })
    }

    /// Keeps what ends the agent whose id is taken.
    pub(crate) fn keep(&self, id: &AgentId, handle: EffectHandle) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.handle = Some(handle);
        }
    }

    /// Has an agent found whose id is taken.
    pub(crate) fn show(&self, agent: &Agent) {
        if let Some(entry) = self.entries().get_mut(agent.id()) {
            entry.agent = Some(agent.clone());
        }
    }

    /// Has an agent not found any more; its id stays taken.
    pub(crate) fn hide(&self, id: &AgentId) {
        let agent = self.entries().get_mut(id).and_then(|it| it.agent.take());
        drop(agent);
    }

    /// Who drives the agents made from now on.
    pub(crate) fn factory(&self) -> Result<Arc<dyn AgentFactory>, AgentsError> {
        self.factories().into_iter().next().ok_or(AgentsError::NoFactory)
    }

    /// The factories that can be seen, in order; more than one only for the moment of a reload.
    fn factories(&self) -> Vec<Arc<dyn AgentFactory>> {
        let question = CollectFactories(Mutex::default());
        self.ctx.emit(&question);
        question.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    async fn dispose_all(&self) {
        let handles: Vec<EffectHandle> = self.entries().values().filter_map(|it| it.handle.clone()).collect();
        // All begin to end before any is waited for.
        let ends: Vec<_> = handles.iter().map(EffectHandle::dispose).collect();
        for end in ends {
            end.await;
        }
    }
}

struct Provider(Arc<Registry>);

#[provider]
impl Agents for Provider {
    fn install_factory(&self, ctx: &Context, factory: Arc<dyn AgentFactory>) -> Result<EffectHandle, AgentsError> {
        // What is prepared to replace the factory there is comes beside it, and is seen when that one goes.
        if ctx.fiber().is_visible() && !self.0.factories().is_empty() {
            return Err(AgentsError::FactoryTaken);
        }
        let handle = ctx.effect("agent factory", |fx| -> Result<(), Fault> {
            fx.own(ctx.on(move |question: &CollectFactories| {
                question.0.lock().unwrap_or_else(PoisonError::into_inner).push(factory.clone());
            })?);
            Ok(())
        })?;
        Ok(handle)
    }

    async fn create(&self, ctx: &Context, options: CreateAgent) -> Result<AgentHandle, AgentsError> {
        let birth = Birth::begin(&self.0, ctx, &options.agent_id)?;
        let outcome = birth.create(options).await;
        birth.end(outcome).await
    }

    async fn resume(&self, ctx: &Context, options: ResumeAgent) -> Result<AgentHandle, AgentsError> {
        let birth = Birth::begin(&self.0, ctx, &options.agent_id)?;
        let outcome = birth.resume(options).await;
        birth.end(outcome).await
    }

    fn get(&self, id: &AgentId) -> Result<Option<Agent>, ServiceError> {
        Ok(self.0.entries().get(id).and_then(|it| it.agent.clone()))
    }

    fn list(&self) -> Result<Vec<Agent>, ServiceError> {
        let mut all: Vec<Agent> = self.0.entries().values().filter_map(|it| it.agent.clone()).collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        Ok(all)
    }
}
