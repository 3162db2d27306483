//! The program is killed, and no code of it runs any more.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::stage::{Stage, calls, says};

/// A line of bash that holds a connection to `held` with three processes, each of which says that it is ready, and says so if
/// it lives on.
fn holding(held: &TcpListener) -> String {
    let port = held.local_addr().unwrap().port();
    format!(
        "exec 3>/dev/tcp/127.0.0.1/{port}
        (setsid sh -c 'trap \"\" HUP TERM; echo ready >&3; sleep 40; echo survived >&3' &)
        sh -c 'echo ready >&3; sleep 40; echo survived >&3' &
        echo ready >&3; sleep 40; echo survived >&3"
    )
}

/// Runs the program until all three are ready, and kills it; none of them may live on.
fn kill_while_held(mut command: Command, held: &TcpListener) {
    let mut linn = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut shown = linn.stdout.take().unwrap();
    std::thread::scope(|scope| {
        // A program that ends before anything connects says so in its place.
        let ended = scope.spawn(|| {
            let mut all = String::new();
            shown.read_to_string(&mut all).unwrap();
            TcpStream::connect(held.local_addr().unwrap()).unwrap().write_all(all.as_bytes()).unwrap();
        });
        let (connection, _) = held.accept().unwrap();
        let mut told = BufReader::new(connection);
        for _ in 0..3 {
            let mut line = String::new();
            told.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
        }
        linn.kill().unwrap();
        linn.wait().unwrap();
        ended.join().unwrap();
        // The connection ends with the last of them.
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "none of them lived on");
    });
}

fn run(stage: &Stage, model: &str) -> Command {
    let arguments = stage.run_arguments("go", model, &["--approve", "never", "--set", "shell.program=bash"]);
    stage.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn what_a_command_started_does_not_outlive_a_program_that_is_killed() {
    let stage = Stage::new();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = calls("c", "bash", &json!({ "command": holding(&held) }));
    let model = stage.recording("r", &[call, says("Not reached.")]);
    kill_while_held(run(&stage, &model), &held);
}

#[test]
fn what_a_script_of_a_plugin_started_does_not_outlive_a_program_that_is_killed() {
    let stage = Stage::new();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let manifest = json!({
        "name": "holds", "version": "1", "description": "Holds.", "hooks": { "pre_tool": { "script": "hook.sh" } },
    });
    stage.write("home/.catalyst-code/plugins/holds/plugin.json", &manifest.to_string());
    let hook = "home/.catalyst-code/plugins/holds/hook.sh";
    stage.write(hook, &format!("#!/usr/bin/env bash\n{}\n", holding(&held)));
    std::fs::set_permissions(stage.path(hook), std::fs::Permissions::from_mode(0o755)).unwrap();
    let call = calls("c", "list_dir", &json!({ "path": "." }));
    let model = stage.recording("r", &[call, says("Not reached.")]);
    kill_while_held(run(&stage, &model), &held);
}
