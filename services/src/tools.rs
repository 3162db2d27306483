//! Tools: what a model may call, and the guarded way a call goes.

mod execution;
mod registry;
mod tool;

pub use execution::{
    AmendDecision, PostToolDecision, PreToolDecision, ToolExecution, ToolExecutionInput, ToolExecutionResult, ToolToken,
};
pub use registry::{ToolGuard, ToolRestriction, Tools, ToolsError};
pub use tool::{Tool, ToolBody, ToolClass, ToolFailure, ToolOutput, ToolPreview};
