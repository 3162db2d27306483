//! What drives agents, and how they are set up.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BoxFuture, Contained, Context, EffectHandle, Fault, contain, contain_now};

use super::{Keeps, Kept, future};
use crate::agent::{Agent, AgentDriver, AgentFactory, AgentStatus, Agents, AgentsError, Prompt, SessionStartSource};
use crate::model::HookContext;

impl dyn Agents {
    /// Installs what drives agents; one at a time. One that is prepared in the wings takes over when the one before it goes.
    ///
    /// When it goes everything it drives is stopped first: a turn that runs ends as `disposed`. The agents stay, and the
    /// factory that takes over, or the next one installed, drives them on.
    ///
    /// # Errors
    ///
    /// There is one already, and those of the context.
    pub fn install_factory(&self, ctx: &Context, factory: Arc<dyn AgentFactory>) -> Result<EffectHandle, AgentsError> {
        self.admit_factory(ctx, factory.into())
    }
}

impl From<Arc<dyn AgentFactory>> for Kept<dyn AgentFactory> {
    fn from(factory: Arc<dyn AgentFactory>) -> Self {
        Self(Arc::new(Keeps::new(factory)))
    }
}

impl AgentFactory for Keeps<dyn AgentFactory> {
    fn build(&self, agent: &Agent, source: SessionStartSource) -> Result<Arc<dyn AgentDriver>, Fault> {
        let driver = contain_now(|| self.0.build(agent, source))??;
        Ok(Arc::new(Keeps::new(driver)))
    }
}

impl Keeps<dyn AgentDriver> {
    /// A verb of the driver; its panic is the error of the verb.
    fn verb(&self, call: impl FnOnce(&dyn AgentDriver) -> Result<(), AgentsError>) -> Result<(), AgentsError> {
        contain_now(|| call(&***self.0)).unwrap_or_else(|cause| Err(AgentsError::Driver { cause }))
    }
}

impl AgentDriver for Keeps<dyn AgentDriver> {
    fn send(&self, prompt: Prompt) -> Result<(), AgentsError> {
        self.verb(|it| it.send(prompt))
    }

    fn steer(&self, prompt: Prompt) -> Result<(), AgentsError> {
        self.verb(|it| it.steer(prompt))
    }

    fn inject(&self, context: HookContext) -> Result<(), AgentsError> {
        self.verb(|it| it.inject(context))
    }

    fn cancel(&self, reason: &str) {
        self.ask(|it| it.cancel(reason));
    }

    fn status(&self) -> AgentStatus {
        self.ask(|it| it.status()).unwrap_or(AgentStatus::Disposed)
    }

    fn when_idle(&self) -> BoxFuture<'static, ()> {
        let kept = Self(self.0.clone());
        Box::pin(async move { drop(future(|| kept.0.when_idle()).await) })
    }

    fn start(&self) {
        self.ask(|it| it.start());
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let kept = Self(self.0.clone());
        Box::pin(async move { drop(future(|| kept.0.stop()).await) })
    }

    fn leftover(&self) -> Vec<Prompt> {
        self.ask(|it| it.leftover()).unwrap_or_default()
    }
}

/// Registers what an agent has for itself, before anybody hears of it. It gets the context of the agent.
pub struct Setup(Box<dyn FnOnce(Context) -> BoxFuture<'static, Result<(), Fault>> + Send>);

impl Setup {
    /// Wraps a function; a panic of it is a failure.
    pub fn new<Fut>(setup: impl FnOnce(Context) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        // Taken out to be called, and dropped in here where it is not.
        let setup = Contained::new(Mutex::new(Some(setup)));
        Self(Box::new(move |ctx| {
            Box::pin(contain(async move {
                let taken = setup.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(setup) = taken else { return Ok(()) };
                setup(ctx).await
            }))
        }))
    }

    pub(crate) async fn run(self, ctx: Context) -> Result<(), Fault> {
        (self.0)(ctx).await
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Setup")
    }
}
