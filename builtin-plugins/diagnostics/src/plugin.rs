//! The plugin: the tool, and how a project is found.

use std::sync::Arc;
use std::time::Duration;

use linn_bus::{Context, Fault, Inject, Plugin, Svc};
use linn_services::fs::{Fs, FsKind};
use linn_services::shell::{Captured, Shell, ShellCommand, ShellOutput};
use linn_services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput, Tools};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{Check, DiagnosticsConfig};

/// What is told of a project that nothing is wrong with.
const CLEAN: &str = "(no diagnostics — clean)";

/// The tool `diagnostics`.
#[derive(Debug)]
pub struct DiagnosticsPlugin;

/// What [`DiagnosticsPlugin`] needs.
#[derive(Inject)]
pub struct DiagnosticsNeeds {
    tools: Svc<dyn Tools>,
    shell: Svc<dyn Shell>,
    fs: Svc<dyn Fs>,
}

impl std::fmt::Debug for DiagnosticsNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiagnosticsNeeds").finish_non_exhaustive()
    }
}

linn_bus::plugin!(DiagnosticsPlugin);

impl Plugin for DiagnosticsPlugin {
    const NAME: &'static str = "diagnostics";
    type Config = DiagnosticsConfig;
    type Needs = DiagnosticsNeeds;

    fn validate(config: &DiagnosticsConfig) -> Result<(), Fault> {
        config.check()
    }

    async fn start(ctx: &Context, config: DiagnosticsConfig, needs: DiagnosticsNeeds) -> Result<(), Fault> {
        let doctor = Arc::new(Doctor { shell: needs.shell, fs: needs.fs, config });
        let description = "Runs the compiler or linter of the project and gives what it says is wrong.";
        let tool = Tool::new("diagnostics", description, move |arguments: Arguments, call| {
            let doctor = doctor.clone();
            async move { doctor.run(arguments, &call).await }
        });
        needs.tools.register(ctx, tool.read_only())?;
        Ok(())
    }
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// A file or folder of the project, relative to the workspace; the workspace by default.
    path: Option<String>,
}

struct Doctor {
    shell: Svc<dyn Shell>,
    fs: Svc<dyn Fs>,
    config: DiagnosticsConfig,
}

fn failed(code: &str, why: impl std::fmt::Display) -> ToolFailure {
    ToolFailure::coded("DiagnosticsError", code, format!("diagnostics failed: {why}"))
}

fn in_folder(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

impl Doctor {
    async fn run(&self, arguments: Arguments, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let (folder, check) = self.project(arguments.path.as_deref().unwrap_or_default()).await?;
        let (program, rest) = check.command.split_first().expect("the config was checked");
        let mut command = ShellCommand::exec(program, rest.to_vec());
        let workspace = call.agent().and_then(|it| it.session().header().cwd.clone());
        command.cwd = match (workspace, folder.as_str()) {
            (workspace, "") => workspace,
            (Some(workspace), folder) => Some(format!("{}/{folder}", workspace.trim_end_matches('/'))),
            (None, folder) => {
                let why = format!("{folder} is no folder of a session; ask about the whole workspace");
                return Err(failed("DIAGNOSTICS_NO_SESSION", why));
            }
        };
        command.signal = call.signal();
        command.timeout = Some(Duration::from_secs(self.config.timeout_s()));
        let output = self.shell.run(command).await.map_err(|error| failed(error.code(), error))?;
        self.tell(check, &folder, &output)
    }

    /// The folder of the project that a path belongs to, and the program for it.
    async fn project(&self, path: &str) -> Result<(String, &Check), ToolFailure> {
        let path = path.trim().trim_start_matches("./").trim_matches('/');
        let mut folder = if path == "." { "" } else { path };
        let found = |error: linn_services::fs::FsError| failed(error.code(), &error);
        if !folder.is_empty() {
            match self.fs.metadata(folder).await.map_err(found)? {
                None => return Err(failed("FS_NOT_FOUND", format!("\"{folder}\" does not exist"))),
                Some(it) if it.kind == FsKind::Folder => {}
                Some(_) => folder = folder.rsplit_once('/').map_or("", |(above, _)| above),
            }
        }
        loop {
            for check in &self.config.checks {
                let marker = self.fs.metadata(&in_folder(folder, &check.marker)).await.map_err(found)?;
                if marker.is_some_and(|it| it.kind != FsKind::Folder) {
                    return Ok((folder.to_owned(), check));
                }
            }
            if folder.is_empty() {
                let markers: Vec<&str> = self.config.checks.iter().map(|it| &*it.marker).collect();
                let why = format!("nothing here says how to check it; what is known is {}", markers.join(", "));
                return Err(failed("DIAGNOSTICS_NO_PROJECT", why));
            }
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }

    fn tell(&self, check: &Check, folder: &str, output: &ShellOutput) -> Result<ToolOutput, ToolFailure> {
        if output.cancelled {
            return Err(ToolFailure::coded("AbortError", "ABORTED", "diagnostics aborted"));
        }
        let place = if folder.is_empty() { String::new() } else { format!(" (in {folder})") };
        let label = format!("{}{place}", check.command.join(" "));
        if output.timed_out {
            let why = format!("{label} timed out after {}s (killed)", self.config.timeout_s());
            return Err(failed("DIAGNOSTICS_TIMEOUT", why));
        }
        let texts = [text(&output.stdout), text(&output.stderr)];
        let said = texts.iter().map(|it| it.trim()).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n");
        let said = match (said.is_empty(), output.exit_code) {
            (true, Some(0)) => CLEAN.to_owned(),
            (true, code) => {
                format!("(it said nothing; exit code {})", code.map_or("unknown".to_owned(), |it| it.to_string()))
            }
            (false, _) => said,
        };
        Ok(format!("{label}\n{said}").into())
    }
}

/// What was kept of an output, with a mark where something was left out.
fn text(captured: &Captured) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match captured.omitted_bytes {
        0 => text(&captured.head),
        n => format!("{}\n...[{n} bytes left out]...\n{}", text(&captured.head), text(&captured.tail)),
    }
}
