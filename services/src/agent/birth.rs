//! How an agent comes into the world, and in which order it leaves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use linn_bus::{Composite, Context, EffectHandle, Scope};
use tokio_util::sync::CancellationToken;

use crate::agent::provider::Registry;
use crate::agent::{
    Agent, AgentDriver, AgentFactory, AgentHandle, AgentOptions, AgentsError, CreateAgent, ResumeAgent,
    SessionStartSource, Setup,
};
use crate::events::{AgentCreated, AgentDisposed, AgentSessionStart};
use crate::ids::{AgentId, SessionId};
use crate::persistence::{SessionFiles, StoredSession};
use crate::session::{CreateSession, PreparedSession};

/// An agent on its way. Everything it takes is part of one effect of whoever makes it; dropped before its
/// [`end`](Birth::end), it undoes that effect.
///
/// The effect is undone the last first, so a life ends in this order: the loop stops and flushes, the agent cannot be found
/// any more and `agent/disposed` is told, its session leaves the store, its scope goes, its ids are free.
pub(crate) struct Birth {
    registry: Arc<Registry>,
    ctx: Context,
    id: AgentId,
    scope: Scope,
    skeleton: Composite,
    handle: EffectHandle,
    /// Cancelled when the effect is undone.
    undone: CancellationToken,
    is_over: AtomicBool,
    /// Whether its session came to live.
    has_session: Arc<AtomicBool>,
}

impl Drop for Birth {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Relaxed) {
            // Begins now and goes on without a waiter.
            drop(self.handle.dispose());
        }
    }
}

impl Birth {
    /// Takes the id and makes the scope.
    pub(crate) fn begin(registry: &Arc<Registry>, ctx: &Context, id: &AgentId) -> Result<Self, AgentsError> {
        registry.factory()?;
        let reservation = registry.reserve(id)?;
        let scope = ctx.scope()?;
        let undone = CancellationToken::new();
        let mut skeleton = None;
        let handle = ctx.effect(&format!("agent {id}"), |fx| {
            fx.defer(move || drop(reservation));
            fx.own(scope.clone());
            let undone = undone.clone();
            fx.defer(move || undone.cancel());
            skeleton = Some(fx.clone());
        })?;
        let skeleton = skeleton.expect("the body of an effect runs at once");
        registry.keep(id, handle.clone());
        let (registry, ctx, id) = (registry.clone(), ctx.clone(), id.clone());
        Ok(Self {
            registry,
            ctx,
            id,
            scope,
            skeleton,
            handle,
            undone,
            is_over: AtomicBool::new(false),
            has_session: Arc::default(),
        })
    }

    /// Gives the agent out, or undoes what was begun and waits until that is done.
    pub(crate) async fn end(self, outcome: Result<Agent, AgentsError>) -> Result<AgentHandle, AgentsError> {
        match outcome {
            Ok(agent) => {
                self.is_over.store(true, Ordering::Relaxed);
                Ok(AgentHandle::new(agent, self.handle.clone()))
            }
            Err(error) => {
                self.handle.dispose().await;
                Err(error)
            }
        }
    }

    pub(crate) async fn create(&self, options: CreateAgent) -> Result<Agent, AgentsError> {
        let CreateAgent { session_id, cwd, parent_session, seed_length, seed, options, setup, .. } = options;
        let session = CreateSession { id: Some(session_id), cwd, parent_session, seed_length, seed, created_at: None };
        let prepared = self.registry.sessions().prepare(&self.ctx, session)?;
        self.raise(prepared, options, setup, SessionStartSource::Startup).await
    }

    pub(crate) async fn resume(&self, options: ResumeAgent) -> Result<Agent, AgentsError> {
        let session_id = options.session_id.clone();
        let reserved = CreateSession { id: Some(session_id.clone()), ..CreateSession::default() };
        let reserved = self.registry.sessions().prepare(&self.ctx, reserved)?;
        let look_up = async {
            match self.registry.persistence().get().await {
                Ok(Some(persistence)) => persistence
                    .load(&session_id)
                    .await
                    .map_err(|source| AgentsError::Load { id: session_id.clone(), source }),
                Ok(None) => Err(AgentsError::NoPersistence(session_id.clone())),
                Err(error) => Err(AgentsError::Lookup(error)),
            }
        };
        self.let_go_of(&session_id);
        let stored = self.while_owned(look_up).await??;
        for notice in &stored.notices {
            self.registry.ctx.logger().warn(format_args!("session `{session_id}`: {notice}"));
        }
        drop(reserved);
        self.go_on(options, stored).await
    }

    pub(crate) async fn restore(&self, options: ResumeAgent, stored: StoredSession) -> Result<Agent, AgentsError> {
        self.let_go_of(&options.session_id);
        self.go_on(options, stored).await
    }

    async fn go_on(&self, options: ResumeAgent, stored: StoredSession) -> Result<Agent, AgentsError> {
        let ResumeAgent { session_id, options, setup, .. } = options;
        let header = stored.header;
        let session = CreateSession {
            id: Some(session_id),
            cwd: header.cwd,
            parent_session: header.parent_session,
            seed_length: header.seed_length,
            seed: stored.records,
            created_at: Some(header.created_at),
        };
        let prepared = self.registry.sessions().prepare(&self.ctx, session)?;
        self.raise(prepared, options, setup, SessionStartSource::Resume).await
    }

    /// Has what was read of a session let go of when the agent ends without having made it live: others may write it then.
    fn let_go_of(&self, id: &SessionId) {
        let (ctx, id, has_session) = (self.registry.ctx.clone(), id.clone(), self.has_session.clone());
        self.skeleton.defer_async(async move {
            let files = ctx.get::<dyn SessionFiles>().filter(|_| !has_session.load(Ordering::Relaxed));
            let Some(files) = files else { return };
            if let Err(error) = files.release(&id).await {
                ctx.logger().warn(format_args!("session `{id}` is still held: {error}"));
            }
        });
    }

    /// `future`, unless whoever makes the agent goes first.
    async fn while_owned<T>(&self, future: impl Future<Output = T>) -> Result<T, AgentsError> {
        let undone = std::pin::pin!(self.undone.cancelled());
        match select(undone, std::pin::pin!(future)).await {
            Either::Left(_) => Err(AgentsError::OwnerGone),
            Either::Right((value, _)) => Ok(value),
        }
    }

    /// Sets the agent up and publishes it.
    async fn raise(
        &self,
        prepared: PreparedSession,
        options: AgentOptions,
        setup: Option<Setup>,
        source: SessionStartSource,
    ) -> Result<Agent, AgentsError> {
        let agent = Agent::new(self.id.clone(), options, prepared.session().clone(), self.scope.clone());
        if let Some(setup) = setup {
            let set_up = self.while_owned(setup.run(agent.context().clone())).await?;
            set_up.map_err(|cause| AgentsError::Setup { id: self.id.clone(), cause })?;
        }
        if self.undone.is_cancelled() {
            return Err(AgentsError::OwnerGone);
        }
        let factory = self.registry.factory()?;
        let driver =
            factory.build(&agent, source).map_err(|cause| AgentsError::Factory { id: self.id.clone(), cause })?;
        agent.install(driver.clone());
        let mut outcome = Ok(());
        // An effect of its own, so that it is undone as a whole also if the other one was undone meanwhile.
        let published = self.ctx.effect(&format!("publication of agent {}", self.id), |fx| {
            outcome = self.publish(fx, &agent, factory, &driver, prepared, source);
        })?;
        self.skeleton.own(published);
        outcome.map(|()| agent)
    }

    /// From here on the agent can be found and driven. Nothing waits in here.
    fn publish(
        &self,
        fx: &Composite,
        agent: &Agent,
        factory: Arc<dyn AgentFactory>,
        driver: &Arc<dyn AgentDriver>,
        prepared: PreparedSession,
        source: SessionStartSource,
    ) -> Result<(), AgentsError> {
        let registry = &self.registry;
        registry.show(agent, factory);
        match registry.sessions().enter(agent.context(), prepared) {
            Ok(entered) => {
                self.has_session.store(true, Ordering::Relaxed);
                fx.own(entered.handle);
            }
            Err(error) => {
                registry.hide(&self.id);
                let ending = agent.clone();
                fx.defer_async(async move { ending.end().await });
                return Err(error.into());
            }
        }
        let (leaving, of) = (agent.clone(), registry.clone());
        fx.defer(move || {
            of.hide(leaving.id());
            of.ctx.emit(&AgentDisposed { agent: leaving });
        });
        let ending = agent.clone();
        fx.defer_async(async move { ending.end().await });
        registry
            .ctx
            .try_emit(&AgentCreated { agent: agent.clone() })
            .map_err(|errors| AgentsError::Refused { id: self.id.clone(), errors })?;
        agent.publish();
        registry.ctx.emit(&AgentSessionStart { agent: agent.clone(), source });
        driver.start();
        Ok(())
    }
}
