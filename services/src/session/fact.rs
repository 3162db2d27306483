//! The kinds of facts a session log holds.
//!
//! One struct a kind; the fields are written in camel case.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ApprovalRequestId, CallId, ToolName};
use crate::model::{
    ContentBlock, EpochHeader, LlmCallConfig, Message, MessageSource, StreamChunk, TokenUsage, ToolSchema,
};

macro_rules! facts {
    ($( $(#[$docs:meta])* $name:ident = $kind:literal { $( $(#[$field_docs:meta])* $field:ident : $ty:ty, )* } )*) => {
        $(
            $(#[$docs])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub struct $name { $( $(#[$field_docs])* pub $field: $ty, )* }

            impl $name {
                /// Name of the kind.
                pub const KIND: &'static str = $kind;
            }
            impl From<$name> for Fact {
                fn from(fact: $name) -> Self {
                    Self::$name(fact)
                }
            }
        )*

        /// One fact of a session. Plugins may log kinds of their own, so readers need a default branch.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Fact {
            $( #[doc = concat!("`", $kind, "`")] $name($name), )*
            /// A kind that Linn does not know.
            Other {
                /// Name of the kind.
                kind: String,
                /// What was logged.
                data: Value,
            },
        }

        impl Fact {
            /// Names of all kinds that Linn knows.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Name of the kind.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$name(_) => $kind, )*
                    Self::Other { kind, .. } => kind,
                }
            }

            /// The name itself, if Linn knows the kind.
            pub(crate) fn known_kind(kind: &str) -> Option<&'static str> {
                match kind {
                    $( $kind => Some($kind), )*
                    _ => None,
                }
            }

            pub(crate) fn serialize_data<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$name(data) => data.serialize(serializer), )*
                    Self::Other { data, .. } => data.serialize(serializer),
                }
            }

            /// The fact of this kind with this data: of a kind that Linn knows, if the data is right for it.
            pub fn from_parts(kind: &str, data: Value) -> Result<Self, serde_json::Error> {
                Self::deserialize_data(kind, data)
            }

            pub(crate) fn deserialize_data<'de, D>(kind: &str, deserializer: D) -> Result<Self, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                match kind {
                    $( $kind => $name::deserialize(deserializer).map(Self::$name), )*
                    _ => Ok(Self::Other { kind: kind.to_owned(), data: Value::deserialize(deserializer)? }),
                }
            }
        }
    };
}

facts! {
    /// A turn begins.
    TurnStart = "turn/start" {
        /// Number of the turn, from 1.
        turn: u32,
        /// What began it.
        trigger: TurnTrigger,
    }
    /// A turn is over.
    TurnEnd = "turn/end" {
        /// Number of the turn.
        turn: u32,
        /// How it ended.
        reason: TurnEndReason,
    }
    /// A step begins: one request of the model, and the tools it calls.
    StepStart = "step/start" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step within the turn, from 1.
        step: u32,
    }
    /// A step is over.
    StepEnd = "step/end" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
    }
    /// A prompt was admitted. Also what a compaction puts in the place of what it replaces.
    UserMessage = "user/message" {
        /// The prompt, as it was admitted.
        content: Vec<ContentBlock>,
        /// Who sent it.
        source: MessageSource,
    }
    /// A prompt was refused.
    PromptBlocked = "prompt/blocked" {
        /// The prompt.
        content: Vec<ContentBlock>,
        /// Who sent it.
        source: MessageSource,
        /// Why it was refused.
        reason: String,
    }
    /// A plugin added to the conversation.
    ContextMessage = "context/message" {
        /// What was added.
        content: Vec<ContentBlock>,
        /// Who added it.
        source: MessageSource,
    }
    /// A message reached a turn that was running.
    SteeringMessage = "steering/message" {
        /// Number of the turn.
        turn: u32,
        /// The message.
        content: Vec<ContentBlock>,
        /// Who sent it.
        source: MessageSource,
    }
    /// A piece of an answer arrived.
    AssistantChunk = "assistant/chunk" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
        /// The piece.
        chunk: StreamChunk,
    }
    /// An answer is complete.
    AssistantMessage = "assistant/message" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
        /// The answer.
        content: Vec<ContentBlock>,
        /// What it cost, if the endpoint said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
    }
    /// The model called a tool.
    ToolCall = "tool/call" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
        /// The call.
        call_id: CallId,
        /// The tool.
        name: ToolName,
        /// The arguments as the model wrote them.
        arguments: String,
    }
    /// The arguments of a call were changed before it ran.
    ToolAmended = "tool/amended" {
        /// The call.
        call_id: CallId,
        /// The arguments it runs with.
        arguments: Value,
        /// The plugin that changed them last.
        by: String,
    }
    /// A call was answered.
    ToolResult = "tool/result" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
        /// The call.
        call_id: CallId,
        /// The answer, as the model sees it.
        content: Vec<ContentBlock>,
        /// Whether the call failed.
        is_error: bool,
        /// Which error it was, if it has a code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorInfo>,
        /// What front ends may show of it, and the model never sees.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    }
    /// What stands in front of the history from now on, in full.
    RequestHeader = "request/header" {
        /// The header.
        header: EpochHeader,
        /// Why it is logged in full.
        reason: HeaderReason,
    }
    /// What changed in the header since it was last logged.
    RequestHeaderDelta = "request/header-delta" {
        /// Change of the system text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<SystemDelta>,
        /// Change of the tools.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<ToolsDelta>,
        /// New model or sampling.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config: Option<LlmCallConfig>,
        /// New prefix; an empty one takes it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_prefix: Option<Vec<Message>>,
    }
    /// What one request shows beside, or in place of, the derived history.
    RequestOverlay = "request/overlay" {
        /// Number of the turn.
        turn: u32,
        /// Number of the step whose request it is.
        step: u32,
        /// Messages behind the history, or the history itself.
        #[serde(flatten)]
        overlay: Overlay,
        /// The plugin it comes from.
        by: String,
    }
    /// The list of things to do, whole; the last one counts.
    TodoWrite = "todo/write" {
        /// The list.
        todos: Vec<Todo>,
    }
    /// A call that code made on behalf of another call.
    ToolCodeDispatch = "tool/code-dispatch" {
        /// The call that runs the code.
        parent_call_id: CallId,
        /// The call that the code made.
        sub_call_id: CallId,
        /// The tool.
        name: ToolName,
        /// The arguments.
        arguments: Value,
        /// Whether it failed.
        is_error: bool,
        /// The answer in short.
        result_summary: String,
    }
    /// A human was asked whether a call may run.
    ApprovalAsked = "approval/asked" {
        /// The question.
        id: ApprovalRequestId,
        /// The tool.
        tool_name: ToolName,
        /// The call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        /// Why it was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// The question was decided.
    ApprovalDecided = "approval/decided" {
        /// The question.
        id: ApprovalRequestId,
        /// How.
        outcome: ApprovalOutcome,
    }
    /// Whether anybody can be asked; the last one counts.
    ApprovalPolicyChanged = "approval/policy" {
        /// The policy.
        policy: ApprovalPolicy,
    }
    /// A compaction began; none other may begin before its end.
    CompactStart = "compact/start" {
        /// Number of the turn.
        turn: u32,
    }
    /// What a compaction made of what it replaces.
    CompactSummary = "compact/summary" {
        /// The summary.
        summary: String,
        /// What it replaces, as places on the surface, both included.
        shadowed_range: NodeRange,
        /// What it replaces, as records.
        shadowed_seqs: Vec<u64>,
        /// How many tokens that was, by estimate.
        shadowed_token_count: u64,
        /// The model that wrote it.
        model: String,
        /// The limit it was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u32>,
    }
    /// A compaction is over.
    CompactEnd = "compact/end" {
        /// Number of the turn.
        turn: u32,
        /// Why it changed nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    /// A hook script was started.
    HookInvoked = "hook/invoked" {
        /// Number of the turn.
        turn: u32,
        /// The hook point.
        point: String,
        /// Which wire format the hook speaks.
        dialect: String,
        /// What it is limited to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matcher: Option<String>,
        /// The script.
        handler_id: String,
    }
    /// A hook script answered.
    HookResult = "hook/result" {
        /// Number of the turn.
        turn: u32,
        /// The hook point.
        point: String,
        /// The script.
        handler_id: String,
        /// What it decided.
        decision: String,
        /// Its exit code, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The end of what it wrote to standard error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr_summary: Option<String>,
        /// How long it ran.
        duration_ms: u64,
    }
    /// What commands may touch; the last one counts.
    BashSandboxMode = "bash/sandbox-mode" {
        /// The mode.
        mode: SandboxMode,
    }
    /// The conversation goes back; the log does not.
    SessionRewind = "session/rewind" {
        /// How many records the derived history still sees; what came after them is shadowed.
        to: u64,
        /// Why.
        cause: RewindCause,
    }
}

/// The surface kinds: what the model's history is derived from.
impl Fact {
    /// Whether records of this kind lie on the surface.
    pub fn is_on_surface(&self) -> bool {
        matches!(
            self,
            Self::UserMessage(_)
                | Self::ContextMessage(_)
                | Self::SteeringMessage(_)
                | Self::AssistantMessage(_)
                | Self::ToolResult(_)
        )
    }
}

/// What began a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TurnTrigger {
    /// A message.
    Message {
        /// Who sent the first message of the turn.
        source: MessageSource,
    },
    /// Context that was added while no turn was open.
    Injection {
        /// Who added it.
        source: MessageSource,
    },
    /// A kind that Linn does not know.
    #[serde(untagged)]
    Other(Value),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TurnEndReason {
    /// The model was done.
    Completed,
    /// It was cancelled.
    Aborted {
        /// Why, in the words of whoever did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It failed.
    Error {
        /// The step that failed; 0 for what came before the first.
        step: u32,
        /// In words.
        message: String,
        /// Stable code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// The agent was disposed.
    Disposed,
    /// The limit of an answer was reached.
    MaxTokens,
    /// Every prompt of the turn was refused.
    Rejected {
        /// Why the last one was.
        reason: String,
    },
    /// The process died meanwhile; only repair writes this.
    Interrupted,
    /// A kind that Linn does not know.
    #[serde(untagged)]
    Other(Value),
}

/// A stable name and code of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorInfo {
    /// Name of the kind of error.
    pub name: String,
    /// Stable code.
    pub code: String,
}

/// Why a header is logged in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderReason {
    /// The log had none.
    Initial,
    /// The loop is a new one.
    Resume,
    /// The change cannot be told as a delta.
    Fallback,
}

/// A change of the system text, in lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemDelta {
    /// How many lines stay at the beginning.
    pub keep_start: usize,
    /// How many lines stay at the end.
    pub keep_end: usize,
    /// The lines between.
    pub insert: Vec<String>,
}

/// A change of the tools offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsDelta {
    /// New tools, each in its place by name.
    pub added: Vec<ToolSchema>,
    /// Tools no longer offered.
    pub removed: Vec<ToolName>,
    /// Tools that changed.
    pub changed: Vec<ToolSchema>,
}

/// What one request shows differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Overlay {
    /// Messages behind the history.
    Messages(Vec<Message>),
    /// What stands in place of the history.
    Replacement(Vec<Message>),
}

/// A thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// More about it, if there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a thing to do is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}

/// How a question to a human was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalOutcome {
    /// The call may run, this once.
    AllowedOnce,
    /// It may not.
    Rejected,
    /// The call ended before there was an answer.
    Cancelled,
    /// Nobody could answer.
    Unavailable,
}

/// Whether anybody can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Yes.
    #[default]
    Ask,
    /// No: every question is rejected.
    Never,
}

/// What commands may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing.
    ReadOnly,
    /// The workspace.
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

/// Places on the surface, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRange {
    /// Seq of the record at the first place.
    pub start: u64,
    /// Seq of the record at the last place.
    pub end: u64,
}

/// Why a conversation goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RewindCause {
    /// The human starts anew in the same session.
    Reset,
    /// The human cleared the conversation.
    Clear,
    /// The human took back the last prompt.
    Undo,
}
