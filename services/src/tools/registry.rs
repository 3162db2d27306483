//! The registry of tools, and the way a call goes.

use std::sync::Arc;

use linn_bus::{BusError, Context, EffectHandle, ListenerErrors, ScopeKey, ServiceError, service};

use crate::ids::ToolName;
use crate::kept::Function;
use crate::model::ToolSchema;
use crate::tools::{Tool, ToolExecution, ToolExecutionInput, ToolExecutionResult};

/// Tools that models may call, and the one way a call goes.
///
/// What is registered through the context of an agent is there for that agent alone and shadows a tool of the same name.
/// Everything registered goes with the context it came through.
#[service("tools")]
pub trait Tools {
    /// Registers a tool.
    fn register(&self, ctx: &Context, tool: Tool) -> Result<EffectHandle, ToolsError>;

    /// Registers a tool that gives way to others, or takes the place of one; see [`ToolClaim`]. Of several with the same claim
    /// to a name the first counts, and none of them is an error.
    fn contribute(&self, ctx: &Context, tool: Tool, claim: ToolClaim) -> Result<EffectHandle, ToolsError>;

    /// Takes the tools of these names away from everybody this context reaches, whoever registered them and however. There
    /// need not be any.
    fn withhold(&self, ctx: &Context, names: Vec<ToolName>) -> Result<EffectHandle, ToolsError>;

    /// Registers a guard, which may refuse calls that everybody else has let pass; it cannot allow any.
    fn guard(&self, ctx: &Context, guard: ToolGuard) -> Result<EffectHandle, ToolsError>;

    /// Limits which of the tools of all the agent of this context sees. Several limits hold together; tools registered for
    /// the agent itself are not limited.
    fn restrict(&self, ctx: &Context, restriction: ToolRestriction) -> Result<EffectHandle, ToolsError>;

    /// The tools that an agent sees, or everybody, by name.
    fn visible(&self, scope: Option<&ScopeKey>) -> Result<Vec<Arc<Tool>>, ServiceError>;

    /// The tool of this name that an agent sees, or everybody.
    fn get(&self, scope: Option<&ScopeKey>, name: &ToolName) -> Result<Option<Arc<Tool>>, ServiceError>;

    /// What a model learns of the tools that an agent sees, or everybody, by name.
    fn schemas(&self, scope: Option<&ScopeKey>) -> Result<Vec<ToolSchema>, ServiceError>;

    /// Runs a call: amended, checked, decided, run, looked at, and told. Whatever goes wrong is a result; an error only says
    /// that the registry itself is gone.
    ///
    /// The signal of the call ends it at once, whatever it waits for: the result is an error that says `aborted`, and what
    /// ran for the call is dropped where it waits. Dropping the future does the same; the result is then told to the
    /// listeners of `tools/result` all the same, by a task.
    async fn execute(&self, input: ToolExecutionInput) -> Result<ToolExecutionResult, ServiceError>;
}

/// What a tool that is contributed claims of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolClaim {
    /// It is there where nothing else has its name.
    FreeName,
    /// It is there in place of whatever else has its name, also for an agent that has that for itself; and as with
    /// [`FreeName`](ToolClaim::FreeName) where nothing has. Who may not see that does not see this either.
    InPlace,
}

/// Refuses calls: a function that gives the reason, or nothing.
pub type ToolGuard = Function<ToolExecution, Option<String>>;

/// Which tools of all an agent sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRestriction {
    /// These alone.
    pub allow: Option<Vec<ToolName>>,
    /// Not these.
    pub deny: Option<Vec<ToolName>>,
}

/// Why something was not registered with the tools.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// The name is taken in this layer.
    #[error("a tool `{name}` is registered already{}", if *.is_global { "; to change it for one agent, register it through the context of the agent" } else { " for this agent" })]
    Duplicate {
        /// The name.
        name: ToolName,
        /// Whether it was to be there for all agents.
        is_global: bool,
    },
    /// The name belongs to the harness.
    #[error("the name `{0}` is reserved")]
    Reserved(ToolName),
    /// The parameters are no JSON schema of an object.
    #[error("the parameters of tool `{name}` are no JSON schema of an object: {why}")]
    BadSchema {
        /// The tool.
        name: ToolName,
        /// What is wrong.
        why: String,
    },
    /// A restriction belongs to an agent.
    #[error("a restriction is set through the context of an agent, and this context belongs to none")]
    RestrictionUnscoped,
    /// A restriction that names nothing.
    #[error("a restriction names tools to allow or to deny, and this one names none")]
    RestrictionEmpty,
    /// A restriction names a tool that does not exist.
    #[error("a restriction names `{name}`, and there is no such tool; there are: {known}")]
    RestrictionUnknown {
        /// The name.
        name: ToolName,
        /// The tools there are.
        known: String,
    },
    /// A listener of `tools/change` failed; what was registered is taken back.
    #[error("who heard of the change failed: {0}")]
    Refused(#[source] ListenerErrors),
    /// The context cannot register anything any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl ToolsError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "DUPLICATE_TOOL",
            Self::Reserved(_) => "RESERVED_TOOL",
            Self::BadSchema { .. } => "BAD_SCHEMA",
            Self::RestrictionUnscoped => "RESTRICTION_UNSCOPED",
            Self::RestrictionEmpty => "RESTRICTION_EMPTY",
            Self::RestrictionUnknown { .. } => "RESTRICTION_UNKNOWN",
            Self::Refused(_) => "CHANGE_REFUSED",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
