//! The system prompt: sections, variables and tools, put together for each request.

mod order;
mod parts;
mod provider;
mod render;
mod restore;

use std::collections::BTreeMap;

use linn_bus::{BusError, Context, EffectHandle, ListenerError, ListenerErrors, ScopeKey, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::ids::ToolName;
use crate::kept::Function;
use crate::model::ToolSchema;

pub use order::UNLISTED_TOOLS;
pub use provider::{IDENTITY_SECTION, PERSONA_SECTION, SystemPromptConfig, SystemPromptPlugin};

/// Assembles what a model is told before the conversation.
///
/// What is registered through the context of an agent is there for that agent alone, and a section or variable of the same
/// name takes the place of the one for all. Texts, values and tools are asked for at each assembly, as calls of the plugin
/// that registered them.
#[service("system-prompt")]
pub trait SystemPrompt {
    /// Registers a section. One that was protected for all cannot be changed for one agent.
    fn section(&self, ctx: &Context, section: Section) -> Result<EffectHandle, PromptError>;

    /// Registers a variable, which sections name as `{{name}}`. Names are `[a-z][a-z0-9_]*`.
    fn variable(&self, ctx: &Context, name: &str, value: Variable) -> Result<EffectHandle, PromptError>;

    /// Registers a source of tools. Of two tools of one name the one of the agent counts, else the first.
    ///
    /// Asked without an agent it gives all tools there are; the configured order is checked against those.
    fn tools(&self, ctx: &Context, source: ToolSource) -> Result<EffectHandle, PromptError>;

    /// Keeps sections and tools of these names as they were registered, whatever listeners of `system-prompt/assemble` make
    /// of them, absence included.
    fn protect(&self, ctx: &Context, protection: Protection) -> Result<EffectHandle, PromptError>;

    /// Puts everything together, through the listeners of `system-prompt/assemble`. Cancel safe.
    async fn assemble(&self, context: AssembleContext) -> Result<PromptAssembly, PromptError>;

    /// The system text of an assembly; `None` if it is empty. See [`PromptAssembly::render`].
    fn render(&self, assembly: &PromptAssembly) -> Result<Option<String>, PromptError>;
}

/// What sections, variables and tool sources are asked with.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct AssembleContext {
    /// Whose prompt it is.
    #[serde(skip)]
    pub scope: Option<ScopeKey>,
    /// The agent, if it is one's.
    pub agent: Option<Agent>,
}

impl AssembleContext {
    /// For an agent.
    pub fn of_agent(agent: &Agent) -> Self {
        Self { scope: Some(agent.key().clone()), agent: Some(agent.clone()) }
    }
}

/// Text that is made when the prompt is.
pub type TextOf = Function<AssembleContext, String>;

/// The value of a variable; `None` if it has none for this prompt.
pub type Variable = Function<AssembleContext, Option<String>>;

/// Tools for a prompt.
pub type ToolSource = Function<AssembleContext, Vec<ToolSchema>>;

/// A part of the system text.
#[derive(Clone)]
pub struct Section {
    /// Name, unique in its layer.
    pub name: String,
    /// Where it goes: the lower, the earlier. `harness:identity` has -100, `deployment:persona` 0, guidance for tools 100 to
    /// 199.
    pub order: i32,
    /// Its text.
    pub text: TextOf,
}

impl Section {
    /// A section that is always the same.
    pub fn fixed(name: &str, order: i32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { name: name.to_owned(), order, text: TextOf::new(move |_| text.clone()) }
    }
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section").field("name", &self.name).field("order", &self.order).finish_non_exhaustive()
    }
}

/// Names that listeners cannot change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protection {
    /// Sections.
    pub sections: Vec<String>,
    /// Tools.
    pub tools: Vec<ToolName>,
}

/// A section with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssembledSection {
    /// Name.
    pub name: String,
    /// Where it goes.
    pub order: i32,
    /// Its text, variables not put in yet.
    pub text: String,
}

/// Everything a prompt is made of; answer of `system-prompt/assemble`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAssembly {
    /// Sections in order.
    pub sections: Vec<AssembledSection>,
    /// Tools in order.
    pub tools: Vec<ToolSchema>,
    /// Variables; a value that is `None` is known and missing.
    pub variables: BTreeMap<String, Option<String>>,
}

/// Why there is no prompt.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The name is taken in its layer.
    #[error("a {what} `{name}` is registered already")]
    Duplicate {
        /// `section` or `variable`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A section that is protected for all cannot be changed for one.
    #[error("section `{0}` is protected and cannot be replaced for one agent")]
    Protected(String),
    /// Not a name of a variable.
    #[error("`{0}` is no name of a variable: use a lower-case letter, then letters, digits and `_`")]
    BadVariable(String),
    /// A protection without names.
    #[error("a protection names sections or tools, and this one names none")]
    ProtectionEmpty,
    /// The order of tools in the config is wrong.
    #[error("the configured order of tools {0}")]
    ToolOrder(String),
    /// A section names a variable that there is not, or that has no value.
    #[error("section `{section}` names the variable `{variable}`, which {why}")]
    Variable {
        /// The section.
        section: String,
        /// The variable.
        variable: String,
        /// `does not exist` or `has no value here`.
        why: &'static str,
    },
    /// A section holds braces that are no variable.
    #[error("section `{section}` holds `{found}`, which is no variable; write `{{{{name}}}}`")]
    Malformed {
        /// The section.
        section: String,
        /// What it holds.
        found: String,
    },
    /// The text of a section, the value of a variable or a source of tools panicked.
    #[error("the prompt was not assembled: {0}")]
    Part(#[source] ListenerErrors),
    /// A listener of `system-prompt/assemble` failed.
    #[error("the prompt was not assembled: {0:#}")]
    Listener(#[from] ListenerError),
    /// A listener of `system-prompt/change` failed; what was registered is taken back.
    #[error("who heard of the change failed: {0}")]
    Refused(#[source] ListenerErrors),
    /// The context cannot register anything any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl PromptError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "DUPLICATE_PROMPT_PART",
            Self::Protected(_) => "PROTECTED_SECTION",
            Self::BadVariable(_) => "BAD_VARIABLE",
            Self::ProtectionEmpty => "PROTECTION_EMPTY",
            Self::ToolOrder(_) => "BAD_TOOL_ORDER",
            Self::Variable { .. } => "PROMPT_VARIABLE",
            Self::Malformed { .. } => "PROMPT_MALFORMED",
            Self::Part(_) => "PROMPT_PART_FAILED",
            Self::Listener(error) => error.code(),
            Self::Refused(_) => "CHANGE_REFUSED",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
