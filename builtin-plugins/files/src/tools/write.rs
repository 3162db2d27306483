//! `write_file`.

use linn_services::events::FsWriteIntentRequest;
use linn_services::fs::{FsChange, FsChangeKind, FsError, FsWriteIntent};
use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput, ToolPreview};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::diff::unified;
use crate::text::{Style, TextFile};
use crate::tools::{FILE_LIMIT_BYTES, FileTool, Files, Problem, output};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct WriteFile {
    /// Path of the file, relative to the workspace. Missing folders are made.
    pub(crate) path: String,
    /// All that the file shall hold.
    pub(crate) content: String,
}

/// What is written, and what that changes.
struct Planned {
    content: String,
    kind: FsChangeKind,
    diff: Option<String>,
}

impl FileTool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Writes a file of the workspace whole. A file that is replaced has to be read before, \
         and keeps its mode, its byte order mark, and CR LF line ends if all of its lines have them. To change a part of a \
         file, edit is better.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let (n_bytes, change) = self.write(files, call).await.map_err(|it| it.failure(Self::NAME, &self.path))?;
        Ok(output(format!("wrote {n_bytes} bytes to {}", self.path), vec![change]))
    }

    async fn preview(self, files: &Files) -> Option<ToolPreview> {
        let diff = self.plan(files).await.ok().and_then(|it| it.diff);
        Some(ToolPreview { diff, paths: vec![self.path] })
    }
}

impl WriteFile {
    pub(crate) async fn write(&self, files: &Files, call: &ToolExecution) -> Result<(usize, FsChange), Problem> {
        let target = files.fs.resolve(&self.path).await?;
        let question = FsWriteIntentRequest { target: target.clone(), actor: call.agent().cloned() };
        let intent = files.ctx.waterfall(&question, async || FsWriteIntent::Unconditional).await;
        let intent = intent.map_err(|error| FsError::refused(&self.path, &error))?;
        let Planned { content, kind, diff } = self.plan(files).await?;
        let is_for_new = intent == FsWriteIntent::CreateIfAbsent;
        let version = match files.fs.write(&self.path, content.as_bytes(), intent).await {
            Err(FsError::Exists(_)) if is_for_new => return Err(Problem::ExistsUnseen),
            version => version?,
        };
        let change = FsChange { path: self.path.clone(), kind, diff };
        files.changed(call, &change);
        files.observed(&target, Some(&version), call.agent())?;
        Ok((content.len(), change))
    }

    async fn plan(&self, files: &Files) -> Result<Planned, Problem> {
        let old = match files.fs.read(&self.path, FILE_LIMIT_BYTES).await {
            Ok(file) => Some(TextFile::decode(&file.content).ok()),
            // It is replaced unseen; whether it may be was decided by others.
            Err(FsError::TooLarge { .. }) => Some(None),
            Err(FsError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(old) = old else {
            let diff = unified(&self.path, "", &self.content);
            return Ok(Planned { content: self.content.clone(), kind: FsChangeKind::Created, diff });
        };
        let style = old.as_ref().map_or(Style::default(), |it| it.style);
        let content = style.dress(&self.content);
        let diff = old.and_then(|old| unified(&self.path, &old.text, crate::text::without_mark(&content).1));
        Ok(Planned { content, kind: FsChangeKind::Modified, diff })
    }
}
