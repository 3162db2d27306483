//! How commands end, and what is left of them.

use std::time::Duration;

use linn_services::shell::{ShellCommand, ShellError, ShellOutput};
use tokio_util::sync::CancellationToken;

use crate::support::{HELD_S, Heard, World, assert_none_run, is_reaped, run, runs, stdout, until};

fn held(line: &str) -> ShellCommand {
    ShellCommand { timeout: Some(Duration::from_secs(HELD_S)), ..ShellCommand::line(line) }
}

/// Runs a line to its time limit, which is over when the line has said `n_pids` process ids; none of them runs then.
async fn times_out(world: &World, line: &str, n_pids: usize) -> ShellOutput {
    let heard = Heard::default();
    let fire = async {
        let pids = heard.pids(n_pids).await;
        world.fire.cancel();
        pids
    };
    let (output, pids) = futures_util::future::join(world.shell.run(heard.listen(held(line))), fire).await;
    let output = output.unwrap();
    assert!(output.timed_out && output.exit_code.is_none() && !output.cancelled, "{output:?}");
    assert_none_run(&pids);
    output
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    run(async |world| {
        let exited = world.line("exit 3").await;
        assert_eq!((exited.exit_code, exited.signal, exited.timed_out), (Some(3), None, false));
        let killed = world.line("kill -9 $$").await;
        assert_eq!((killed.exit_code, killed.signal), (None, Some(9)));
    });
}

#[test]
fn what_cannot_start_is_named() {
    run(async |world| {
        let missing = ShellCommand::exec("no-such-program-anywhere", vec![]);
        let error = world.shell.run(missing).await.unwrap_err();
        assert_eq!(error.code(), "SHELL_START");
        assert!(error.to_string().starts_with("cannot start `no-such-program-anywhere`: "), "{error}");
        assert_eq!(world.shell.run(ShellCommand::line("a\0b")).await.unwrap_err(), ShellError::Nul);
    });
}

#[test]
fn arguments_reach_a_program_as_they_are() {
    run(async |world| {
        let arguments = ["%s|", "a b", "$HOME", "", "'"].map(str::to_owned).to_vec();
        let output = world.shell.run(ShellCommand::exec("printf", arguments)).await.unwrap();
        assert_eq!(stdout(&output), "a b|$HOME||'|");
    });
}

#[test]
fn r048_a_folder_that_is_gone_is_named() {
    run(async |world| {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().to_str().unwrap().to_owned();
        let command = ShellCommand { cwd: Some(cwd.clone()), ..ShellCommand::line("pwd") };
        let output = world.shell.run(command.clone()).await.unwrap();
        assert_eq!(stdout(&output).trim_end(), folder.path().canonicalize().unwrap().to_str().unwrap());
        folder.close().unwrap();
        let error = world.shell.run(command).await.unwrap_err();
        assert_eq!(error.code(), "SHELL_NO_FOLDER");
        assert!(error.to_string().starts_with(&format!("cannot run a command in {cwd}: ")), "{error}");
    });
}

#[test]
fn r117_a_background_child_that_keeps_the_pipe_holds_nothing_up() {
    run(async |world| {
        let line = "sleep 300 & echo $!\nsleep 300 </dev/null >/dev/null 2>&1 & echo $!\n\
                    echo started; sleep 300 & echo $!; echo done; echo $$";
        let limit = Some(Duration::from_secs(20));
        let output = world.shell.run(ShellCommand { timeout: limit, ..ShellCommand::line(line) }).await.unwrap();
        assert!(output.left_behind && !output.timed_out && output.exit_code == Some(0), "{output:?}");
        let text = stdout(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[2], lines[4]), ("started", "done"));
        let pids: Vec<i32> = [0, 1, 3].map(|at| lines[at].parse().unwrap()).to_vec();
        assert!(pids.iter().all(|it| runs(*it)), "what was left is let be");
        assert!(is_reaped(lines[5].parse().unwrap()));
        world.plugin.dispose().await.unwrap();
        assert_none_run(&pids);
    });
}

#[test]
fn r117_what_was_left_behind_can_go_on_to_write() {
    run(async |world| {
        let folder = tempfile::tempdir().unwrap();
        // It writes more than a pipe holds, and says when it is through.
        let line = "(head -c 1000000 /dev/zero; while ! test -e go; do sleep 0.01; done; \
                    head -c 1000000 /dev/zero && touch through) & echo started";
        let cwd = Some(folder.path().to_str().unwrap().to_owned());
        let output = world.shell.run(ShellCommand { cwd, ..ShellCommand::line(line) }).await.unwrap();
        assert!(output.left_behind);
        std::fs::write(folder.path().join("go"), "").unwrap();
        until(|| folder.path().join("through").exists()).await;
    });
}

#[test]
fn a_background_child_without_the_pipe_is_not_told_of() {
    run(async |world| {
        let output = world.line("sleep 300 >/dev/null 2>&1 & echo $!").await;
        assert!(!output.left_behind);
        let pid = stdout(&output).trim().parse().unwrap();
        assert!(runs(pid));
        world.plugin.dispose().await.unwrap();
        assert_none_run(&[pid]);
    });
}

#[test]
fn r118_a_time_limit_ends_the_whole_group_and_keeps_what_was_said() {
    run(async |world| {
        let output = times_out(&world, "echo $$; sh -c 'sh -c \"echo \\$\\$; exec sleep 300\" | cat'", 2).await;
        assert_eq!(stdout(&output).lines().count(), 2);
        let leader = stdout(&output).lines().next().unwrap().parse().unwrap();
        assert!(is_reaped(leader));
    });
}

#[test]
fn r118_a_time_limit_ends_what_left_the_session() {
    run(async |world| {
        let line = "setsid sh -c 'echo $$; exec sleep 300' & setsid sh -c 'echo $$; trap \"\" TERM; sleep 300; sleep 300' & wait";
        times_out(&world, line, 2).await;
    });
}

#[test]
fn r118_a_time_limit_ends_what_lost_its_parents() {
    run(async |world| {
        let line = "(setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 300\" &)' &); sleep 300";
        times_out(&world, line, 1).await;
    });
}

#[test]
fn r118_a_time_limit_ends_what_cleared_its_environment() {
    run(async |world| {
        let line = "env -i setsid sh -c 'echo $$; exec sleep 300' & wait";
        times_out(&world, line, 1).await;
    });
}

#[test]
fn r118_a_time_limit_ends_what_is_stopped() {
    run(async |world| {
        let line = "sh -c 'echo $$; kill -STOP $$' & echo $$; kill -STOP $$";
        times_out(&world, line, 2).await;
    });
}

#[test]
fn a_command_may_clean_up_when_it_is_ended() {
    run(async |world| {
        let line = "trap 'echo 7; exit 0' TERM; echo $$; while :; do sleep 300 & wait $!; done";
        let output = times_out(&world, line, 1).await;
        assert!(stdout(&output).ends_with("\n7\n"), "{output:?}");
    });
}

#[test]
fn r112_a_command_that_ignores_its_end_is_killed() {
    run(async |world| {
        let output = times_out(&world, "trap '' TERM INT HUP; echo $$; while :; do sleep 300; done", 1).await;
        assert_eq!(output.signal, Some(9));
    });
}

#[test]
fn r110_a_signal_ends_the_command_before_the_result_is_there() {
    run(async |world| {
        let (heard, signal) = (Heard::default(), CancellationToken::new());
        let line = "echo $$; sh -c 'echo $$; sleep 300'; sleep 300";
        let command = heard.listen(ShellCommand { signal: signal.clone(), ..ShellCommand::line(line) });
        let cancel = async {
            let pids = heard.pids(2).await;
            signal.cancel();
            pids
        };
        let (output, pids) = futures_util::future::join(world.shell.run(command), cancel).await;
        let output = output.unwrap();
        assert!(output.cancelled && !output.timed_out && output.exit_code.is_none(), "{output:?}");
        assert_none_run(&pids);
        assert!(is_reaped(pids[0]));
        let again = ShellCommand { signal, ..ShellCommand::line("echo no > /proc/self/nowhere") };
        assert!(world.shell.run(again).await.unwrap().cancelled);
    });
}

#[test]
fn r110_a_caller_that_goes_leaves_no_process() {
    run(async |world| {
        let heard = Heard::default();
        let command =
            heard.listen(ShellCommand::line("echo $$; sh -c 'trap \"\" TERM; echo $$; sleep 300; sleep 300'"));
        let pids = {
            let running = std::pin::pin!(world.shell.run(command));
            let pids = std::pin::pin!(heard.pids(2));
            match futures_util::future::select(running, pids).await {
                futures_util::future::Either::Left((output, _)) => panic!("it ended: {output:?}"),
                futures_util::future::Either::Right((pids, _)) => pids,
            }
        };
        until(|| pids.iter().all(|it| !runs(*it)) && is_reaped(pids[0])).await;
    });
}

#[test]
fn many_commands_leave_no_zombies() {
    run(async |world| {
        let many = (0..40).map(|_| world.line("true & echo $$"));
        for output in futures_util::future::join_all(many).await {
            let pid = stdout(&output).trim().parse().unwrap();
            assert!(is_reaped(pid), "{pid}");
        }
    });
}
