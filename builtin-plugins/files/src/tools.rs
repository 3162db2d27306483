//! The model's tools for files.

mod bulk;
mod edit;
mod find;
mod grep;
mod list;
mod manage;
mod patch;
mod problem;
mod read;
mod write;

use std::sync::Arc;

use linn_bus::{BoxFuture, Context, Svc};
use linn_services::agent::Agent;
use linn_services::events::{FsChanged, FsObserved};
use linn_services::fs::{Fs, FsChange, FsChangeKind, FsError, FsFile, FsTarget, FsToolMeta};
use linn_services::ids::FsVersion;
use linn_services::tools::{Tool, ToolBody, ToolExecution, ToolFailure, ToolOutput, ToolPreview};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub(crate) use problem::Problem;

/// How many bytes of a file tools work on.
pub(crate) const FILE_LIMIT_BYTES: u64 = 5 * 1024 * 1024;

/// All of them.
pub(crate) fn all(files: &Arc<Files>) -> Vec<Tool> {
    vec![
        looks::<read::ReadFile>(files),
        looks::<list::ListDir>(files),
        looks::<grep::Grep>(files),
        looks::<find::Glob>(files),
        looks::<bulk::BulkRead>(files),
        changes::<edit::EditFile>(files),
        changes::<write::WriteFile>(files),
        changes::<patch::PatchFile>(files),
        changes::<manage::Delete>(files),
        changes::<manage::MakeDir>(files),
        changes::<manage::Rename>(files),
        changes::<bulk::BulkWrite>(files),
        changes::<bulk::BulkEdit>(files),
    ]
}

/// The arguments of a tool, and what it does with them.
pub(crate) trait FileTool: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    fn run(self, files: &Files, call: &ToolExecution) -> impl Future<Output = Result<ToolOutput, ToolFailure>> + Send;

    /// What it would change.
    fn preview(self, files: &Files) -> impl Future<Output = Option<ToolPreview>> + Send {
        let _ = files;
        std::future::ready(None)
    }
}

fn looks<T: FileTool>(files: &Arc<Files>) -> Tool {
    changes::<T>(files).read_only()
}

fn changes<T: FileTool>(files: &Arc<Files>) -> Tool {
    let in_body = files.clone();
    let tool = Tool::new(T::NAME, T::DESCRIPTION, move |arguments: T, call| {
        let files = in_body.clone();
        async move { arguments.run(&files, &call).await }
    });
    let body = Previewed::<T> { body: tool.body().clone(), files: files.clone(), arguments: std::marker::PhantomData };
    tool.with_body(Arc::new(body))
}

/// A body that can say what it would do.
struct Previewed<T> {
    body: Arc<dyn ToolBody>,
    files: Arc<Files>,
    arguments: std::marker::PhantomData<fn(T)>,
}

impl<T: FileTool> ToolBody for Previewed<T> {
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        self.body.execute(call)
    }

    fn preview<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Option<ToolPreview>> {
        // Arguments that do not fit are refused before anybody is asked about them.
        let Ok(arguments) = T::deserialize(&**call.arguments()) else { return Box::pin(std::future::ready(None)) };
        Box::pin(arguments.preview(&self.files))
    }
}

/// What the tools work with.
pub(crate) struct Files {
    pub(crate) ctx: Context,
    pub(crate) fs: Svc<dyn Fs>,
}

impl Files {
    /// Reads a file for an actor, who then has seen it, or has seen that it is not there.
    pub(crate) async fn read(&self, path: &str, actor: Option<&Agent>) -> Result<FsFile, FsError> {
        match self.fs.read(path, FILE_LIMIT_BYTES).await {
            Ok(file) => {
                self.observed(&file.target, Some(&file.version), actor)?;
                Ok(file)
            }
            Err(error @ FsError::NotFound(_)) => {
                self.observed(&self.fs.resolve(path).await?, None, actor)?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Tells what a file holds, or that it is gone.
    pub(crate) fn observed(
        &self,
        target: &FsTarget,
        version: Option<&FsVersion>,
        actor: Option<&Agent>,
    ) -> Result<(), FsError> {
        let observed = FsObserved { target: target.clone(), version: version.cloned(), actor: actor.cloned() };
        Ok(self.ctx.try_emit(&observed)?)
    }

    /// Tells what a call changed.
    pub(crate) fn changed(&self, call: &ToolExecution, change: &FsChange) {
        self.ctx.emit(&FsChanged {
            call_id: call.call_id().clone(),
            tool: call.name().clone(),
            agent: call.agent().cloned(),
            change: change.clone(),
        });
    }
}

/// A change without a text.
pub(crate) fn change(path: &str, kind: FsChangeKind) -> FsChange {
    FsChange { path: path.to_owned(), kind, diff: None }
}

/// A result with what changed beside it.
pub(crate) fn output(text: String, changes: Vec<FsChange>) -> ToolOutput {
    let diffs: Vec<&str> = changes.iter().filter_map(|it| it.diff.as_deref()).collect();
    let diff = (!diffs.is_empty()).then(|| diffs.concat());
    let meta = FsToolMeta { diff, changes };
    ToolOutput::from(text).with_meta(serde_json::to_value(meta).unwrap_or_default())
}
