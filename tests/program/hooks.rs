//! A hook of the user before every call, in every way of running the program that asks a model.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};

use linn_model_server::{ModelServer, Wire};
use serde_json::{Value, json};

use crate::stage::{Stage, says, stderr, stdout};

/// What the model calls at once, and what it has `bulk` call.
const DIRECT: [&str; 8] = ["bash", "write_file", "read_file", "list_dir", "grep", "todo_write", "wave", "bulk"];
const BY_BULK: [&str; 2] = ["write_file", "read_file"];

/// A plugin of the user, with a tool, whose hook notes every call in `asked` and lets nothing run but the wrapper.
fn put_denying_plugin(stage: &Stage) {
    let folder = "home/.catalyst-code/plugins/denies";
    let manifest = json!({
        "name": "denies", "version": "1", "description": "Denies.",
        "hooks": { "pre_tool": { "script": "hook.sh", "pass_args": true } },
        "tools": [{ "name": "wave", "script": "wave.sh", "kind": "readonly" }],
    });
    stage.write(&format!("{folder}/plugin.json"), &manifest.to_string());
    let asked = stage.path("asked");
    let hook = format!(
        "#!/bin/sh\ninput=$(cat)\nprintf '%s\\n' \"$input\" >> '{}'\n\
         case $input in *'\"tool\":\"bulk\"'*) echo '{{\"allow\":true}}';; *) echo '{{\"allow\":false,\"reason\":\"not here\"}}';; esac\n",
        asked.display()
    );
    let wave = format!("#!/bin/sh\ntouch '{}'\necho '{{\"output\":\"o/\"}}'\n", stage.path("work/waved").display());
    for (name, script) in [("hook.sh", hook), ("wave.sh", wave)] {
        stage.write(&format!("{folder}/{name}"), &script);
        let place = stage.path(&format!("{folder}/{name}"));
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn arguments_of(tool: &str) -> Value {
    match tool {
        "bash" => json!({ "command": "touch pwned" }),
        "write_file" => json!({ "path": "pwned", "content": "x" }),
        "read_file" => json!({ "path": "a.txt" }),
        "list_dir" => json!({ "path": "." }),
        "grep" => json!({ "pattern": "x" }),
        "todo_write" => json!({ "todos": [] }),
        "bulk" => {
            let calls = BY_BULK.iter().map(|it| json!({ "name": it, "args": arguments_of(it) })).collect::<Vec<_>>();
            json!({ "calls": calls })
        }
        _ => json!({}),
    }
}

/// An answer that calls every tool of the test.
fn calls_all() -> Vec<Value> {
    let call = |(index, tool): (usize, &&str)| {
        let id = format!("c{index}");
        json!({ "chunk": { "type": "tool-call-delta", "index": index, "id": id, "name": tool, "argumentsDelta": arguments_of(tool).to_string() } })
    };
    let finish = json!({ "chunk": { "type": "finish", "reason": { "kind": "tool-calls" } } });
    [json!({ "request": {} })].into_iter().chain(DIRECT.iter().enumerate().map(call)).chain([finish]).collect()
}

/// The tools that the hook was asked about, sorted.
fn asked(stage: &Stage) -> Vec<String> {
    let kept = std::fs::read_to_string(stage.path("asked")).unwrap_or_default();
    let tool = |line: &str| serde_json::from_str::<Value>(line).unwrap()["tool"].as_str().unwrap().to_owned();
    let mut tools: Vec<String> = kept.lines().map(tool).collect();
    tools.sort();
    tools
}

/// What a program that was to end well showed.
fn shown(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(output), stderr(output));
    stdout(output) + &stderr(output)
}

/// What a front end is told of one prompt.
fn served(stage: &Stage, arguments: &[&str]) -> String {
    let calls: Vec<(String, &str, Value)> =
        DIRECT.iter().enumerate().map(|(n, it)| (format!("c{n}"), *it, arguments_of(it))).collect();
    let calls: Vec<(&str, &str, Value)> = calls.iter().map(|(id, tool, it)| (id.as_str(), *tool, it.clone())).collect();
    let server = ModelServer::start([Wire::OpenAi.calls(&calls), Wire::OpenAi.text(&["Nothing was done."])]).unwrap();
    let address = server.base_url();
    let provider = json!([{ "name": "here", "kind": "openai", "base_url": address, "api_key_env": "HERE_KEY" }]);
    let mut command = stage.command(&[&["serve", "--base-url", &address], arguments].concat());
    command.env("UMANS_PROVIDERS", provider.to_string()).env("UMANS_ACTIVE_PROVIDER", "here").env("HERE_KEY", "a-key");
    command.env("CATALYST_CODE_AUTO_REFLECT", "0");
    let mut linn = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut front_end = linn.stdin.take().unwrap();
    let init = json!({ "type": "init", "protocol_version": 2, "client": { "name": "test", "version": "1" } });
    let send = json!({ "type": "send", "prompt": "go", "model": "mock-model" });
    front_end.write_all(format!("{init}\n{send}\n").as_bytes()).unwrap();
    let mut told = String::new();
    for line in BufReader::new(linn.stdout.take().unwrap()).lines().map_while(Result::ok) {
        told += &format!("{line}\n");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "done" {
            break;
        }
    }
    drop(front_end);
    assert!(linn.wait().unwrap().success(), "{told}");
    told
}

#[test]
fn r052_in_every_mode_of_the_program_a_hook_is_asked_about_each_call_once_and_nothing_runs_that_it_denies() {
    let mut expected: Vec<&str> = DIRECT.into_iter().chain(BY_BULK).collect();
    expected.sort_unstable();
    for mode in ["run", "chat", "serve"] {
        let stage = Stage::new();
        put_denying_plugin(&stage);
        // Without it every tool is there at once, also those that a model has to ask for.
        assert!(stage.linn(&["plugin", "disable", "load-tools"]).status.success());
        let model = stage.recording("r", &[calls_all(), says("Nothing was done.")]);
        let (work, sessions, view) = (stage.path("work"), stage.path("sessions"), stage.path("session.jsonl"));
        let (work, sessions, view) = (work.to_str().unwrap(), sessions.to_str().unwrap(), view.to_str().unwrap());
        let common = ["--model", &model, "--workspace", work, "--sessions", sessions, "--approve", "never"];
        let shown = match mode {
            "run" => shown(&stage.linn(&[&["run", "go"], &common[..]].concat())),
            "chat" => shown(&stage.linn_with(&[&["chat"], &common[..]].concat(), "go\n")),
            _ => served(&stage, &["--workspace", work, "--session", view, "--approval", "never"]),
        };
        assert_eq!(asked(&stage), expected, "{mode}: {shown}");
        assert!(shown.contains("not here") && shown.contains("Nothing was done."), "{mode}: {shown}");
        assert_eq!(std::fs::read_dir(work).unwrap().count(), 0, "{mode}: something ran: {shown}");
    }
}
