//! `bulk_read`, `bulk_write` and `bulk_edit`.

use linn_services::fs::FsChange;
use linn_services::tools::{RESULT_LIMIT_BYTES, ToolExecution, ToolFailure, ToolOutput, ToolPreview};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::edit::EditFile;
use crate::tools::read::ReadFile;
use crate::tools::write::WriteFile;
use crate::tools::{FileTool, Files, output};

/// How many files one call may read.
const MAX_FILES: usize = 20;

/// Room for the headers of all files and the words of those that failed.
const HEADERS_BYTES: usize = 4 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BulkRead {
    /// Paths of the files, relative to the workspace; at most 20.
    paths: Vec<String>,
}

impl FileTool for BulkRead {
    const NAME: &'static str = "bulk_read";
    const DESCRIPTION: &'static str = "Reads several text files of the workspace at once, at most 20. They share the room of \
         one result, so the beginning is shown of those that are long.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        check_count(Self::NAME, self.paths.len(), MAX_FILES)?;
        let mut room = RESULT_LIMIT_BYTES - HEADERS_BYTES;
        let mut blocks = Vec::new();
        for (at, path) in self.paths.iter().enumerate() {
            // What a short file leaves over is for those behind it.
            let share = room / (self.paths.len() - at);
            let read = ReadFile { path: path.clone(), offset: None, limit: None, line_numbers: None };
            let text = match read.read(files, call, share).await {
                Ok(text) => text,
                Err(problem) => problem.failure(ReadFile::NAME, path).message,
            };
            room = room.saturating_sub(text.len());
            blocks.push(format!("### {path}\n{text}"));
        }
        Ok(blocks.join("\n\n").into())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BulkWrite {
    /// The files, written one after another.
    files: Vec<WriteFile>,
}

impl FileTool for BulkWrite {
    const NAME: &'static str = "bulk_write";
    const DESCRIPTION: &'static str = "Writes several files of the workspace whole, one after another, as write_file does. \
         One that fails does not keep the others from being written.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        check_count(Self::NAME, self.files.len(), usize::MAX)?;
        let mut done = Vec::new();
        for write in &self.files {
            done.push(match write.write(files, call).await {
                Ok((n_bytes, change)) => Ok((format!("wrote {n_bytes} bytes to {}", write.path), change)),
                Err(problem) => Err(problem.failure(WriteFile::NAME, &write.path)),
            });
        }
        Ok(told(done))
    }

    async fn preview(self, files: &Files) -> Option<ToolPreview> {
        let mut all = ToolPreview::default();
        for write in self.files {
            join(&mut all, write.preview(files).await);
        }
        Some(all)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BulkEdit {
    /// The files and what to replace in each, made one after another.
    edits: Vec<EditFile>,
}

impl FileTool for BulkEdit {
    const NAME: &'static str = "bulk_edit";
    const DESCRIPTION: &'static str = "Edits several files of the workspace, one after another, as edit does. One that fails \
         does not keep the others from being edited.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        check_count(Self::NAME, self.edits.len(), usize::MAX)?;
        let mut done = Vec::new();
        for edit in &self.edits {
            done.push(match edit.edit(files, call).await {
                Ok(change) => Ok((format!("applied {} edit(s) to {}", edit.edits.len(), edit.path), change)),
                Err(problem) => Err(problem.failure(EditFile::NAME, &edit.path)),
            });
        }
        Ok(told(done))
    }

    async fn preview(self, files: &Files) -> Option<ToolPreview> {
        let mut all = ToolPreview::default();
        for edit in self.edits {
            join(&mut all, edit.preview(files).await);
        }
        Some(all)
    }
}

fn check_count(tool: &str, n: usize, limit: usize) -> Result<(), ToolFailure> {
    let why = match n {
        0 => "it names no file".to_owned(),
        n if n > limit => format!("it names {n} files, and may name {limit} at most; make several calls"),
        _ => return Ok(()),
    };
    Err(ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", format!("{tool} failed: {why}")))
}

/// One line for each file; a failure if nothing was done.
fn told(done: Vec<Result<(String, FsChange), ToolFailure>>) -> ToolOutput {
    let mut lines = Vec::new();
    let mut changes = Vec::new();
    for result in done {
        match result {
            Ok((line, change)) => {
                lines.push(line);
                changes.push(change);
            }
            Err(failure) => lines.push(failure.message),
        }
    }
    let is_error = changes.is_empty();
    let output = output(lines.join("\n"), changes);
    if is_error { output.failed() } else { output }
}

fn join(all: &mut ToolPreview, one: Option<ToolPreview>) {
    let Some(one) = one else { return };
    if let Some(diff) = one.diff {
        all.diff.get_or_insert_default().push_str(&diff);
    }
    all.paths.extend(one.paths);
}
