//! Tools: what a model may call, and the guarded way a call goes.

mod entries;
mod execution;
<<<<<<< HEAD
mod pipeline;
mod provider;
=======
mod limit;
>>>>>>> 9400418 (services: files can be found and searched, changes are told, results have one limit)
mod registry;
mod schema;
mod tool;

pub use execution::{
    AmendDecision, PostToolDecision, PreToolDecision, ToolExecution, ToolExecutionInput, ToolExecutionResult, ToolToken,
};
<<<<<<< HEAD
pub use provider::ToolsPlugin;
=======
pub use limit::{RESULT_LIMIT_BYTES, limit_content, limit_text};
>>>>>>> 9400418 (services: files can be found and searched, changes are told, results have one limit)
pub use registry::{ToolGuard, ToolRestriction, Tools, ToolsError};
pub use tool::{Tool, ToolBody, ToolClass, ToolFailure, ToolOutput, ToolPreview};

#[cfg(test)]
mod tests;
