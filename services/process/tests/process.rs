//! Processes that are started for real, waited for, found and ended.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use linn_bus::{Seams, TokioRuntime};
use linn_process::{
    Launch, Leader, Looks, Marks, Pipes, Process, Reach, Stream, Watch, family, group_of, next_piece, send_all,
    session_of, write_whole,
};
use rustix::process::{Signal, getpgid, getsid};
use tokio::net::unix::pipe::Receiver;

/// A mark that no other run of these tests has, whatever runs beside it on the machine.
fn mark(name: &str) -> String {
    format!("<{name}-{}>", std::process::id())
}

fn launch(program: &str, arguments: &[&str], mark: &str) -> Launch {
    let path = std::env::var_os("PATH").unwrap();
    Launch {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        cwd: "/".into(),
        environment: vec![("PATH".into(), path), ("LINN_CALL".into(), mark.into())],
        stdin: Stream::Pipe,
        outputs: Stream::Pipe,
    }
}

/// A shell that runs `script` with a mark in its environment.
fn start(script: &str, mark: &str) -> (Leader, Pipes) {
    let mut leader = Leader::start(&launch("sh", &["-c", script], mark)).unwrap();
    let pipes = leader.pipes().unwrap();
    (leader, pipes)
}

/// The whole of an output.
async fn whole(from: &Receiver) -> String {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 4096]);
    while let Some(piece) = next_piece(from, &mut buffer).await {
        all.extend_from_slice(piece);
    }
    String::from_utf8(all).unwrap()
}

/// All that a process prints, and how it ends.
async fn ran(launch: &Launch) -> (String, ExitStatus) {
    let mut leader = Leader::start(launch).unwrap();
    let mut pipes = leader.pipes().unwrap();
    drop(pipes.stdin.take());
    let told = whole(&pipes.stdout).await;
    leader.exited().await;
    (told, leader.reap().unwrap())
}

/// The first piece that it prints.
async fn said(pipes: &Pipes) -> String {
    let mut buffer = [0; 256];
    let piece = next_piece(&pipes.stdout, &mut buffer).await;
    String::from_utf8(piece.unwrap_or_default().to_vec()).unwrap()
}

fn found(leader: &Leader, mark: &str, reach: Reach) -> BTreeSet<Process> {
    family(&Marks { leader: Some(leader.pid()), cookie: mark, known: &BTreeSet::new(), reach })
}

/// Kills all of it, and waits until nobody is there.
async fn end(leader: &mut Leader, mark: &str) {
    let seams: Seams = TokioRuntime::seams();
    let mut looks = Looks::new(Duration::from_millis(1), Duration::from_millis(50));
    loop {
        leader.signal(Signal::KILL);
        let family = found(leader, mark, Reach::All);
        send_all(&family, Signal::KILL);
        if family.is_empty() && leader.has_exited() {
            break;
        }
        leader.changed(&*seams.clock, &mut looks).await;
    }
    leader.reap();
}

#[tokio::test(flavor = "current_thread")]
async fn it_leads_a_session_and_a_group_of_its_own() {
    let (mut leader, pipes) = start("read line", "leads");
    let pid = leader.pid();
    assert_eq!((getsid(Some(pid)).unwrap(), getpgid(Some(pid)).unwrap()), (pid, pid));
    assert!(!leader.has_exited() && leader.reap().is_none() && !leader.is_reaped());
    // The end of its input is the end of it.
    drop(pipes);
    leader.exited().await;
    assert!(leader.has_exited() && !leader.is_reaped());
    assert_eq!(leader.reap().unwrap().code(), Some(1));
    assert!(leader.is_reaped() && leader.reap().is_none());
}

#[tokio::test(flavor = "current_thread")]
async fn input_goes_in_and_outputs_come_out() {
    let (mut leader, pipes) = start("cat; echo error >&2", "streams");
    let input = vec![b'x'; 300_000];
    let Pipes { stdin, stdout, stderr } = pipes;
    let ((), out, err) = tokio::join!(write_whole(stdin, &input), whole(&stdout), whole(&stderr));
    assert_eq!((out.len(), err.as_str()), (input.len(), "error\n"));
    leader.exited().await;
    assert!(leader.reap().unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn who_reads_nothing_is_no_error_of_the_writer() {
    let (mut leader, pipes) = start("exec <&-; echo closed; read line < /dev/tty", "deaf");
    assert_eq!(said(&pipes).await, "closed\n");
    write_whole(pipes.stdin, &[b'x'; 300_000]).await;
    leader.exited().await;
    // It has no terminal to read from.
    assert!(!leader.reap().unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn an_output_without_end_lets_others_run() {
    let (mut leader, pipes) = start("exec yes", &mark("yes"));
    let mut buffer = [0; 16];
    let reading = async { while next_piece(&pipes.stdout, &mut buffer).await.is_some() {} };
    tokio::select! {
        biased;
        () = reading => unreachable!("it writes for ever"),
        () = async { for _ in 0..10 { tokio::task::yield_now().await } } => {}
    }
    end(&mut leader, &mark("yes")).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "current_thread")]
async fn children_are_found_while_it_runs_and_after_it_has_exited() {
    for reach in [Reach::All, Reach::Later] {
        let mark = mark(&format!("children-{reach:?}"));
        let (mut leader, pipes) = start("sleep 1000 & echo up; read line", &mark);
        assert_eq!(said(&pipes).await, "up\n");
        let children = found(&leader, &mark, reach);
        assert_eq!(children.len(), 1, "{reach:?}");
        assert_eq!(group_of(leader.pid()).len(), 2);
        assert_eq!(session_of(leader.pid()).len(), 2);
        drop(pipes);
        leader.exited().await;
        assert_eq!(found(&leader, &mark, reach), children, "{reach:?}");
        // The leader is dead, if not reaped.
        assert_eq!(session_of(leader.pid()), children);
        end(&mut leader, &mark).await;
        assert!(found(&leader, &mark, Reach::All).is_empty());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "current_thread")]
async fn who_left_the_session_is_found_by_the_mark() {
    for reach in [Reach::All, Reach::Later] {
        let mark = mark(&format!("left-{reach:?}"));
        let (mut leader, pipes) = start("setsid sleep 1000 & wait_for=$!; echo $wait_for; exit 0", &mark);
        said(&pipes).await;
        leader.exited().await;
        // It may be on its way into its session still.
        let strays = found(&leader, &mark, reach);
        assert_eq!(strays.len(), 1, "{reach:?}");
        assert!(found(&leader, "another mark", reach).len() <= 1);
        end(&mut leader, &mark).await;
        assert!(family(&Marks { leader: None, cookie: &mark, known: &BTreeSet::new(), reach: Reach::All }).is_empty());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "current_thread")]
async fn who_was_found_before_is_found_again_without_a_leader() {
    let mark = mark("known");
    let (mut leader, pipes) = start("env -i setsid sleep 1000 & echo up; read line", &mark);
    assert_eq!(said(&pipes).await, "up\n");
    let known = found(&leader, &mark, Reach::All);
    assert_eq!(known.len(), 1);
    let later = Marks { leader: None, cookie: &mark, known: &known, reach: Reach::All };
    // The leader carries the mark too.
    assert_eq!(family(&later).difference(&known).count(), 1);
    assert!(family(&later).is_superset(&known));
    send_all(&known, Signal::KILL);
    drop(pipes);
    leader.exited().await;
    leader.reap();
    while !family(&later).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_signal_meets_the_group_until_it_is_reaped() {
    let (mut leader, pipes) = start("trap 'echo heard; exit 3' TERM; echo up; while :; do read line; done", "signal");
    assert_eq!(said(&pipes).await, "up\n");
    leader.signal(Signal::KILL);
    leader.exited().await;
    assert_eq!(leader.reap().unwrap().signal(), Some(9));
    // Its id may be somebody else's now.
    leader.signal(Signal::KILL);
    leader.wait();
    assert!(leader.has_exited());
}

#[tokio::test(flavor = "current_thread")]
async fn it_finds_what_it_was_given_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let held = std::fs::File::create(folder.join("held")).unwrap();
    let given = Launch { cwd: folder.clone(), ..launch("sh", &["-c", "pwd -P; env; ls -l /proc/self/fd >&2"], "m") };
    let mut leader = Leader::start(&given).unwrap();
    let mut pipes = leader.pipes().unwrap();
    drop(pipes.stdin.take());
    let (out, files) = (whole(&pipes.stdout).await, whole(&pipes.stderr).await);
    leader.exited().await;
    assert!(leader.reap().unwrap().success());
    let mut lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.remove(0), folder.display().to_string());
    // The shell sets these by itself.
    lines.retain(|it| !["PWD=", "SHLVL=", "_=", "OLDPWD="].iter().any(|own| it.starts_with(own)));
    lines.sort_unstable();
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    assert_eq!(lines, ["LINN_CALL=m", &path]);
    assert!(files.contains("pipe:") && !files.contains("held"), "{files}");
    drop(held);
}

#[tokio::test(flavor = "current_thread")]
async fn signals_are_as_a_program_finds_them() {
    // Who writes to a pipe that nobody reads ends by the signal for that, which this process does not want.
    let (told, _) = ran(&launch("sh", &["-c", "(yes; echo ended by itself >&3) 3>&1 | head -n 1"], "m")).await;
    assert_eq!(told, "y\n");
    let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2";
    let (told, _) = ran(&launch("sh", &["-c", script], "m")).await;
    let sets: Vec<u64> = told.lines().map(|it| u64::from_str_radix(it, 16).unwrap()).collect();
    let pipe = 1 << (Signal::PIPE.as_raw() - 1);
    assert_eq!((sets[0], sets[1] & pipe), (0, 0), "{told}");
}

#[tokio::test(flavor = "current_thread")]
async fn programs_are_found_by_name_by_path_and_from_the_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str, mode: u32| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        file
    };
    // One that may not run is passed over; one without a first line is a shell script.
    put("first/greet", "#!/bin/sh\necho first", 0o644);
    put("second/greet", "echo second \"$1\"", 0o755);
    let path = format!("{}:second:/usr/bin:/bin", folder.path().join("first").display());
    let here = |program: &str| {
        let environment = vec![("PATH".into(), path.clone().into())];
        Launch { cwd: folder.path().to_owned(), environment, ..launch(program, &["you"], "m") }
    };
    for program in ["greet", "second/greet", "./second/greet"] {
        assert_eq!(ran(&here(program)).await.0, "second you\n", "{program}");
    }
    for (program, kind) in [
        ("nobody", ErrorKind::NotFound),
        ("", ErrorKind::NotFound),
        ("./nobody", ErrorKind::NotFound),
        ("first/greet", ErrorKind::PermissionDenied),
        ("a\0b", ErrorKind::InvalidInput),
    ] {
        let error = Leader::start(&here(program)).map(drop).unwrap_err();
        // A name without a place is not found before its bytes are looked at.
        let is_nul = program.contains('\0') && error.kind() == ErrorKind::NotFound;
        assert!(error.kind() == kind || is_nul, "{program:?}: {error}");
    }
    let lost = Launch { cwd: folder.path().join("nowhere"), ..launch("/bin/sh", &[], "m") };
    assert_eq!(Leader::start(&lost).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "current_thread")]
async fn without_pipes_there_are_none_to_hand_out() {
    let silent = Launch {
        stdin: Stream::Null,
        outputs: Stream::Null,
        ..launch("sh", &["-c", "read line; echo into nothing; echo into nothing >&2"], "m")
    };
    let mut leader = Leader::start(&silent).unwrap();
    assert_eq!(leader.pipes().unwrap_err().to_string(), "a pipe is missing");
    leader.exited().await;
    assert!(leader.reap().unwrap().success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_watch_whose_owner_is_gone_ends_what_carries_the_mark_and_nothing_else() {
    let (mark, other_mark) = (mark("watched"), mark("other"));
    let (marked, marked_pipes) = start("setsid sh -c 'echo $$; exec sleep 300' & echo $$; wait", &format!("{mark}1."));
    let (mut other, other_pipes) = start("echo $$; exec sleep 300", &other_mark);
    said(&other_pipes).await;
    let mut pids = Vec::new();
    while pids.len() < 2 {
        pids.extend(said(&marked_pipes).await.lines().map(|it| it.parse::<i32>().unwrap()));
    }
    let watch = Watch::start(&mark).unwrap();
    drop(watch);
    // Both held the output: it ends with the last of them.
    assert_eq!(whole(&marked_pipes.stdout).await, "");
    assert!(!other.has_exited());
    let mut marked = marked;
    marked.exited().await;
    assert_eq!(marked.reap().unwrap().signal(), Some(9));
    end(&mut other, &other_mark).await;
}

#[tokio::test]
async fn a_watch_that_is_ended_ends_nothing() {
    let mark = mark("let-be");
    let (mut leader, pipes) = start("echo $$; exec sleep 300", &mark);
    said(&pipes).await;
    let watch = Watch::start(&mark).unwrap();
    watch.end().await;
    assert!(!leader.has_exited());
    end(&mut leader, &mark).await;
}
