//! A driver that does nothing but say so, and a harness around it.

use std::sync::{Arc, Mutex};

use linn_bus::{BoxFuture, Context, Fault, Root, Svc};
use linn_services::agent::{
    Agent, AgentDriver, AgentFactory, AgentStatus, Agents, AgentsError, AgentsPlugin, Prompt, SessionStartSource,
};
use linn_services::events::{AgentCreated, AgentDisposed, AgentSessionStart, SessionCreated};
use linn_services::model::HookContext;
use linn_services::session::{Sessions, SessionsPlugin};

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
    /// Tells it of everything the registry announces to `ctx`.
    pub(crate) fn listen(&self, ctx: &Context, name: &str) {
        let tell = |what: &str| {
            let (story, line) = (self.clone(), format!("{name}{what}"));
            move || story.add(line.clone())
        };
        let told = tell("session/created");
        ctx.on(move |_: &SessionCreated| told()).unwrap();
        let told = tell("agent/created");
        ctx.on(move |_: &AgentCreated| told()).unwrap();
        let (story, name) = (self.clone(), name.to_owned());
        let prefix = name.clone();
        ctx.on(move |e: &AgentSessionStart| story.add(format!("{prefix}session-start {:?}", e.source))).unwrap();
        let story = self.clone();
        ctx.on(move |_: &AgentDisposed| story.add(format!("{name}agent/disposed"))).unwrap();
    }
}

/// A driver that keeps a story and drives nothing.
pub(crate) struct Still {
    story: Story,
    status: Mutex<AgentStatus>,
}

impl AgentDriver for Still {
    fn send(&self, _: Prompt) -> Result<(), AgentsError> {
        self.story.add("send");
        Ok(())
    }
    fn steer(&self, _: Prompt) -> Result<(), AgentsError> {
        Ok(())
    }
    fn inject(&self, _: HookContext) -> Result<(), AgentsError> {
        Ok(())
    }
    fn cancel(&self, _: &str) {}
    fn status(&self) -> AgentStatus {
        *self.status.lock().unwrap()
    }
    fn when_idle(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn start(&self) {
        self.story.add("start");
    }
    fn stop(&self) -> BoxFuture<'static, ()> {
        *self.status.lock().unwrap() = AgentStatus::Disposed;
        self.story.add("stop");
        Box::pin(std::future::ready(()))
    }
}

/// Makes [`Still`] drivers.
#[derive(Default)]
pub(crate) struct Stills(pub(crate) Story);

impl AgentFactory for Stills {
    fn build(&self, _: &Agent, _: SessionStartSource) -> Result<Arc<dyn AgentDriver>, Fault> {
        Ok(Arc::new(Still { story: self.0.clone(), status: Mutex::new(AgentStatus::Idle) }))
    }
}

/// The services of a harness, with what the drivers say.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) agents: Svc<dyn Agents>,
    pub(crate) sessions: Svc<dyn Sessions>,
    pub(crate) story: Story,
}

impl World {
    /// Sessions and agents, without a factory.
    pub(crate) async fn bare(root: Root) -> Self {
        root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<AgentsPlugin>(()).unwrap().running().await.unwrap();
        let (agents, sessions) = (root.get::<dyn Agents>().unwrap(), root.get::<dyn Sessions>().unwrap());
        Self { root, agents, sessions, story: Story::default() }
    }

    /// The same with a factory of [`Still`] drivers.
    pub(crate) async fn new(root: Root) -> Self {
        let world = Self::bare(root).await;
        world.agents.install_factory(&world.root, Arc::new(Stills(world.story.clone()))).unwrap();
        world
    }

    /// Whether neither agent nor session is there, and both ids are free.
    pub(crate) fn assert_nothing_is_left(&self) {
        assert_eq!(self.agents.list().unwrap(), []);
        assert_eq!(self.sessions.list().unwrap(), []);
    }

    /// A fiber that owns what the test makes through its context.
    pub(crate) async fn owner(&self) -> (linn_bus::Fiber, Context) {
        let fiber = self.root.mount_fn("owner", async |_: Context, (): ()| {}).unwrap();
        fiber.running().await.unwrap();
        let ctx = fiber.context().unwrap();
        (fiber, ctx)
    }
}

/// A set-up from an async closure.
pub(crate) fn setup<F, Fut>(body: F) -> Option<linn_services::agent::Setup>
where
    F: FnOnce(Context) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), Fault>> + Send + 'static,
{
    Some(linn_services::agent::Setup::new(body))
}
