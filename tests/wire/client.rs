//! A front end: it starts the program, sends commands, and reads events.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use linn_model_server::{Answer, ModelServer, Wire};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A test that waits longer has failed.
const WATCHDOG: Duration = Duration::from_secs(60);

/// What the program is started with.
pub(crate) struct Setup {
    pub(crate) approval: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) key: bool,
    /// Whether `init` is sent and its block read.
    pub(crate) init: bool,
    /// Whether a turn with calls is to end with a word for the human; most scripts have none.
    pub(crate) reflect: bool,
    /// What the program may write to one file, in bytes.
    pub(crate) file_limit: Option<u64>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            approval: "never",
            arguments: Vec::new(),
            variables: Vec::new(),
            key: true,
            init: true,
            reflect: false,

            file_limit: None,
        }
    }
}

/// A program that runs, and the folder it runs in.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    folder: TempDir,
    /// Every event so far.
    pub(crate) seen: Vec<Value>,
}

impl Client {
    /// The program, asking `server`, in a new folder.
    pub(crate) fn start(server: &ModelServer) -> Self {
        Self::with(server, Setup::default())
    }

    pub(crate) fn with(server: &ModelServer, setup: Setup) -> Self {
        Self::within(tempfile::tempdir().unwrap(), server, setup)
    }

    /// The same in a folder that something is in.
    #[expect(clippy::disallowed_methods, reason = "the program is what is tested")]
    pub(crate) fn within(folder: TempDir, server: &ModelServer, setup: Setup) -> Self {
        let work = folder.path();
        for name in ["home", "tmp"] {
            std::fs::create_dir_all(work.join(name)).unwrap();
        }
        let config = work.join("config.json");
        if !config.exists() {
            std::fs::write(&config, "{}").unwrap();
        }
        let providers = json!([{
            "name": "protocol_harness", "kind": "openai", "base_url": server.base_url(), "api_key_env": "PROTOCOL_HARNESS_KEY",
        }]);
        let program = env!("CARGO_BIN_EXE_linn");
        let mut command = match setup.file_limit {
            None => Command::new(program),
            // The shell sets the limit, and is the program from then on.
            Some(bytes) => {
                let mut command = Command::new("sh");
                let limits = format!("ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
                command.args(["-c", &limits, program]);
                command
            }
        };
        command.env_clear().current_dir(work).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", work.join("home")).env("TMPDIR", work.join("tmp"));
        command.env("UMANS_PROVIDERS", providers.to_string()).env("UMANS_ACTIVE_PROVIDER", "protocol_harness");
        if setup.key {
            command.env("PROTOCOL_HARNESS_KEY", "test-key");
        }
        if !setup.reflect {
            command.env("CATALYST_CODE_AUTO_REFLECT", "0");
        }
        command.envs(setup.variables.iter().map(|(name, value)| (name, value)));
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        command.args(["--workspace", &text(work), "--session", &text(&work.join("session.jsonl"))]);
        command.args(["--config", &text(&config), "--base-url", &server.base_url(), "--approval", setup.approval]);
        command.arg("--trust-project-plugins").args(&setup.arguments);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        // What the program logs is shown with the output of the test.
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| eprintln!("stderr: {line}")));
        let mut client = Self { child, stdin, lines, folder, seen: Vec::new() };
        if setup.init {
            client.send(json!({ "type": "init", "protocol_version": 2, "client": { "name": "test", "version": "1" } }));
            client.until("agents");
        }
        client
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, command: Value) {
        self.send_bytes(format!("{command}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// A prompt to `mock-model`.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.send(json!({ "type": "send", "prompt": text, "model": "mock-model" }));
    }

    /// The next event; `None` when the program has closed its output.
    fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(WATCHDOG) {
            Ok(line) => {
                let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
                self.seen.push(event.clone());
                Some(event)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing came for {WATCHDOG:?}; so far: {:#?}", self.last(20)),
        }
    }

    fn last(&self, n: usize) -> &[Value] {
        &self.seen[self.seen.len().saturating_sub(n)..]
    }

    /// The events up to and with the first that fits.
    pub(crate) fn until_where(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let Some(event) = self.next() else { panic!("the output ended before {what}: {:#?}", self.last(20)) };
            events.push(event);
            if fits(events.last().unwrap()) {
                return events;
            }
        }
    }

    /// The events up to and with the first of this type.
    pub(crate) fn until(&mut self, name: &str) -> Vec<Value> {
        self.until_where(name, |it| it["type"] == name)
    }

    /// The first event of this type from now on.
    pub(crate) fn event(&mut self, name: &str) -> Value {
        self.until(name).pop().unwrap()
    }

    /// What a command that answers at once is answered with, and nothing of a turn.
    pub(crate) fn ask(&mut self, command: Value, answer: &str) -> Value {
        self.send(command);
        self.event(answer)
    }

    /// Closes standard input, reads to the end, and gives what came and how the program ended.
    pub(crate) fn close(mut self) -> (Vec<Value>, ExitStatus) {
        drop(self.stdin.take());
        let mut events = Vec::new();
        while let Some(event) = self.next() {
            events.push(event);
        }
        let status = self.child.wait().unwrap();
        (events, status)
    }

    /// The same, and the folder it ran in.
    pub(crate) fn leave(mut self) -> TempDir {
        drop(self.stdin.take());
        while self.next().is_some() {}
        self.child.wait().unwrap();
        let other = tempfile::tempdir().unwrap();
        std::mem::replace(&mut self.folder, other)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Whatever became of the test, the program does not outlive it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with this script.
pub(crate) fn server(script: impl IntoIterator<Item = Answer>) -> ModelServer {
    ModelServer::start(script).unwrap()
}

pub(crate) fn text(text: &str) -> Answer {
    Wire::OpenAi.text(&[text])
}

pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> Answer {
    Wire::OpenAi.calls(calls)
}

/// Waits for something that a server tells.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The types of events, without those that come when they come.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    let is_steady = |it: &&Value| !(it["type"] == "metrics" && it.get("elapsed_ms").is_none());
    events.iter().filter(is_steady).map(|it| it["type"].as_str().unwrap()).collect()
}

/// The events of this type.
pub(crate) fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|it| it["type"] == name).collect()
}

/// The text that was streamed.
pub(crate) fn said(events: &[Value]) -> String {
    of(events, "delta").iter().map(|it| it["text"].as_str().unwrap()).collect()
}

/// Checks that events of runs are numbered from 1 without gaps.
pub(crate) fn check_sequences(events: &[Value]) {
    let mut counts = std::collections::HashMap::new();
    for event in events.iter().filter(|it| it.get("sequence").is_some()) {
        let count = counts.entry(event["run_id"].as_str().unwrap()).or_insert(0);
        *count += 1;
        assert_eq!(event["sequence"], *count, "{event}");
    }
}

/// What `look` finds at last. It looks at what the system tells of other processes, for which there is no signal.
#[expect(clippy::disallowed_methods, reason = "a test that looks for half a minute has failed")]
pub(crate) fn until_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begin = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "it never came");
        std::thread::yield_now();
    }
}
