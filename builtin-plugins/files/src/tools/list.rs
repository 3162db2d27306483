//! `list_dir`.

use linn_services::fs::FsKind;
use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::{FileTool, Files, Problem};

/// How many names are shown.
const MAX_ENTRIES: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListDir {
    /// Path of the folder, relative to the workspace; `.` for the workspace itself.
    path: String,
}

impl FileTool for ListDir {
    const NAME: &'static str = "list_dir";
    const DESCRIPTION: &'static str = "Lists what is in a folder of the workspace, by name; folders end with `/`.";

    async fn run(self, files: &Files, _: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let entries = files.fs.list(&self.path).await;
        let entries = entries.map_err(|it| Problem::from(it).failure(Self::NAME, &self.path))?;
        let shown = entries.iter().take(MAX_ENTRIES).map(|it| {
            let mark = if it.kind == FsKind::Folder { "/" } else { "" };
            format!("{}{mark}", it.name)
        });
        let mut lines: Vec<String> = shown.collect();
        if entries.len() > MAX_ENTRIES {
            let n = entries.len();
            lines.push(format!("...[{MAX_ENTRIES} of {n} entries shown; glob finds others by their names]"));
        }
        Ok(lines.join("\n").into())
    }
}
