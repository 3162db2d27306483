//! A folder to run the program in, and recordings to run it with.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Where a test runs the program: a workspace, a folder of sessions, and nothing of the user's.
pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["work", "sessions", "tmp", "home"] {
            std::fs::create_dir(stage.path(name)).unwrap();
        }
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A recording in a file; gives the name of the model that replays it.
    pub(crate) fn recording(&self, name: &str, exchanges: &[Vec<Value>]) -> String {
        let file = self.path(name);
        let mut text = json!({ "linn_recording": 1 }).to_string() + "\n";
        for line in exchanges.iter().flatten() {
            text += &(line.to_string() + "\n");
        }
        std::fs::write(&file, text).unwrap();
        format!("replay:{}", file.display())
    }

    /// The program with these arguments, its standard input empty.
    #[expect(clippy::disallowed_methods, reason = "the program is what is tested")]
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linn"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(arguments).stdin(Stdio::null()).current_dir(self.folder.path());
        command.env_clear().env("PATH", path).env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command
    }

    /// The program with these arguments, `input` on its standard input.
    pub(crate) fn linn_with(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// A file below the folder, with the folders above it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(crate) fn linn(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `linn run` in the workspace.
    pub(crate) fn run_arguments(&self, prompt: &str, model: &str, more: &[&str]) -> Vec<String> {
        let (work, sessions) = (self.path("work"), self.path("sessions"));
        let fixed = [
            "run",
            prompt,
            "--model",
            model,
            "--workspace",
            work.to_str().unwrap(),
            "--sessions",
            sessions.to_str().unwrap(),
        ];
        fixed.iter().chain(more).map(|it| (*it).to_owned()).collect()
    }

    pub(crate) fn run(&self, prompt: &str, model: &str, more: &[&str]) -> Output {
        let arguments = self.run_arguments(prompt, model, more);
        self.linn(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// An answer in words.
pub(crate) fn says(text: &str) -> Vec<Value> {
    vec![
        json!({ "request": {} }),
        json!({ "chunk": { "type": "text-delta", "index": 0, "text": text } }),
        json!({ "chunk": { "type": "finish", "reason": { "kind": "stop" } } }),
    ]
}

/// An answer that calls a tool.
pub(crate) fn calls(id: &str, tool: &str, arguments: &Value) -> Vec<Value> {
    vec![
        json!({ "request": {} }),
        json!({ "chunk": { "type": "tool-call-delta", "index": 0, "id": id, "name": tool, "argumentsDelta": arguments.to_string() } }),
        json!({ "chunk": { "type": "finish", "reason": { "kind": "tool-calls" } } }),
    ]
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
