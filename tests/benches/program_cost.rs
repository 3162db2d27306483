//! What the built program costs, beside the least that any program would: `cargo bench -p linn --bench program_cost`.
//!
//! It starts itself as that least program: one that answers a line with a line, and one that turns the stream of a model
//! server into lines of JSON and does nothing else. All run against a model server on loopback, in a folder of their own.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a table for who measures; what fails here ends it")]
#![expect(clippy::disallowed_methods, reason = "it measures programs that it starts itself, also after a rest")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use linn_model_server::{Answer, Framing, ModelServer, Wire};
use serde_json::{Value, json};

const N_STARTS: usize = 31;
const N_TURNS: usize = 31;
const N_CHUNKS: usize = 20_000;
const REST: Duration = Duration::from_millis(250);

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--least-answer") => least_answer(),
        Some("--least-relay") => least_relay(&arguments[2]),
        _ => measure(),
    }
}

/// Answers each line with a line.
fn least_answer() {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        writeln!(stdout, "{}", json!({ "type": "ready", "asked": command["type"] })).unwrap();
    }
}

/// Asks the model at `address` once a line, and writes a line of JSON for each chunk.
fn least_relay(address: &str) {
    let mut stdout = std::io::stdout();
    for _ in std::io::stdin().lines() {
        let mut stream = TcpStream::connect(address).unwrap();
        let body = json!({ "model": "mock-model", "stream": true }).to_string();
        let head =
            format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let Some(chunk) = line.strip_prefix("data: ").and_then(|it| serde_json::from_str::<Value>(it).ok()) else {
                continue;
            };
            if let Some(text) = chunk["choices"][0]["delta"]["content"].as_str() {
                writeln!(stdout, "{}", json!({ "type": "delta", "text": text })).unwrap();
            }
        }
        writeln!(stdout, "{}", json!({ "type": "done" })).unwrap();
    }
}

/// A program that runs and is spoken to in lines.
struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    /// Linn in `folder`, asking `server`.
    fn linn(folder: &Path, server: &ModelServer) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linn"));
        command.env_clear().current_dir(folder).env("HOME", folder.join("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("UMANS_ACTIVE_PROVIDER", "bench").env("BENCH_KEY", "a key");
        let base_url = server.base_url();
        let provider = json!([{ "name": "bench", "kind": "openai", "base_url": base_url, "api_key_env": "BENCH_KEY" }]);
        command.env("UMANS_PROVIDERS", provider.to_string());
        command.arg("serve").arg("--workspace").arg(folder).arg("--session").arg(folder.join("session.jsonl"));
        command.arg("--config").arg(folder.join("config.json")).args(["--base-url", &base_url, "--approval", "never"]);
        Self::start(command)
    }

    fn least<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments);
        Self::start(command)
    }

    fn send(&mut self, command: &Value) {
        self.stdin.write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    fn prompt(&mut self) {
        self.send(&json!({ "type": "send", "prompt": "hello", "model": "mock-model" }));
    }

    /// Reads up to the first event of this type.
    fn until(&mut self, name: &str) {
        let name = format!("\"type\":\"{name}\"");
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the output ended before {name}");
            if line.contains(&name) {
                return;
            }
        }
    }

    /// How long a command takes to its answer.
    fn asked(&mut self, command: &Value, answer: &str) -> Duration {
        let start = now();
        self.send(command);
        self.until(answer);
        start.elapsed()
    }

    /// Resident memory in MiB; 0 where the system does not tell.
    fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0) / 1024.0
    }

    /// Processor time of all threads so far; 0 where the system does not tell.
    fn processor(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let nanoseconds = threads.filter_map(|it| {
            let text = std::fs::read_to_string(it.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// How long it takes to end once its input has.
    fn end(mut self) -> Duration {
        let start = now();
        drop(self.stdin);
        self.stdout.read_to_end(&mut Vec::new()).unwrap();
        self.child.wait().unwrap();
        start.elapsed()
    }
}

fn now() -> Instant {
    Instant::now()
}

/// Median and worst in milliseconds.
fn milliseconds(mut times: Vec<Duration>) -> String {
    times.sort();
    let shown = |it: Duration| it.as_secs_f64() * 1e3;
    format!("{:.1} (worst {:.1})", shown(times[times.len() / 2]), shown(*times.last().unwrap()))
}

fn row(what: &str, least: &str, linn: &str, budget: &str) {
    println!("| {what} | {least} | {linn} | {budget} |");
}

fn answer(n_chunks: usize) -> Answer {
    Wire::OpenAi.text(&vec!["word "; n_chunks]).framed(Framing::UntilClosed)
}

fn home(folder: &Path) {
    std::fs::create_dir_all(folder.join("home")).unwrap();
    std::fs::write(folder.join("config.json"), "{}").unwrap();
}

fn measure() {
    let server = ModelServer::start([]).unwrap();
    server.otherwise(answer(1));
    println!("| what | least program | linn | must |\n|---|--:|--:|--:|");
    starts(&server);
    turns(&server);
    aborts();
    let size = std::fs::metadata(env!("CARGO_BIN_EXE_linn")).unwrap().len();
    row("the program's file, MiB", "-", &format!("{:.1}", size as f64 / f64::from(1 << 20)), "20, stripped");
}

fn starts(server: &ModelServer) {
    let init = json!({ "type": "init", "protocol_version": 2 });
    let least = || {
        let start = now();
        let mut program = Running::least(["--least-answer"]);
        program.send(&init);
        program.until("ready");
        let ready = start.elapsed();
        (ready, program.end())
    };
    let linn = |folder: &Path| {
        let start = now();
        let mut program = Running::linn(folder, server);
        program.send(&init);
        program.until("ready");
        let ready = start.elapsed();
        let resident = program.resident();
        // What comes with `ready` is not a part of the end.
        program.until("agents");
        (ready, program.end(), resident)
    };
    let least: Vec<_> = (0..N_STARTS).map(|_| least()).collect();
    let least_ready = milliseconds(least.iter().map(|it| it.0).collect());
    let least_end = milliseconds(least.iter().map(|it| it.1).collect());

    let folder = tempfile::tempdir().unwrap();
    home(folder.path());
    linn(folder.path());
    let warm: Vec<_> = (0..N_STARTS).map(|_| linn(folder.path())).collect();
    let empty = (0..N_STARTS).map(|_| {
        let folder = tempfile::tempdir().unwrap();
        home(folder.path());
        linn(folder.path()).0
    });
    row("spawn to `ready`, warm, ms", &least_ready, &milliseconds(warm.iter().map(|it| it.0).collect()), "7");
    row("spawn to `ready`, empty home, ms", &least_ready, &milliseconds(empty.collect()), "11");
    row("input closed to exit, idle, ms", &least_end, &milliseconds(warm.iter().map(|it| it.1).collect()), "5");
    row("resident at `ready`, MiB", "-", &format!("{:.1}", warm[N_STARTS / 2].2), "11");
}

fn turns(server: &ModelServer) {
    let address = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let mut relay = Running::least(["--least-relay", &address]);
    let folder = tempfile::tempdir().unwrap();
    home(folder.path());
    let mut linn = Running::linn(folder.path(), server);
    linn.asked(&json!({ "type": "init", "protocol_version": 2 }), "agents");
    let send = json!({ "type": "send", "prompt": "hello", "model": "mock-model" });

    server.push(answer(200));
    linn.asked(&send, "done");
    row("resident after a turn of 200 chunks, MiB", "-", &format!("{:.1}", linn.resident()), "13");

    for (what, rest) in [("rested", REST), ("back to back", Duration::ZERO)] {
        let times = |program: &mut Running| {
            let timed = |_| {
                std::thread::sleep(rest);
                program.asked(&send, "done")
            };
            milliseconds((0..N_TURNS).map(timed).collect())
        };
        let (least, linn) = (times(&mut relay), times(&mut linn));
        row(&format!("turn of one chunk, `send` to `done`, {what}, ms"), &least, &linn, "5");
    }

    let chunk = |program: &mut Running| {
        server.push(answer(N_CHUNKS));
        let before = program.processor();
        program.asked(&send, "done");
        (program.processor() - before).as_secs_f64() * 1e6 / N_CHUNKS as f64
    };
    let (least, linn_cost) = (chunk(&mut relay), chunk(&mut linn));
    row("processor time a chunk of 20,000, us", &format!("{least:.1}"), &format!("{linn_cost:.1}"), "5");
    linn.end();
    relay.end();
}

fn aborts() {
    let server = ModelServer::start([]).unwrap();
    let frames = Wire::OpenAi.text_frames(&["word "]);
    server.otherwise(Answer::stream(frames[..1].to_vec()).open());
    let folder = tempfile::tempdir().unwrap();
    home(folder.path());
    let mut linn = Running::linn(folder.path(), &server);
    linn.asked(&json!({ "type": "init", "protocol_version": 2 }), "agents");
    let times = (0..N_TURNS).map(|_| {
        linn.prompt();
        linn.until("delta");
        linn.asked(&json!({ "type": "abort" }), "aborted")
    });
    row("abort in mid-stream to `aborted`, ms", "-", &milliseconds(times.collect()), "20");
    linn.end();
}
