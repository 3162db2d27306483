//! Commands that a human calls by name: a script, or a prompt made of a template.

use std::sync::Arc;

use linn_bus::{BoxFuture, Fault};
use linn_services::agent::Agent;
use linn_services::commands::{CommandBody, CommandCall, CommandOutput};
use linn_services::plugin_admin::{PluginAdminError, PluginCommandOutcome};

use crate::active::{Active, ask};
use crate::exchange::{Failure, Question};
use crate::fleet::session_name;
use crate::hooks::Output;
use crate::manifest::{CommandEntry, CommandKind, PROMPT_LIMIT_BYTES};
use crate::system::{blocking, text_of_file};
use crate::tell::tell;

/// A command as the registry of commands has it.
pub(crate) struct RunsCommand {
    pub(crate) active: Arc<Active>,
    pub(crate) entry: CommandEntry,
}

impl CommandBody for RunsCommand {
    fn run<'a>(&'a self, call: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>> {
        Box::pin(async move {
            match run(&self.active, &self.entry, &call.arguments, call.agent.as_ref()).await? {
                PluginCommandOutcome::Output { text, is_ok: true } => Ok(CommandOutput::Text(text)),
                PluginCommandOutcome::Output { text, .. } => Err(Fault::msg(text)),
                PluginCommandOutcome::Turn { prompt, .. } => Ok(CommandOutput::Prompt(prompt)),
                _ => Err(Fault::msg("the command came to something that cannot be shown here")),
            }
        })
    }
}

/// Runs a command.
pub(crate) async fn run(
    active: &Arc<Active>,
    entry: &CommandEntry,
    arguments: &str,
    agent: Option<&Agent>,
) -> Result<PluginCommandOutcome, PluginAdminError> {
    match &entry.body {
        CommandKind::Script { script, timeout } => {
            let who = format!("plugin command '{}'", entry.name);
            let question = Question {
                label: "plugin command",
                script: script.clone(),
                input: serde_json::json!({
                    "command": entry.name,
                    "args": arguments,
                    "workspace": active.scripts.setting.workspace_text(),
                    "session_id": session_name(agent),
                    "timestamp": active.scripts.now(),
                    "plugin": active.name(),
                }),
                timeout: *timeout,
                environment: Vec::new(),
                signal: tokio_util::sync::CancellationToken::new(),
            };
            Ok(match ask(active, question).await {
                Ok(text) => {
                    let output = Output::read(&text, &who);
                    tell(&active.scripts.ctx, active.name(), agent, &output.told);
                    PluginCommandOutcome::Output { text: output.text, is_ok: output.is_ok }
                }
                Err(failure) => {
                    let who = if matches!(failure, Failure::TooLarge(_)) { who } else { format!("{who} handler") };
                    PluginCommandOutcome::Output { text: failure.text(&who), is_ok: false }
                }
            })
        }
        CommandKind::Prompt { file } => {
            let read = file.clone();
            let template = blocking(move || text_of_file(&read, PROMPT_LIMIT_BYTES)).await.map_err(|why| {
                let (file, name) = (file.display(), &entry.name);
                PluginAdminError::Command(format!(
                    "prompt_file \"{file}\" for command '{name}' could not be read: {why}"
                ))
            })?;
            let now = active.scripts.now().to_string();
            let prompt = render(
                &template,
                &[
                    ("args", arguments),
                    ("workspace", &active.scripts.setting.workspace_text()),
                    ("session_id", &session_name(agent)),
                    ("timestamp", &now),
                    ("plugin", active.name()),
                    ("command", &entry.name),
                ],
            );
            let name = &entry.name;
            if prompt.len() as u64 > PROMPT_LIMIT_BYTES {
                let what = format!("rendered prompt for command '{name}' exceeds the {PROMPT_LIMIT_BYTES} byte limit");
                return Err(PluginAdminError::Command(what));
            }
            if prompt.trim().is_empty() {
                let what = format!("/{name} requires a request. Usage: /{name} <research request>");
                return Err(PluginAdminError::Command(what));
            }
            let called = format!("/{name} {arguments}");
            Ok(PluginCommandOutcome::Turn { prompt, notice: format!("{} — starting agent turn", called.trim_end()) })
        }
    }
}

/// A template with its values put in, in one pass: what a value holds is put in as it is, and names that are unknown stay.
fn render(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, opened) = rest.split_at(at);
        text.push_str(before);
        let found = opened[2..].find("}}").and_then(|end| {
            let name = &opened[2..2 + end];
            // With one blank on each side, or with none.
            let name = name.strip_prefix(' ').and_then(|it| it.strip_suffix(' ')).unwrap_or(name);
            let value = values.iter().find(|(key, _)| *key == name)?.1;
            Some((value, 2 + end + 2))
        });
        let (shown, n) = found.unwrap_or(("{{", 2));
        text.push_str(shown);
        rest = &opened[n..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_12_2_a_template_is_filled_in_one_pass() {
        let values = [("args", "a {{plugin}}"), ("plugin", "p")];
        for (template, expected) in [
            ("{{args}}|{{ args }}|{{plugin}}", "a {{plugin}}|a {{plugin}}|p"),
            ("{{unknown}} {{ plugin }}", "{{unknown}} p"),
            ("{{{{plugin}}}}", "{{p}}"),
            ("{{plugin", "{{plugin"),
            ("a {{  plugin  }} }} b", "a {{  plugin  }} }} b"),
            ("", ""),
        ] {
            assert_eq!(render(template, &values), expected, "{template}");
        }
    }
}
