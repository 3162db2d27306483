//! `glob`.

use linn_services::fs::FsFind;
use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::{FileTool, Files, Problem};

/// How many paths are shown.
const MAX_RESULTS: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Glob {
    /// A pattern for the paths of files: `*` and `?` within a name, `**` across folders, `{a,b}` for either. One without
    /// `/` is for names in any folder.
    pattern: String,
}

impl FileTool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Finds files of the workspace by their paths. Files that .gitignore or .ignore name \
         are left out.";

    async fn run(self, files: &Files, _: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let query = FsFind { pattern: self.pattern.clone(), limit: MAX_RESULTS };
        let found = files.fs.find(query).await;
        let found = found.map_err(|it| Problem::from(it).failure(Self::NAME, &self.pattern))?;
        let mut lines = found.paths;
        if lines.is_empty() {
            return Ok("no file fits".into());
        }
        if found.is_cut {
            lines.push(format!("...[{MAX_RESULTS} result cap reached]"));
        }
        Ok(lines.join("\n").into())
    }
}
