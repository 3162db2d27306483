//! Sessions: append-only logs of facts, and what derives from them.

mod error;
mod fact;
mod fork;
mod header;
mod headers;
pub mod invariants;
mod log;
mod lossless;
mod record;
mod repair;
mod store;
mod surface;

pub use error::{AppendError, SeedError};
pub use fact::{
    ApprovalAsked, ApprovalDecided, ApprovalOutcome, ApprovalPolicy, ApprovalPolicyChanged, AssistantChunk,
    AssistantMessage, BashSandboxMode, CompactEnd, CompactStart, CompactSummary, ContextMessage, ErrorInfo, Fact,
    HeaderReason, HookInvoked, HookResult, NodeRange, Overlay, PromptBlocked, RequestHeader, RequestHeaderDelta,
    RequestOverlay, RewindCause, SandboxMode, SessionRewind, SteeringMessage, StepEnd, StepStart, SystemDelta, Todo,
    TodoStatus, TodoWrite, ToolAmended, ToolCall, ToolCodeDispatch, ToolResult, ToolsDelta, TurnEnd, TurnEndReason,
    TurnStart, TurnTrigger, UserMessage,
};
pub use fork::ForkError;
pub use header::{SESSION_VERSION, SessionHeader};
pub(crate) use headers::HeaderFold;
pub use headers::header_change;
pub use log::{Session, Turns};
pub use record::{Record, RecordSurface, SurfaceOp};
pub use repair::repair;
pub use store::{CreateSession, EnteredSession, PreparedSession, SessionError, Sessions, SessionsPlugin};
