//! `subagent/*`: who brings subagents, and what they do.

use std::sync::Arc;

use linn_bus::{Event, ScopeKey};

use crate::ids::SubagentRunId;
use crate::model::ContentBlock;
use crate::subagents::{SubagentProvider, SubagentStopReason};

/// A provider of subagents can be asked.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `subagents` service, before the registration returns.
/// - On listener error or panic: the provider is taken back, and its registration fails.
/// - Cancelled by: nothing.
#[derive(Clone, Event)]
#[event(name = "subagent/provider-added", mode = Emit)]
pub struct SubagentProviderAdded {
    /// The provider.
    pub provider: Arc<dyn SubagentProvider>,
}

/// A provider of subagents is gone.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `subagents` service, when the plugin of the provider goes.
/// - On listener error or panic: logged; the others hear it all the same.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event)]
#[event(name = "subagent/provider-removed", mode = Emit)]
pub struct SubagentProviderRemoved {
    /// Its name.
    pub name: String,
}

/// A subagent began to work.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent that handed the work over.
/// - Emitted by: the `subagents` service, once a run, before whoever asked for it can wait for its end.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event)]
#[event(name = "subagent/start", mode = Emit, subject = parent)]
pub struct SubagentStart {
    /// The scope of the agent that handed the work over.
    pub parent: ScopeKey,
    /// Who runs it.
    pub provider: String,
    /// The run.
    pub id: SubagentRunId,
}

/// A subagent is done, however it ended.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent that handed the work over.
/// - Emitted by: the `subagents` service, once a run.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event)]
#[event(name = "subagent/end", mode = Emit, subject = parent)]
pub struct SubagentEnd {
    /// The scope of the agent that handed the work over.
    pub parent: ScopeKey,
    /// Who ran it.
    pub provider: String,
    /// The run.
    pub id: SubagentRunId,
    /// How it ended.
    pub stop_reason: SubagentStopReason,
    /// Its last answer; none if the run broke down.
    pub last_assistant_message: Option<Vec<ContentBlock>>,
}
