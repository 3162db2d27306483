//! The provider of [`Agents`]: who lives here, and who drives them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use linn_bus::{
    Context, Demand, EffectHandle, Event, Fault, Inject, Lookup, NeedList, Plugin, ServiceError, Svc, provider,
};

use crate::agent::birth::Birth;
use crate::agent::{
    Agent, AgentFactory, AgentHandle, Agents, AgentsError, CreateAgent, ResumeAgent, SessionStartSource,
};
use crate::ids::AgentId;
use crate::kept::Kept;
use crate::persistence::{SessionPersistence, StoredSession};
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

linn_bus::register_plugin!(AgentsPlugin);

impl Plugin for AgentsPlugin {
    const NAME: &'static str = "agents";
    type Config = ();
    type Needs = AgentsNeeds;

    fn provides(list: &mut NeedList) {
        list.add::<dyn Agents>(Demand::Required);
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
    /// Who made what drives it.
    factory: Option<Arc<dyn AgentFactory>>,
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

    /// Has an agent found whose id is taken, and that `factory` drives.
    pub(crate) fn show(&self, agent: &Agent, factory: Arc<dyn AgentFactory>) {
        if let Some(entry) = self.entries().get_mut(agent.id()) {
            (entry.agent, entry.factory) = (Some(agent.clone()), Some(factory));
        }
    }

    /// Has an agent not found any more; its id stays taken.
    pub(crate) fn hide(&self, id: &AgentId) {
        let left = self.entries().get_mut(id).map(|it| (it.agent.take(), it.factory.take()));
        drop(left);
    }

    /// The agents that can be found and whose factory `wanted` picks.
    fn agents_of(&self, wanted: impl Fn(Option<&Arc<dyn AgentFactory>>) -> bool) -> Vec<Agent> {
        let entries = self.entries();
        let mut agents: Vec<Agent> =
            entries.values().filter(|it| wanted(it.factory.as_ref())).filter_map(|it| it.agent.clone()).collect();
        agents.sort_by(|a, b| a.id().cmp(b.id()));
        agents
    }

    /// Stops all that a factory drives, since its code goes. Another factory that is there by then drives them on.
    async fn abandon(&self, factory: &Arc<dyn AgentFactory>) {
        let abandoned = self.agents_of(|it| it.is_some_and(|it| Arc::ptr_eq(it, factory)));
        let ends: Vec<_> = abandoned.iter().filter_map(|it| Some(it.driver()?.stop())).collect();
        join_all(ends).await;
        for agent in &abandoned {
            if let Some(entry) = self.entries().get_mut(agent.id()) {
                entry.factory = None;
            }
        }
        self.drive_on();
    }

    /// Has the factory that can be seen drive the agents that nothing drives any more.
    fn drive_on(&self) {
        let Ok(factory) = self.factory() else { return };
        for agent in self.agents_of(|it| it.is_none()) {
            let before = agent.driver();
            let driver = match factory.build(&agent, SessionStartSource::Resume) {
                Ok(driver) => driver,
                Err(cause) => {
                    self.ctx.logger().error(format_args!("agent `{}` is not driven on: {cause:#}", agent.id()));
                    continue;
                }
            };
            if !agent.install(driver.clone()) {
                continue;
            }
            if let Some(entry) = self.entries().get_mut(agent.id()) {
                entry.factory = Some(factory.clone());
            }
            driver.start();
            for prompt in before.map(|it| it.leftover()).unwrap_or_default() {
                if let Err(error) = driver.send(prompt) {
                    self.ctx.logger().error(format_args!("a prompt of agent `{}` is lost: {error}", agent.id()));
                }
            }
        }
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
        join_all(handles.iter().map(|it| it.dispose().into_future())).await;
    }
}

struct Provider(Arc<Registry>);

#[provider]
impl Agents for Provider {
    fn admit_factory(&self, ctx: &Context, factory: Kept<dyn AgentFactory>) -> Result<EffectHandle, AgentsError> {
        let factory = factory.into_inner();
        // What is prepared to replace the factory there is comes beside it, and is seen when that one goes.
        if ctx.fiber().is_visible() && !self.0.factories().is_empty() {
            return Err(AgentsError::FactoryTaken);
        }
        let (registry, own) = (self.0.clone(), factory.clone());
        let handle = ctx.effect("agent factory", |fx| -> Result<(), Fault> {
            fx.defer_async(async move { registry.abandon(&own).await });
            fx.own(ctx.on(move |question: &CollectFactories| {
                question.0.lock().unwrap_or_else(PoisonError::into_inner).push(factory.clone());
            })?);
            Ok(())
        })?;
        // In the wings nobody sees it: it takes over when the one before it goes.
        if ctx.fiber().is_visible() {
            self.0.drive_on();
        }
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

    async fn restore(
        &self,
        ctx: &Context,
        options: ResumeAgent,
        stored: StoredSession,
    ) -> Result<AgentHandle, AgentsError> {
        let birth = Birth::begin(&self.0, ctx, &options.agent_id)?;
        let outcome = birth.restore(options, stored).await;
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
