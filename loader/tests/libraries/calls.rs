//! Calls between the program and libraries.

use std::io::{Read as _, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use linn_bus::{FiberState, InternalFault};
use linn_services::model::text_of;
use serde_json::json;

use crate::support::{World, library};

#[tokio::test]
async fn a_tool_of_a_library_is_called_like_any_other() {
    let world = World::new(&[("word-count", &library("word-count", &[]))]).await;
    world.mount_all(&[("word-count", "ignore = ['the']")]).await;
    assert_eq!(world.count("the quick brown fox").await, "3");
    let wrong = world.call("count_words", json!({ "text": 7 })).await;
    assert!(wrong.is_error);
    // Its end is that of a plugin of the program.
    world.mount_all(&[]).await;
    assert!(world.call("count_words", json!({ "text": "x" })).await.is_error);
    world.end().await;
}

#[tokio::test]
async fn config_errors_name_the_field_before_anything_of_the_plugin_runs() {
    let world = World::new(&[("word-count", &library("word-count", &[]))]).await;
    let applied = world.mount(&[("word-count", "ignor = []")]).await;
    let told = applied.problems[0].to_string();
    assert!(told.ends_with("has no field `ignor`; did you mean `ignore`?"), "{told}");
    world.mount_all(&[("word-count", "")]).await;
    let applied = world.mount(&[("word-count", "ignore = 'the'")]).await;
    assert_eq!(applied.problems[0].fault.code(), "ENTRY_CONFIG");
    assert_eq!(world.count("the fox").await, "2", "the old config runs on");
    world.end().await;
}

/// What a subscriber wrote.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn r069_a_gate_of_a_library_refuses_and_its_log_lines_reach_the_program() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let libraries = [("gate", library("gate", &[])), ("word-count", library("word-count", &[]))];
    let world = World::new(&libraries.each_ref().map(|(name, path)| (*name, path.as_path()))).await;
    world.mount_all(&[("gate", "deny = ['count_words']"), ("word-count", "")]).await;
    let refused = world.call("count_words", json!({ "text": "x" })).await;
    assert!(refused.is_error);
    assert!(text_of(&refused.content).contains("the gate lets no call of `count_words` pass"), "{refused:?}");
    let lines = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let line = lines.lines().find(|it| it.contains("refused")).unwrap_or_else(|| panic!("{lines}"));
    assert!(line.contains("plugin=\"gate\"") && line.contains("tool=count_words"), "{line}");
    world.mount_all(&[("gate", ""), ("word-count", "")]).await;
    assert_eq!(world.count("x").await, "1");
    world.end().await;
}

#[tokio::test]
async fn r068_a_panic_in_a_library_is_an_error_of_its_plugin() {
    let panics = [("let counted", "assert_ne!(it.text, \"panic\", \"asked to\");\n            let counted")];
    let libraries = [("patience", library("patience", &[])), ("word-count", library("word-count", &panics))];
    let world = World::new(&libraries.each_ref().map(|(name, path)| (*name, path.as_path()))).await;
    let faults = Arc::new(Mutex::new(Vec::new()));
    let log = faults.clone();
    world.root.on(move |it: &InternalFault| log.lock().unwrap().push(it.error.plugin().to_owned())).unwrap();
    world.mount_all(&[("patience", ""), ("word-count", "")]).await;
    // In a tool, which the program calls as a trait object; then in a listener.
    let panicked = world.call("count_words", json!({ "text": "panic" })).await;
    assert!(panicked.is_error, "{panicked:?}");
    assert!(text_of(&panicked.content).contains("asked to"), "{panicked:?}");
    assert_eq!(world.count("a b").await, "2");
    // Ten of them disable the plugin, as any other.
    for _ in 1..linn_bus::MAX_PANICS {
        world.call("count_words", json!({ "text": "panic" })).await;
    }
    let fiber = world.loader.entry("word-count").await.unwrap();
    drop(fiber.settled().await);
    assert_eq!(fiber.state(), FiberState::Failed);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_async_listener_of_a_library_uses_tokio_as_it_would_in_the_program() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        for answer in ["ok", "not today"] {
            let (mut stream, _) = server.accept().unwrap();
            let mut name = String::new();
            stream.read_to_string(&mut name).unwrap();
            assert_eq!(name, "count_words");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let libraries = [("patience", library("patience", &[])), ("word-count", library("word-count", &[]))];
    let world = World::new(&libraries.each_ref().map(|(name, path)| (*name, path.as_path()))).await;
    world.mount_all(&[("patience", &format!("server = '{address}'")), ("word-count", "")]).await;
    assert_eq!(world.count("a b c").await, "3");
    assert!(world.count("a b c").await.contains("not today"));
    answering.join().unwrap();
    world.end().await;
}
