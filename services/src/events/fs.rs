//! `fs/*`: what tools are about to do to files, and what they saw.

use linn_bus::Event;
use serde::Serialize;

use crate::agent::Agent;
use crate::fs::{FsChange, FsTarget, FsWriteIntent};
use crate::ids::{CallId, FsVersion, ToolName};

/// A tool changed a file or folder, for front ends and for whoever keeps track of the workspace.
///
/// It comes while the call runs: before its result, and also when the call fails after the change was made.
///
/// - Mode: emit, to everybody.
/// - Scope: none; files belong to all agents.
/// - Emitted by: the tools that write, edit, patch, delete, rename and make folders, once for each change.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "fs/changed", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct FsChanged {
    /// The call that did it.
    pub call_id: CallId,
    /// The tool.
    pub tool: ToolName,
    /// Who called.
    pub agent: Option<Agent>,
    /// What changed.
    pub change: FsChange,
}

/// A file is about to be edited; whoever keeps track of what was read says which version the edit is for.
///
/// - Mode: waterfall; one listener decides. The default is an edit of whatever is there.
/// - Scope: none.
/// - Emitted by: the tools that edit.
/// - On listener error or panic: the file is not edited, and the call fails with the error.
/// - Cancelled by: the call.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "fs/edit-intent", mode = Waterfall, output = Option<FsVersion>, view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct FsEditIntent {
    /// The file.
    pub target: FsTarget,
    /// Who edits.
    pub actor: Option<Agent>,
}

/// A file is about to be written whole; whoever keeps track of what was read says what has to be there.
///
/// - Mode: waterfall; one listener decides. The default writes whatever is there.
/// - Scope: none.
/// - Emitted by: the tools that write.
/// - On listener error or panic: the file is not written, and the call fails with the error.
/// - Cancelled by: the call.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "fs/write-intent", mode = Waterfall, output = FsWriteIntent, view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct FsWriteIntentRequest {
    /// The file.
    pub target: FsTarget,
    /// Who writes.
    pub actor: Option<Agent>,
}

/// A file was read, written, found missing or deleted, and this is what it held.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the tools that read, write, edit, delete and rename, after they did.
/// - On listener error or panic: the call fails with the error, though the file was changed; who listens here must not
///   fail.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "fs/observed", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct FsObserved {
    /// The file.
    pub target: FsTarget,
    /// What it held; `None` if nothing was there.
    pub version: Option<FsVersion>,
    /// Who saw it.
    pub actor: Option<Agent>,
}
