//! What keeps memories in place of the harness itself.

use linn_bus::{ServiceError, service};
use serde_json::{Map, Value};

use crate::agent::Agent;

/// A plugin that keeps memories in place of the harness, if one does.
///
/// It is asked for by name of action. It is asked again under another name where it does not know the first; both
/// vocabularies that plugins are written for are spoken.
#[service("memory-provider")]
pub trait MemoryProvider {
    /// The plugin that keeps memories: the first of those that are enabled, by name.
    fn active(&self) -> Result<Option<String>, MemoryProviderError>;

    /// What it adds to the system prompt, as it was last asked; empty if there is none.
    fn injection(&self) -> Result<String, MemoryProviderError>;

    /// Asks again for what it adds to the system prompt.
    async fn refresh(&self) -> Result<(), MemoryProviderError>;

    /// Keeps a memory.
    async fn save(&self, memory: NewMemory) -> Result<MemoryAnswer, MemoryProviderError>;

    /// The memories, as the plugin gives them.
    async fn list(&self) -> Result<MemoryAnswer, MemoryProviderError>;

    /// Forgets a memory.
    async fn forget(&self, id: &str, scope: Option<&str>) -> Result<MemoryAnswer, MemoryProviderError>;

    /// Looks for memories.
    async fn search(&self, query: &str) -> Result<MemoryAnswer, MemoryProviderError>;

    /// Hands over a call of the model's tool `memory`, with all its arguments, `action` among them. After one that writes,
    /// what goes to the system prompt is asked for again.
    async fn call(
        &self,
        arguments: Map<String, Value>,
        agent: Option<&Agent>,
    ) -> Result<MemoryAnswer, MemoryProviderError>;
}

/// A memory to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemory {
    /// Name.
    pub name: String,
    /// What to remember.
    pub content: String,
    /// Kind, such as `note`.
    pub kind: String,
    /// In a line.
    pub description: String,
    /// Where it holds.
    pub scope: Option<String>,
}

/// What the plugin answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryAnswer {
    /// For whoever asked.
    pub output: String,
    /// The memory it is about.
    pub id: String,
    /// Memories, as the plugin gives them.
    pub entries: Vec<Value>,
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryProviderError {
    /// No enabled plugin keeps memories.
    #[error("no enabled plugin keeps memories")]
    None,
    /// The plugin refused or its script failed; in words for the user or the model.
    #[error("{0}")]
    Failed(String),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl MemoryProviderError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::None => "NO_MEMORY_PROVIDER",
            Self::Failed(_) => "MEMORY_PROVIDER_FAILED",
            Self::Service(error) => error.code(),
        }
    }
}
