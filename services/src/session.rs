//! Sessions: append-only logs of facts, and what derives from them.

mod fact;
mod fork;
mod header;
mod headers;
mod log;
mod record;
mod store;
mod surface;

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
pub use headers::header_change;
pub use log::{AppendError, SeedError, Session, Turns};
pub use record::{Record, RecordSurface, SurfaceOp};
pub use store::{CreateSession, EnteredSession, PreparedSession, SessionError, Sessions, SessionsPlugin};
