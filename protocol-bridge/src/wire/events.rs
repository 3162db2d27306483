//! Events for a front end: one struct each. What their fields mean is in docs/protocol.md.

mod admin;
mod approval;
mod providers;
mod sessions;
mod startup;
mod status;
mod tools;
mod turn;

pub(crate) use admin::{
    AgentList, Checkpoints, GoalState, MarketplaceError, MarketplaceState, MemoryList, MemorySaved, PluginCommands,
    PluginDisabled, PluginEnabled, PluginError, PluginInstalled, PluginRemoved, PluginStatusEvent, PluginsList,
    SandboxError, SandboxStatus, Skills, TrustApplied, TrustPrompt,
};
pub(crate) use approval::{ApprovalChanged, ApprovalExpired, ApprovalRequest, AskRequest, SudoRequest};
pub(crate) use providers::{
    Authed, ConfigChanged, Models, ModelsRefreshed, OauthPrompt, ProviderChanged, ProviderModelsPreview,
    ProviderPresets, SearchKeySet, UmansConc, UsageReport, VisionConfig,
};
pub(crate) use sessions::{
    History, Reset, SessionChangeFailed, SessionChanged, SessionDeleted, SessionList, SessionPinned, SessionRenamed,
};
pub(crate) use startup::{ProtocolHello, Ready, SessionRecovered};
pub(crate) use status::{ContextReport, RuntimeReport, StatsReport};
pub(crate) use tools::{BashExecution, FileChange, ToolCall, ToolCallArgs, ToolCallName, ToolCallStart, ToolResult};
pub(crate) use turn::{
    Aborted, Compacted, Compacting, CompactingLimits, CostUpdate, Delta, Digested, Done, Error, FinalMetrics,
    HttpRetry, Info, LiveMetrics, Reflecting, RunCancelled, Steer, StuckNudge, SummaryRequired, Thinking, WorkState,
};

/// Declares events. `plain` ones hold no secret and no id of a run or session, so nobody has to look at their fields.
macro_rules! wire_events {
    ($(
        $(#[$docs:meta])*
        $name:ident $(<$lifetime:lifetime>)? = $type:literal, $check:ident {
            $( $(#[$field_docs:meta])* $field:ident : $ty:ty, )*
        }
    )*) => {$(
        $(#[$docs])*
        #[derive(serde::Serialize)]
        pub(crate) struct $name $(<$lifetime>)? { $( $(#[$field_docs])* pub(crate) $field: $ty, )* }

        impl $(<$lifetime>)? $crate::body::WireEvent for $name $(<$lifetime>)? {
            const TYPE: &'static str = $type;
            const IS_PLAIN: bool = wire_events!(@ $check);
            wire_events!(@merge $name);
        }
    )*};
    (@ plain) => { true };
    (@ checked) => { false };
    (@merge Delta) => {
        fn merge(&self) -> Option<$crate::body::Merge> {
            Some($crate::body::Merge::Delta)
        }
    };
    (@merge Thinking) => {
        fn merge(&self) -> Option<$crate::body::Merge> {
            Some($crate::body::Merge::Thinking)
        }
    };
    (@merge ToolCallArgs) => {
        fn merge(&self) -> Option<$crate::body::Merge> {
            Some($crate::body::Merge::Arguments(self.index))
        }
    };
    (@merge $name:ident) => {};
}
use wire_events;
