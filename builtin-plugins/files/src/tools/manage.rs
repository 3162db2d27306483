//! `delete`, `mkdir` and `rename`.

use linn_services::fs::{FsChangeKind, FsKind, FsTarget};
use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput, ToolPreview};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::{FileTool, Files, Problem, change, output};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Delete {
    /// Path of the file or empty folder, relative to the workspace.
    path: String,
}

impl FileTool for Delete {
    const NAME: &'static str = "delete";
    const DESCRIPTION: &'static str = "Deletes a file of the workspace, or a folder that is empty. Of a link it deletes the \
         link, and not what it leads to.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let Self { path } = &self;
        let deleted = async {
            let file = file_at(files, path).await;
            let kind = files.fs.delete(path).await?;
            let change = change(path, FsChangeKind::Deleted);
            files.changed(call, &change);
            if let Some(file) = file {
                files.observed(&file, None, call.agent())?;
            }
            Ok::<_, Problem>((kind, change))
        };
        let (kind, change) = deleted.await.map_err(|it| it.failure(Self::NAME, path))?;
        let what = if kind == FsKind::Folder { "directory " } else { "" };
        Ok(output(format!("deleted {what}{path}"), vec![change]))
    }

    async fn preview(self, _: &Files) -> Option<ToolPreview> {
        Some(ToolPreview { diff: None, paths: vec![self.path] })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct MakeDir {
    /// Path of the folder, relative to the workspace. Those above it are made too.
    path: String,
}

impl FileTool for MakeDir {
    const NAME: &'static str = "mkdir";
    const DESCRIPTION: &'static str = "Makes a folder of the workspace, with those above it.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let Self { path } = &self;
        let made = files.fs.create_folder(path).await;
        made.map_err(|it| Problem::from(it).failure(Self::NAME, path))?;
        let change = change(path, FsChangeKind::FolderCreated);
        files.changed(call, &change);
        Ok(output(format!("created directory {path}"), vec![change]))
    }

    async fn preview(self, _: &Files) -> Option<ToolPreview> {
        Some(ToolPreview { diff: None, paths: vec![self.path] })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Rename {
    /// Path of the file or folder, relative to the workspace.
    from: String,
    /// Path it shall have; nothing may be there. Missing folders are made.
    to: String,
}

impl FileTool for Rename {
    const NAME: &'static str = "rename";
    const DESCRIPTION: &'static str = "Moves a file or folder of the workspace to a path where nothing is.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let Self { from, to } = &self;
        let renamed = async {
            let file = file_at(files, from).await;
            files.fs.rename(from, to).await?;
            let change = change(to, FsChangeKind::Renamed { from: from.clone() });
            files.changed(call, &change);
            if let Some(file) = file {
                files.observed(&file, None, call.agent())?;
            }
            Ok::<_, Problem>(change)
        };
        let change = renamed.await.map_err(|it| it.failure(Self::NAME, from))?;
        Ok(output(format!("renamed {from} → {to}"), vec![change]))
    }

    async fn preview(self, _: &Files) -> Option<ToolPreview> {
        Some(ToolPreview { diff: None, paths: vec![self.from, self.to] })
    }
}

/// The file that goes with its path; what a link leads to does not, and of folders nothing was told.
async fn file_at(files: &Files, path: &str) -> Option<FsTarget> {
    let metadata = files.fs.metadata(path).await.ok().flatten()?;
    if metadata.kind != FsKind::File {
        return None;
    }
    files.fs.resolve(path).await.ok()
}
