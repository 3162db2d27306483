//! `edit`, and what it shares with other tools that change a part of a file.

use linn_services::events::FsEditIntent;
use linn_services::fs::{FsChange, FsChangeKind, FsError, FsFile, FsWriteIntent};
use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput, ToolPreview};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::diff::unified;
use crate::edits::{Edit, apply};
use crate::text::TextFile;
use crate::tools::{FILE_LIMIT_BYTES, FileTool, Files, Problem, output};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EditFile {
    /// Path of the file, relative to the workspace.
    pub(crate) path: String,
    /// Replacements, made one after another; if one cannot be made, none is.
    pub(crate) edits: Vec<Replacement>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Replacement {
    /// Text that the file holds, in one place alone unless replace_all is set.
    search: String,
    /// Text that takes its place.
    replace: String,
    /// Replace it in every place.
    #[serde(default)]
    replace_all: Option<bool>,
    /// Take any white space for any other when looking for the text.
    #[serde(default)]
    normalize_whitespace: Option<bool>,
}

impl FileTool for EditFile {
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = "Replaces parts of a text file that was read before. Each search text has to stand in \
         the file as it is given, in one place alone. All edits are made, or none.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let change = self.edit(files, call).await.map_err(|it| it.failure(Self::NAME, &self.path))?;
        Ok(output(format!("applied {} edit(s)", self.edits.len()), vec![change]))
    }

    async fn preview(self, files: &Files) -> Option<ToolPreview> {
        Some(preview(files, &self.path, |text| self.apply(text)).await)
    }
}

impl EditFile {
    pub(crate) async fn edit(&self, files: &Files, call: &ToolExecution) -> Result<FsChange, Problem> {
        modify(files, &self.path, call, |text| self.apply(text)).await.map(|it| it.change)
    }

    fn apply(&self, text: &str) -> Result<String, Problem> {
        let edits: Vec<Edit<'_>> = self.edits.iter().map(Replacement::edit).collect();
        Ok(apply(text, &edits)?)
    }
}

impl Replacement {
    fn edit(&self) -> Edit<'_> {
        Edit {
            search: &self.search,
            replace: &self.replace,
            is_for_all: self.replace_all.unwrap_or(false),
            ignores_whitespace: self.normalize_whitespace.unwrap_or(false),
        }
    }
}

/// A file that was changed in part.
pub(crate) struct Modified {
    pub(crate) change: FsChange,
    pub(crate) old_bytes: usize,
    pub(crate) new_bytes: usize,
}

/// Changes the text of a file, if whoever keeps track of what was read lets it. What somebody else wrote meanwhile stays.
pub(crate) async fn modify(
    files: &Files,
    path: &str,
    call: &ToolExecution,
    work: impl FnOnce(&str) -> Result<String, Problem> + Send,
) -> Result<Modified, Problem> {
    let FsFile { target, content: old_content, version } = files.fs.read(path, FILE_LIMIT_BYTES).await?;
    let question = FsEditIntent { target: target.clone(), actor: call.agent().cloned() };
    let wanted = files.ctx.waterfall(&question, async || None).await;
    let wanted = wanted.map_err(|error| FsError::refused(path, &error))?;
    if wanted.is_some_and(|it| it != version) {
        return Err(FsError::Stale(path.to_owned()).into());
    }
    let old = TextFile::decode(&old_content)?;
    let text = work(&old.text)?;
    let diff = unified(path, &old.text, &text);
    let content = old.style.dress(&text);
    let version = files.fs.write(path, content.as_bytes(), FsWriteIntent::ReplaceIfVersion { version }).await?;
    let change = FsChange { path: path.to_owned(), kind: FsChangeKind::Modified, diff };
    files.changed(call, &change);
    files.observed(&target, Some(&version), call.agent())?;
    Ok(Modified { change, old_bytes: old_content.len(), new_bytes: content.len() })
}

/// What a change of the text of a file would look like; without a diff if it could not be made.
pub(crate) async fn preview(
    files: &Files,
    path: &str,
    work: impl FnOnce(&str) -> Result<String, Problem> + Send,
) -> ToolPreview {
    let diff = async {
        let file = files.fs.read(path, FILE_LIMIT_BYTES).await?;
        let old = TextFile::decode(&file.content)?;
        Ok::<_, Problem>(unified(path, &old.text, &work(&old.text)?))
    };
    // Why it cannot be made is told by the call itself.
    ToolPreview { diff: diff.await.ok().flatten(), paths: vec![path.to_owned()] }
}
