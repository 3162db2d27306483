//! `shell/*`: what commands say while they run.

use linn_bus::Event;
use serde::Serialize;

use crate::agent::Agent;
use crate::ids::CallId;
use crate::shell::ShellStream;

/// A command that a model runs has said something; for front ends that show it as it comes.
///
/// The pieces of one call and stream follow each other and make its text, without a limit; what the model sees in the end
/// is cut.
///
/// - Mode: emit, to everybody.
/// - Scope: the agent that calls.
/// - Emitted by: the tools that run commands, while one runs.
/// - On listener error or panic: logged. The command waits while its listeners run, so one that is slow takes a queue.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "shell/output", mode = Emit, subject = self.agent.as_ref().map(|it: &Agent| it.key()), view)]
#[serde(rename_all = "camelCase")]
pub struct ShellOutputChunk {
    /// Who runs the command.
    pub agent: Option<Agent>,
    /// The call that runs it.
    pub call_id: CallId,
    /// Which of its outputs.
    pub stream: ShellStream,
    /// The text: UTF-8 with U+FFFD for what was none, control characters as they came, known secrets taken out.
    pub text: String,
}
