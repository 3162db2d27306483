//! Tools whose work a script does.

use std::sync::Arc;

use linn_bus::BoxFuture;
use linn_services::model::ContentBlock;
use linn_services::tools::{ToolBody, ToolExecution, ToolFailure, ToolOutput};

use crate::active::Active;
use crate::exchange::{Failure, Question};
use crate::fleet::session_text;
use crate::hooks::Output;
use crate::manifest::ToolEntry;
use crate::tell::tell;

/// A tool whose work a script does.
pub(crate) struct ScriptTool {
    pub(crate) active: Arc<Active>,
    pub(crate) entry: ToolEntry,
}

impl ToolBody for ScriptTool {
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(self.run(call))
    }
}

impl ScriptTool {
    async fn run(&self, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let Self { active, entry } = self;
        let who = format!("plugin tool '{}'", entry.name);
        let question = Question {
            label: "plugin tool",
            script: entry.script.clone(),
            input: serde_json::json!({
                "args": call.arguments(),
                "workspace": active.scripts.setting.workspace_text(),
                "session_id": session_text(call.agent()),
                "timestamp": active.scripts.now(),
            }),
            timeout: entry.timeout,
            environment: Vec::new(),
            signal: call.signal(),
        };
        let output = match active.ask_inside(question).await {
            Ok(text) => {
                let output = Output::read(&text, &who);
                tell(&active.scripts.ctx, active.name(), call.agent(), &output.told);
                output
            }
            Err(Failure::Cancelled) => return Err(aborted(call)),
            Err(failure @ Failure::TooLarge(_)) => failed(failure.text(&who)),
            Err(failure) => failed(failure.text(&format!("{who} handler"))),
        };
        let shown = ToolOutput::from(vec![ContentBlock::Text { text: output.text }]);
        Ok(if output.is_ok { shown } else { shown.failed() })
    }
}

fn failed(text: String) -> Output {
    Output { is_ok: false, text, told: crate::hooks::Told::default() }
}

fn aborted(call: &ToolExecution) -> ToolFailure {
    ToolFailure::coded("AbortError", "ABORTED", format!("{} aborted", call.name()))
}
