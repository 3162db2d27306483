//! The program is killed, and no code of it runs any more.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::json;

use crate::stage::{Stage, calls, says};

/// Everything that the command starts holds a connection to the test, which ends with the last of them.
#[cfg(target_os = "linux")]
#[test]
fn what_a_command_started_does_not_outlive_a_program_that_is_killed() {
    let stage = Stage::new();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let line = format!(
        "exec 3>/dev/tcp/127.0.0.1/{port}
        (setsid sh -c 'trap \"\" HUP TERM; echo ready >&3; sleep 40; echo survived >&3' &)
        sh -c 'echo ready >&3; sleep 40; echo survived >&3' &
        echo ready >&3; sleep 40; echo survived >&3"
    );
    let model = stage.recording("r", &[calls("c", "bash", &json!({ "command": line })), says("Not reached.")]);
    let arguments = stage.run_arguments("go", &model, &["--approve", "never", "--set", "shell.program=bash"]);
    let mut command = stage.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut linn = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut shown = linn.stdout.take().unwrap();
    // A program that ends before the command connects says so in its place.
    std::thread::scope(|scope| {
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
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "none of them lived on");
    });
}
