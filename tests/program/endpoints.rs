//! The program against an OpenAI-compatible server on this machine.

use linn_model_server::{Answer, ModelServer, Wire};
use serde_json::{Value, json};

use crate::stage::{Stage, stderr, stdout};

/// A server such as Ollama, llama.cpp or vLLM: no key, and a list of ids.
fn local(script: impl IntoIterator<Item = Answer>) -> ModelServer {
    let server = ModelServer::start(script).unwrap();
    server.on_get("/v1/models", Answer::json(&json!({ "data": [{ "id": "llama3.2" }] })));
    server.on_get("*", Answer::status("404 Not Found", ""));
    server
}

#[test]
fn a_run_asks_a_server_on_this_machine_with_one_flag_and_no_key() {
    let server = local([Wire::OpenAi.text(&["Hel", "lo."])]);
    let stage = Stage::new();
    let output = stage.run("hi", "llama3.2", &["--base-url", &server.base_url()]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("Hello."), "{}", stdout(&output));
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].header("authorization")), (1, None));
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!((&body["model"], &body["stream"]), (&json!("llama3.2"), &json!(true)));
}

#[test]
fn a_run_asks_it_with_one_line_of_configuration_too_and_runs_its_calls() {
    let call = [("c1", "read_file", json!({ "path": "a.txt" }))];
    let server = local([Wire::OpenAi.calls(&call), Wire::OpenAi.text(&["It says hello."])]);
    let stage = Stage::new();
    stage.write("work/a.txt", "hello\n");
    stage.write("home/.config/linn/linn.toml", &format!("base_url = '{}'\n", server.base_url()));
    let output = stage.run("read", "llama3.2", &[]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("It says hello."), "{}", stdout(&output));
    let body: Value = serde_json::from_slice(&server.requests()[1].body).unwrap();
    assert!(body["messages"].to_string().contains("hello"), "{body:#}");
}

#[test]
fn the_doctor_asks_the_server_and_says_what_it_has() {
    let server = local([]);
    let stage = Stage::new();
    let base_url = server.base_url();
    let settings = |model: &str| format!("base_url = '{base_url}'\nmodel = '{model}'\n");
    stage.write("home/.config/linn/linn.toml", &settings("llama3.2"));
    let output = stage.linn(&["doctor"]);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", stderr(&output));
    assert!(shown.contains("has 1 models") && shown.contains("the model is llama3.2"), "{shown}");
    stage.write("home/.config/linn/linn.toml", &settings("gpt-0"));
    let output = stage.linn(&["doctor"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("no provider has the model `gpt-0`"), "{}", stdout(&output));
    // Who was never heard of has no models; of others those are known that they had.
    let nobody = Stage::new();
    nobody.write("home/.config/linn/linn.toml", &settings("llama3.2"));
    stage.write("home/.config/linn/linn.toml", &settings("llama3.2"));
    drop(server);
    for (stage, known) in [(nobody, "is it running?\n"), (stage, "is it running? 1 models of it are known from before")]
    {
        let output = stage.linn(&["doctor"]);
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        assert!(stdout(&output).contains("does not answer at"), "{}", stdout(&output));
        assert!(stdout(&output).contains(known), "{}", stdout(&output));
    }
}

#[test]
fn a_server_that_cannot_list_its_models_is_asked_for_the_one_that_is_named() {
    for list in [Answer::json(&json!({ "data": [] })), Answer::status("404 Not Found", "no such page")] {
        let server = ModelServer::start([Wire::OpenAi.text(&["Hello."])]).unwrap();
        server.on_get("*", list);
        let stage = Stage::new();
        let output = stage.run("hi", "hidden-1", &["--base-url", &server.base_url()]);
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
        assert_eq!(body["model"], "hidden-1");
    }
}
