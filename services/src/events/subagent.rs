//! `subagent/*`: who brings subagents, and what they do.

use std::sync::Arc;

use linn_bus::{Event, ScopeKey};
use serde::Serialize;

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
#[derive(Clone, Event, Serialize)]
#[event(name = "subagent/provider-added", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct SubagentProviderAdded {
    /// The provider.
    #[serde(serialize_with = "by_name")]
    pub provider: Arc<dyn SubagentProvider>,
}

/// A provider of subagents is gone.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `subagents` service, when the plugin of the provider goes.
/// - On listener error or panic: logged; the others hear it all the same.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "subagent/provider-removed", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
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
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "subagent/start", mode = Emit, subject = parent, view)]
#[serde(rename_all = "camelCase")]
pub struct SubagentStart {
    /// The scope of the agent that handed the work over.
    #[serde(skip)]
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
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "subagent/end", mode = Emit, subject = parent, view)]
#[serde(rename_all = "camelCase")]
pub struct SubagentEnd {
    /// The scope of the agent that handed the work over.
    #[serde(skip)]
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

/// A provider is shown by its name.
fn by_name<S: serde::Serializer>(provider: &Arc<dyn SubagentProvider>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(provider.name())
}
