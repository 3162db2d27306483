//! `commands/*`: commands that a human calls by name.

use linn_bus::Event;

/// The commands that can be called changed.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `commands` service.
/// - On listener error or panic: what was registered is taken back; when something went, logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event)]
#[event(name = "commands/change", mode = Emit)]
#[non_exhaustive]
pub struct CommandsChange {}

impl CommandsChange {
    pub(crate) const fn new() -> Self {
        Self {}
    }
}
