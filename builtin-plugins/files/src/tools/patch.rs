//! `patch`.

use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput, ToolPreview};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::patching::apply;
use crate::tools::edit::{modify, preview};
use crate::tools::{FileTool, Files, Problem, output};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PatchFile {
    /// Path of the file, relative to the workspace.
    path: String,
    /// A unified diff of this one file.
    patch: String,
}

impl FileTool for PatchFile {
    const NAME: &'static str = "patch";
    const DESCRIPTION: &'static str = "Applies a unified diff to a text file that was read before. The lines around each \
         change have to be those of the file; all hunks are applied, or none.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let Self { path, patch } = &self;
        let modified = modify(files, path, call, |text| Ok::<_, Problem>(apply(path, text, patch)?)).await;
        let modified = modified.map_err(|it| it.failure(Self::NAME, path))?;
        let text = format!("applied patch to {path} ({} -> {} bytes)", modified.old_bytes, modified.new_bytes);
        Ok(output(text, vec![modified.change]))
    }

    async fn preview(self, files: &Files) -> Option<ToolPreview> {
        let Self { path, patch } = &self;
        Some(preview(files, path, |text| Ok::<_, Problem>(apply(path, text, patch)?)).await)
    }
}
