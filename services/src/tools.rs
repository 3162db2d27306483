//! Tools: what a model may call, and the guarded way a call goes.

mod entries;
mod execution;
mod limit;
mod pipeline;
mod provider;
mod registry;
mod schema;
mod tool;

pub use execution::{
    AmendDecision, PostToolDecision, PreToolDecision, ToolExecution, ToolExecutionInput, ToolExecutionResult, ToolToken,
};
pub use limit::{RESULT_LIMIT_BYTES, limit_content, limit_text};
pub use provider::ToolsPlugin;
pub use registry::{ToolClaim, ToolGuard, ToolRestriction, Tools, ToolsError};
pub use tool::{Tool, ToolBody, ToolClass, ToolFailure, ToolOutput, ToolPreview};

#[cfg(test)]
pub(crate) mod tests;
