//! What commands read and write.

use linn_services::shell::{Captured, ShellCommand};

use crate::support::{run, stdout};

#[test]
fn r119_a_command_that_waits_for_input_finds_none() {
    run(async |world| {
        assert_eq!(world.line("cat").await.exit_code, Some(0));
        assert_eq!(stdout(&world.line("read x; echo \"got:$x\"").await), "got:\n");
        let python = world.line("python3 -c 'input()'").await;
        assert_eq!(python.exit_code, Some(1));
        assert!(String::from_utf8(python.stderr.head).unwrap().contains("EOFError"));
    });
}

#[test]
fn r119_a_command_cannot_take_the_terminal_over() {
    run(async |world| {
        let output = world
            .line("(echo x >/dev/tty) 2>/dev/null || echo none; set -- $(cat /proc/self/stat); echo $6 $7; echo $$")
            .await;
        let text = stdout(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "none");
        assert_eq!(lines[1], format!("{} 0", lines[2]), "it leads a session without a terminal");
    });
}

#[test]
fn input_is_given_whole_and_closed() {
    run(async |world| {
        let given = |line: &str, stdin: Vec<u8>| world.shell.run(ShellCommand { stdin, ..ShellCommand::line(line) });
        let counted = given("wc -c", vec![b'x'; 1_000_000]).await.unwrap();
        assert_eq!(stdout(&counted).trim(), "1000000");
        let echoed = given("cat", vec![b'y'; 30_000]).await.unwrap();
        assert_eq!(echoed.stdout.head, vec![b'y'; 30_000]);
        // What is not read is no fault of the command.
        assert_eq!(given("exec true", vec![b'x'; 1_000_000]).await.unwrap().exit_code, Some(0));
    });
}

#[test]
fn both_outputs_are_read_at_the_same_time() {
    run(async |world| {
        let line = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2";
        let output = world.shell.run(ShellCommand { limit_bytes: 10, ..ShellCommand::line(line) }).await.unwrap();
        assert_eq!((output.stdout.omitted_bytes, output.stderr.omitted_bytes), (299_990, 599_990));
    });
}

#[test]
fn r122_fifty_mebibytes_on_one_line_are_counted_and_not_kept() {
    run(async |world| {
        let line = "head -c 52428800 /dev/zero | tr '\\0' x";
        let output = world.shell.run(ShellCommand { limit_bytes: 1_000, ..ShellCommand::line(line) }).await.unwrap();
        let half = vec![b'x'; 500];
        assert_eq!(output.stdout, Captured { head: half.clone(), tail: half, omitted_bytes: 52_427_800 });
        assert!(output.stdout.head.capacity() + output.stdout.tail.capacity() < 10_000);
    });
}

#[test]
fn r126_a_command_inherits_none_of_our_files() {
    run(async |world| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("open-in-the-harness");
        let open = std::fs::File::create(&file).unwrap();
        let own = std::fs::read_link("/proc/self/fd/1").unwrap();
        let output = world.line("readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2; ls -l /proc/$$/fd").await;
        drop(open);
        let text = stdout(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "/dev/null");
        assert!(lines[1].starts_with("pipe:") && lines[2].starts_with("pipe:") && lines[1] != lines[2], "{text}");
        assert_ne!(lines[1], own.to_str().unwrap());
        assert!(lines.len() > 5 && !text.contains("open-in-the-harness"), "{text}");
    });
}
