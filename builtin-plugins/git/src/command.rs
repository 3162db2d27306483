//! Runs the `git` command.

use std::time::Duration;

use linn_bus::Svc;
use linn_services::fs::FsError;
use linn_services::shell::{Captured, Shell, ShellCommand, ShellOutput};
use linn_services::tools::{ToolExecution, ToolFailure, ToolOutput};

/// What every command begins with: nothing is shown through a program that a repository names, and paths mean themselves.
const GUARDS: &[&str] = &[
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "color.ui=false",
    "-c",
    "core.quotePath=false",
];

/// Variables that keep it from asking anybody anything.
const ENVIRONMENT: &[(&str, &str)] = &[("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true"), ("LC_ALL", "C")];

/// Whether a command may take locks of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Look,
    Change,
}

/// Runs the `git` command.
pub(crate) struct Git {
    pub(crate) shell: Svc<dyn Shell>,
    pub(crate) timeout: Duration,
}

impl Git {
    /// Runs a command for a call, with paths behind it, and gives what it printed; `silent` is told if it printed nothing.
    pub(crate) async fn run(
        &self,
        call: &ToolExecution,
        access: Access,
        arguments: &[&str],
        paths: &[String],
        silent: &str,
    ) -> Result<ToolOutput, ToolFailure> {
        for path in paths {
            check_path(call, path)?;
        }
        let mut line: Vec<String> = GUARDS.iter().chain(arguments).map(|it| (*it).to_owned()).collect();
        if !paths.is_empty() {
            line.push("--".to_owned());
            line.extend(paths.iter().cloned());
        }
        let mut command = ShellCommand::exec("git", line);
        command.cwd = call.agent().and_then(|it| it.session().header().cwd.clone());
        command.signal = call.signal();
        command.timeout = Some(self.timeout);
        let environment = ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        command.env = environment.collect();
        if access == Access::Look {
            command.env.insert("GIT_OPTIONAL_LOCKS".to_owned(), Some("0".to_owned()));
        }
        let output = self.shell.run(command).await.map_err(|error| {
            let failure = ToolFailure::from(error);
            ToolFailure { message: format!("{} failed: {}", call.name(), failure.message), ..failure }
        })?;
        self.tell(call, &output, silent)
    }

    fn tell(&self, call: &ToolExecution, output: &ShellOutput, silent: &str) -> Result<ToolOutput, ToolFailure> {
        let name = call.name();
        let fail = |code: &str, message: String| Err(ToolFailure::coded("GitError", code, message));
        if output.cancelled {
            return fail("ABORTED", format!("{name} aborted"));
        }
        if output.timed_out {
            return fail("GIT_TIMEOUT", format!("{name} timed out after {}s (killed)", self.timeout.as_secs()));
        }
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        if output.exit_code != Some(0) {
            let words = if stderr.trim().is_empty() { &stdout } else { &stderr };
            let words = if words.trim().is_empty() { "git said nothing" } else { words.trim() };
            return fail("GIT_FAILED", format!("{name} failed: {words}"));
        }
        let shown = stdout.trim_end();
        Ok(ToolOutput::from(if shown.is_empty() { silent } else { shown }))
    }
}

/// Refuses a path that leads out of the workspace, or none at all.
fn check_path(call: &ToolExecution, path: &str) -> Result<(), ToolFailure> {
    let error = if path.is_empty() {
        let message = format!("{} failed: a path is empty; name a file or folder, or leave it out", call.name());
        return Err(ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", message));
    } else if path.starts_with(['/', '\\']) || path.get(1..2) == Some(":") {
        FsError::Absolute(path.to_owned())
    } else if path.split(['/', '\\']).any(|it| it == "..") {
        FsError::Upwards(path.to_owned())
    } else {
        return Ok(());
    };
    let failure = ToolFailure::from(error);
    Err(ToolFailure { message: format!("{} failed: {}", call.name(), failure.message), ..failure })
}

/// What was kept of an output, with a mark where something was left out.
fn text(captured: &Captured) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match captured.omitted_bytes {
        0 => text(&captured.head),
        n => format!("{}\n...[{n} bytes left out]...\n{}", text(&captured.head), text(&captured.tail)),
    }
}
