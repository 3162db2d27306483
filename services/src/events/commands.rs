//! `commands/*`: commands that a human calls by name.

use linn_bus::Event;
use serde::Serialize;

/// The commands that can be called changed.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `commands` service.
/// - On listener error or panic: what was registered is taken back; when something went, logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "commands/change", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandsChange {}

impl CommandsChange {
    pub(crate) const fn new() -> Self {
        Self {}
    }
}
