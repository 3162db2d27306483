//! One command from its start to its end.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::future::poll_fn;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::{Fuse, FusedFuture, join3};
use linn_process::{Launch, Pipes, Stream, next_piece, write_whole};
use linn_services::secrets::secrets_of;
use linn_services::shell::{Captured, ShellCommand, ShellError, ShellOutput, ShellProgram, ShellStream};
use tokio::net::unix::pipe::Receiver;
use zeroize::Zeroizing;

use crate::capture::Capture;
use crate::system::group::Group;
use crate::system::house::{COOKIE, House, Leash};
use crate::system::own_environment;

/// How much is read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Asks for rights with the password that stands in the first line of the input. Only builtins of the shell see it, and
/// nothing runs before it is read. From then on `sudo` has its rights by the ticket it keeps for this shell, and fails where
/// it would ask.
const WITH_PASSWORD: &str = "\
IFS= read -r LINN_PASSWORD || exit 1
printf '%s\\n' \"$LINN_PASSWORD\" | command sudo -S -p '' -v || exit 1
unset LINN_PASSWORD
sudo() { command sudo -n \"$@\"; }
";

/// Why a command is waited for no longer.
enum End {
    Exited,
    TimedOut,
    Cancelled,
}

/// Runs a command; see [`Shell::run`](linn_services::shell::Shell::run).
pub(crate) async fn run(house: &Arc<House>, command: ShellCommand) -> Result<ShellOutput, ShellError> {
    let timeout = command.timeout.map(|it| house.clock.sleep(it));
    if command.signal.is_cancelled() {
        return Ok(ShellOutput { cancelled: true, ..ShellOutput::default() });
    }
    let (group, pipes, input) = start(house, &command)?;
    let mut leash = Leash::new(house.clone(), group);

    let (mut stdout, mut stderr) = (Capture::new(command.limit_bytes), Capture::new(command.limit_bytes));
    let mut output = ShellOutput::default();
    let mut is_open = false;
    {
        let hear = |stream| {
            let on_output = command.on_output.clone();
            move |piece: &[u8]| on_output.as_ref().into_iter().for_each(|it| it.hear(stream, piece))
        };
        let read_stdout = read(&pipes.stdout, &mut stdout, hear(ShellStream::Stdout));
        let read_stderr = read(&pipes.stderr, &mut stderr, hear(ShellStream::Stderr));
        let write_stdin = write_whole(pipes.stdin, &input);
        let mut streams = pin!(join3(read_stdout, read_stderr, write_stdin).fuse());

        let end = alongside(streams.as_mut(), until_end(&mut leash, timeout, &command)).await;
        let status = match end {
            End::Exited => {
                let (status, left) = leash.group().reap();
                house.leave(left);
                // What it wrote is in the pipes already; what it left behind may hold them open for ever.
                is_open = !ends_within(streams.as_mut(), house.clock.sleep(house.drain)).await;
                output.left_behind = is_open;
                status
            }
            End::TimedOut | End::Cancelled => {
                output.timed_out = matches!(end, End::TimedOut);
                output.cancelled = matches!(end, End::Cancelled);
                let status = alongside(streams.as_mut(), leash.group().end(&*house.clock, house.grace)).await;
                // Nobody is left who could hold them open, but for those who could not be found.
                ends_within(streams.as_mut(), house.clock.sleep(house.drain)).await;
                status
            }
        };
        output.signal = status.and_then(|it| it.signal());
        output.exit_code = status.and_then(|it| it.code()).filter(|_| matches!(end, End::Exited));
    }
    leash.release();
    if is_open {
        read_on(house, pipes.stdout);
        read_on(house, pipes.stderr);
    }
    let finish = |capture: Capture| -> Captured { capture.finish() };
    Ok(ShellOutput { stdout: finish(stdout), stderr: finish(stderr), ..output })
}

/// Starts it; what is written to it is the last.
fn start(house: &House, call: &ShellCommand) -> Result<(Group, Pipes, Zeroizing<Vec<u8>>), ShellError> {
    let cwd = folder(house, call)?;
    let (program, arguments) = program(house, call);
    let texts = [&program].into_iter().chain(&arguments).map(String::as_str);
    if texts.chain(cwd.to_str()).any(|it| it.contains('\0')) {
        return Err(ShellError::Nul);
    }
    let mut input = Zeroizing::new(Vec::new());
    if let Some(password) = &call.password {
        input.extend_from_slice(password.reveal().as_bytes());
        input.push(b'\n');
    }
    input.extend_from_slice(&call.stdin);

    let (mark, cookie) = house.mark_of_call();
    let mut environment: BTreeMap<OsString, OsString> =
        house.environment.of_commands(own_environment(), &secrets_of(&house.ctx)).into_iter().collect();
    environment.insert("PWD".into(), cwd.clone().into_os_string());
    let failed = |why: io::Error| ShellError::Start { program: program.clone(), why: why.to_string() };
    for (name, value) in &call.env {
        if name.contains('\0') || value.as_ref().is_some_and(|it| it.contains('\0')) {
            return Err(ShellError::Nul);
        }
        if name.is_empty() || name.contains('=') {
            return Err(failed(io::Error::other(format!("`{name}` is no name of a variable"))));
        }
        match value {
            Some(value) => environment.insert(name.into(), value.into()),
            None => environment.remove(OsStr::new(name)),
        };
    }
    environment.insert(COOKIE.into(), cookie.into());
    let launch = Launch {
        program: program.clone().into(),
        arguments: arguments.into_iter().map(OsString::from).collect(),
        cwd,
        environment: environment.into_iter().collect(),
        stdin: if input.is_empty() { Stream::Null } else { Stream::Pipe },
        outputs: Stream::Pipe,
    };

    let _entered = house.runtime.enter();
    house.watch();
    let mut group = Group::start(&launch, mark).map_err(failed)?;
    // A group that is dropped here is killed.
    let pipes = group.pipes().map_err(failed)?;
    Ok((group, pipes, input))
}

/// The folder it runs in, which has to be there: the system would blame the program.
fn folder(house: &House, call: &ShellCommand) -> Result<PathBuf, ShellError> {
    let cwd = match (&call.cwd, &house.workspace) {
        (Some(cwd), _) => PathBuf::from(cwd),
        (None, Some(workspace)) => workspace.clone(),
        (None, None) => {
            std::env::current_dir().map_err(|why| no_folder(Path::new("the folder of the harness"), &why))?
        }
    };
    match std::fs::metadata(&cwd) {
        Ok(it) if it.is_dir() => Ok(cwd),
        Ok(_) => Err(no_folder(&cwd, &io::Error::from(io::ErrorKind::NotADirectory))),
        Err(why) => Err(no_folder(&cwd, &why)),
    }
}

fn no_folder(cwd: &Path, why: &io::Error) -> ShellError {
    ShellError::NoFolder { cwd: cwd.display().to_string(), why: why.to_string() }
}

fn program(house: &House, call: &ShellCommand) -> (String, Vec<String>) {
    let by_shell = |script: String, more: &[String]| {
        let arguments = ["-c".to_owned(), script].into_iter().chain(more.iter().cloned());
        (house.shell.clone(), arguments.collect())
    };
    match (&call.program, &call.password) {
        (ShellProgram::Line(line), None) => by_shell(line.clone(), &[]),
        (ShellProgram::Line(line), Some(_)) => by_shell(format!("{WITH_PASSWORD}{line}"), &[]),
        (ShellProgram::Exec { program, arguments }, None) => (program.clone(), arguments.clone()),
        (ShellProgram::Exec { program, arguments }, Some(_)) => {
            let words: Vec<String> = [&house.shell, program].into_iter().chain(arguments).cloned().collect();
            by_shell(format!("{WITH_PASSWORD}\"$@\""), &words)
        }
    }
}

/// Waits for the first of its exit, its time limit and its signal.
async fn until_end(leash: &mut Leash, timeout: Option<linn_bus::BoxFuture<'static, ()>>, call: &ShellCommand) -> End {
    let mut exited = pin!(leash.group().exited());
    let mut cancelled = pin!(call.signal.cancelled());
    let mut timeout = timeout;
    poll_fn(|cx| {
        if exited.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Exited);
        }
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Cancelled);
        }
        match timeout.as_mut().map(|it| it.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(End::TimedOut),
            _ => Poll::Pending,
        }
    })
    .await
}

/// Runs `main` to its end while the streams flow.
async fn alongside<T>(mut streams: Pin<&mut impl FusedFuture>, main: impl Future<Output = T>) -> T {
    let mut main = pin!(main);
    poll_fn(|cx| {
        if !streams.is_terminated() {
            drop(streams.as_mut().poll(cx));
        }
        main.as_mut().poll(cx)
    })
    .await
}

/// Whether the streams end before `limit`.
async fn ends_within<F: Future>(mut streams: Pin<&mut Fuse<F>>, mut limit: linn_bus::BoxFuture<'static, ()>) -> bool {
    poll_fn(|cx| {
        if streams.is_terminated() || streams.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        limit.as_mut().poll(cx).map(|()| false)
    })
    .await
}

/// Reads an output to its end.
async fn read(from: &Receiver, into: &mut Capture, hear: impl Fn(&[u8])) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Some(piece) = next_piece(from, &mut buffer).await {
        into.push(piece);
        hear(piece);
    }
}

/// Reads what something left behind goes on to write, for nobody, so that it can go on.
fn read_on(house: &House, from: Receiver) {
    let reading = async move {
        let mut buffer = vec![0; 4096];
        while next_piece(&from, &mut buffer).await.is_some() {}
    };
    // When the plugin is going, what was left behind goes with it.
    drop(house.ctx.spawn(reading));
}
