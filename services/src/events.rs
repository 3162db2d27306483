//! The events of the harness, one type each.

mod agent;
mod approval;
mod closing;
mod commands;
mod compaction;
mod fs;
mod interaction;
mod llm;
mod loader;
mod oauth;
mod plugins;
mod prompt;
mod providers;
mod session;
mod settings;
mod shell;
mod skill;
mod stuck;
mod subagent;
mod tools;
mod workflow;

pub use agent::{
    AgentCreated, AgentDisposed, AgentError, AgentOverlay, AgentPreStep, AgentPromptSubmit, AgentQueued, AgentRequest,
    AgentSessionPrefix, AgentSessionStart, AgentStatusChanged, AgentStepResult, AgentTurnContinuation, AgentTurnStop,
};
pub use approval::{ApprovalChanged, ApprovalRequest};
pub use closing::{AgentReflecting, AgentSummaryRequired};
pub use commands::CommandsChange;
pub use compaction::{CompactionDigest, CompactionEnd, CompactionFailed, CompactionStart};
pub use fs::{FsChanged, FsEditIntent, FsObserved, FsWriteIntentRequest};
pub use interaction::{InteractionAsk, InteractionSudo};
pub use llm::{LlmEffortReplaced, LlmRetry, LlmStream};
pub use loader::{
    Exit, HmrChange, HmrReload, LoaderConfigUpdate, LoaderEntryInit, LoaderPartialDispose, LoaderPatchContext,
    PluginEntry,
};
pub use oauth::OAuthPrompt;
pub use plugins::{PluginNotice, PluginNoticeLevel, PluginStatus, PluginsChange};
pub use prompt::{SystemPromptAssemble, SystemPromptChange};
pub use providers::{ProviderModels, ProvidersChanged};
pub use session::{SessionCreated, SessionDisposed, SessionEvent, SessionFlush, SessionSaved, SessionUnsaved};
pub use settings::SettingsChanged;
pub use shell::ShellOutputChunk;
pub use skill::{SkillProviderAdded, SkillProviderRemoved};
pub use stuck::AgentStuck;
pub use subagent::{SubagentEnd, SubagentProviderAdded, SubagentProviderRemoved, SubagentStart};
pub use tools::{ToolsAmend, ToolsChange, ToolsExecute, ToolsPostExecute, ToolsPreExecute, ToolsResult};
pub use workflow::{WorkflowAgentEnd, WorkflowAgentStart, WorkflowEnd, WorkflowLog, WorkflowPhase, WorkflowStart};
