//! The bridge on the standard streams of a process of its own: this test program, started once more.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use linn_bridge::{BridgeConfig, BridgePlugin, stdio};
use linn_bus::{Root, TokioRuntime};
use linn_services::events::SessionEvent;
use linn_services::llm::Llm;
use linn_services_test::{Reply, ScriptedModel};
use serde_json::{Value, json};

use crate::kit::mount_harness;

/// Set in the process that is started.
const MARK: &str = "LINN_BRIDGE_TEST_CHILD";

/// The other process: a harness whose plugins print, with the bridge on its standard streams.
#[test]
fn the_program_itself() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (input, output) = stdio().unwrap();
        let root = Root::new(TokioRuntime::seams());
        mount_harness(&root, Default::default()).await;
        let model = ScriptedModel::new((0..3).map(|_| Reply::text("an answer")));
        root.get::<dyn Llm>().unwrap().register(&root, vec!["mock-model".into()], std::sync::Arc::new(model)).unwrap();
        root.on(|_: &SessionEvent| shout()).unwrap();
        let config = BridgeConfig::new(input, output, "/");
        let handle = config.handle();
        root.mount::<BridgePlugin>(config).unwrap().running().await.unwrap();
        handle.ended().await;
        root.fiber().dispose().await.unwrap();
    });
}

/// Prints, and has a child print that inherits standard output.
#[expect(clippy::disallowed_methods, reason = "the child is what is tested, and it is waited for")]
fn shout() {
    let mut output = std::io::stdout().lock();
    writeln!(output, "hello from a plugin").unwrap();
    output.flush().unwrap();
    Command::new("echo").arg("hello from a child").status().unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the process is what is tested, and it is waited for")]
fn start() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "program::the_program_itself", "--nocapture"])
        .env(MARK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn write(child: &mut Child, command: Value) {
    writeln!(child.stdin.as_mut().unwrap(), "{command}").unwrap();
}

/// The lines of the protocol: what the test program says before is passed over.
fn protocol_lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map(|it| it.unwrap()).skip_while(|it| !it.starts_with('{'))
}

#[test]
fn r126_something_else_prints_to_stdout() {
    let mut child = start();
    write(&mut child, json!({ "type": "init" }));
    write(&mut child, json!({ "type": "send", "prompt": "hi", "model": "mock-model" }));
    let mut lines = protocol_lines(&mut child);
    let is_done =
        |it: &str| serde_json::from_str::<Value>(it).expect("each line is one of the protocol")["type"] == "done";
    assert!(lines.any(|it| is_done(&it)));
    drop(child.stdin.take());
    assert_eq!(lines.next(), None);
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(errors.contains("hello from a plugin") && errors.contains("hello from a child"), "{errors}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn r132_stdout_is_closed() {
    let mut child = start();
    write(&mut child, json!({ "type": "init" }));
    let mut lines = protocol_lines(&mut child);
    assert!(lines.next().unwrap().contains("\"ready\""));
    drop(lines);
    write(&mut child, json!({ "type": "send", "prompt": "hi", "model": "mock-model" }));
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(child.wait().unwrap().success());
}
