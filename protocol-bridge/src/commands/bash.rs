//! `user_bash`: a command of the human.

use std::sync::Arc;
use std::time::Duration;

use linn_services::agent::Agent;
use linn_services::interaction::SudoAnswer;
use linn_services::model::{ContentBlock, HookContext, MessageSource};
use linn_services::shell::{Captured, Shell, ShellCommand, ShellOutput};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bridge::Bridge;
use crate::sink::Origin;
use crate::wire::commands::{Run, UserBash};
use crate::wire::events::BashExecution;

/// How long a command may take, in seconds, if no setting says so.
const TIMEOUT_SECS: u64 = 30;

/// What such a job is called.
const LABEL: &str = "user_bash";

/// How many commands may wait for the one that runs.
const MAX_WAITING: usize = 64;

impl Run for UserBash {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { command, exclude_from_context } = self;
        if command.trim().is_empty() {
            return bridge.error("empty bash command");
        }
        if bridge.state().jobs.iter().filter(|it| it.label == LABEL).count() > MAX_WAITING {
            return bridge.error(format!("{MAX_WAITING} commands wait already; `{command}` is not run"));
        }
        bridge.spawn_job("subprocess", LABEL, move |bridge, signal| async move {
            let mut told = {
                // One after the other, in the order they came.
                let _turn = bridge.shell_turn.lock().await;
                bridge.run_for_human(&command, &signal).await
            };
            told.is_private |= exclude_from_context;
            let Told { output, ok, is_private } = told;
            bridge.say(&BashExecution { command: &command, output: &output, ok, exclude_from_context: is_private });
            if !is_private {
                bridge.remember(format!("Ran `{command}`\n```\n{output}\n```"));
            }
        });
    }
}

/// What came of a command.
struct Told {
    output: String,
    ok: bool,
    /// The model is not told.
    is_private: bool,
}

impl Told {
    fn not_run(output: impl Into<String>) -> Self {
        Self { output: output.into(), ok: false, is_private: true }
    }
}

impl Bridge {
    async fn run_for_human(&self, line: &str, signal: &CancellationToken) -> Told {
        if signal.is_cancelled() {
            return Told::not_run("(aborted)");
        }
        let Some(shell) = self.service::<dyn Shell>() else {
            return Told::not_run("there is no shell: no plugin that is mounted provides one");
        };
        match shell.refusal(line) {
            Ok(None) => {}
            Ok(Some(refusal)) => return Told::not_run(refusal),
            Err(error) => return Told::not_run(error.to_string()),
        }
        let mut command = ShellCommand::line(line);
        if calls_sudo(line) {
            let asked = signal.run_until_cancelled(self.ask_password(line, Origin::Loop)).await;
            match asked {
                Some(SudoAnswer::Approved(password)) => command.password = Some(password),
                Some(_) => return Told::not_run("(sudo declined — command was not run)"),
                None => return Told::not_run("(aborted)"),
            }
        }
        let secs = self.setting("bash_timeout_secs").as_ref().and_then(Value::as_u64).unwrap_or(TIMEOUT_SECS);
        command.cwd = Some(self.config.workspace.to_string_lossy().into_owned());
        command.timeout = Some(Duration::from_secs(secs));
        command.signal = signal.clone();
        match shell.run(command).await {
            Ok(output) if output.cancelled => Told::not_run("(aborted)"),
            Ok(output) => {
                let ok = output.exit_code == Some(0) && !output.timed_out;
                Told { output: text_of_output(&output, secs), ok, is_private: false }
            }
            Err(error) => Told { output: error.to_string(), ok: false, is_private: false },
        }
    }

    /// Has the model know of something that the human did: now, or when the run that goes on is over.
    fn remember(&self, text: String) {
        let agent = {
            let mut state = self.state();
            if state.run.is_some() {
                state.deferred.push(text);
                return;
            }
            state.agent().cloned()
        };
        if let Some(agent) = agent {
            self.tell_model(&agent, text);
        }
    }

    pub(crate) fn tell_model(&self, agent: &Agent, text: String) {
        let context = HookContext { content: vec![ContentBlock::Text { text }], source: MessageSource::User };
        if let Err(error) = agent.inject(context) {
            self.ctx.logger().warn(format_args!("the model is not told of a command of the human: {error}"));
        }
    }
}

/// Whether a line calls `sudo` by its bare name, as far as can be told without a shell.
fn calls_sudo(line: &str) -> bool {
    line.split(|it: char| it.is_whitespace() || ";|&(){}`".contains(it)).any(|it| it == "sudo")
}

/// Both outputs as one text.
fn text_of_output(output: &ShellOutput, limit_secs: u64) -> String {
    let (stdout, stderr) = (text_of_captured(&output.stdout), text_of_captured(&output.stderr));
    let mut text = match (stdout.is_empty(), stderr.is_empty()) {
        (true, true) => "(no output)".to_owned(),
        (_, true) => stdout,
        (true, false) => format!("--- stderr ---\n{stderr}"),
        (false, false) => format!("{}\n--- stderr ---\n{stderr}", stdout.trim_end_matches('\n')),
    };
    if output.timed_out {
        text.insert_str(0, &format!("bash timed out after {limit_secs}s (killed)\n"));
    } else if let Some(code) = output.exit_code.filter(|it| *it != 0) {
        text.push_str(&format!("\n[exit code {code}]"));
    } else if let Some(signal) = output.signal {
        text.push_str(&format!("\n[ended by signal {signal}]"));
    }
    text
}

fn text_of_captured(captured: &Captured) -> String {
    let head = String::from_utf8_lossy(&captured.head);
    if captured.omitted_bytes == 0 {
        return head.into_owned();
    }
    format!("{head}\n[… {} bytes left out …]\n{}", captured.omitted_bytes, String::from_utf8_lossy(&captured.tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudo_is_found_where_it_is_called() {
        assert!(calls_sudo("sudo ls") && calls_sudo("cd /; sudo -n true") && calls_sudo("true&&sudo x"));
        assert!(!calls_sudo("echo pseudo") && !calls_sudo("cat sudoers"));
    }

    #[test]
    fn outputs_become_one_text() {
        let captured = |text: &str| Captured { head: text.into(), ..Captured::default() };
        let output = |stdout, stderr, exit_code| ShellOutput {
            stdout: captured(stdout),
            stderr: captured(stderr),
            exit_code: Some(exit_code),
            ..ShellOutput::default()
        };
        assert_eq!(text_of_output(&output("", "", 0), 1), "(no output)");
        assert_eq!(text_of_output(&output("a\n", "b\n", 2), 1), "a\n--- stderr ---\nb\n\n[exit code 2]");
        let late = ShellOutput { timed_out: true, ..output("a", "", 0) };
        assert_eq!(text_of_output(&late, 7), "bash timed out after 7s (killed)\na");
        let cut = Captured { head: "a".into(), tail: "z".into(), omitted_bytes: 9 };
        assert_eq!(text_of_captured(&cut), "a\n[… 9 bytes left out …]\nz");
    }
}
