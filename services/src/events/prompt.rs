//! `system-prompt/*`: how the system prompt comes about.

use linn_bus::Event;
use serde::Serialize;

use crate::prompt::{AssembleContext, PromptAssembly};

/// The system prompt is put together and may be changed.
///
/// - Mode: waterfall; the default is what was registered.
/// - Scope: whose prompt it is.
/// - Emitted by: the `system-prompt` service, once an assembly. What is protected is put back afterwards.
/// - On listener error or panic: there is no prompt, and the turn ends as an error.
/// - Cancelled by: dropping the assembly.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "system-prompt/assemble", mode = Waterfall, output = PromptAssembly, subject = self.context.scope, view, output_view)]
#[serde(rename_all = "camelCase")]
pub struct SystemPromptAssemble {
    /// What was registered.
    pub assembly: PromptAssembly,
    /// Whose prompt it is.
    pub context: AssembleContext,
}

/// Something that prompts are made of came or went, for all or for one agent.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `system-prompt` service.
/// - On listener error or panic: what was registered is taken back; when something went, logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "system-prompt/change", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SystemPromptChange {}

impl SystemPromptChange {
    pub(crate) const fn new() -> Self {
        Self {}
    }
}
