//! One command from its start to its end.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::{Fuse, FusedFuture, join3};
use linn_services::shell::{Captured, ShellCommand, ShellError, ShellOutput, ShellProgram, ShellStream};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
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
    let (group, pipes) = start(house, &command)?;
    let mut leash = Leash::new(house.clone(), group);

    let (mut stdout, mut stderr) = (Capture::new(command.limit_bytes), Capture::new(command.limit_bytes));
    let mut output = ShellOutput::default();
    let mut is_open = false;
    {
        let hear = |stream| {
            let on_output = command.on_output.clone();
            move |piece: &[u8]| on_output.as_ref().into_iter().for_each(|it| it(stream, piece))
        };
        let read_stdout = read(&pipes.stdout, &mut stdout, hear(ShellStream::Stdout));
        let read_stderr = read(&pipes.stderr, &mut stderr, hear(ShellStream::Stderr));
        let write_stdin = write(pipes.stdin, &pipes.input);
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

/// The ends of a command's pipes that are ours.
struct Pipes {
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Receiver,
    input: Zeroizing<Vec<u8>>,
}

fn start(house: &House, call: &ShellCommand) -> Result<(Group, Pipes), ShellError> {
    let cwd = folder(house, call)?;
    let (program, arguments) = program(house, call);
    let mut texts = [&program].into_iter().chain(&arguments).map(String::as_str).chain(cwd.to_str());
    if texts.any(|it| it.contains('\0')) {
        return Err(ShellError::Nul);
    }
    let mut input = Zeroizing::new(Vec::new());
    if let Some(password) = &call.password {
        input.extend_from_slice(password.reveal().as_bytes());
        input.push(b'\n');
    }
    input.extend_from_slice(&call.stdin);

    #[expect(clippy::disallowed_methods, reason = "this is the seam through which processes are started")]
    let mut command = Command::new(&program);
    let (mark, cookie) = house.mark_of_call();
    command.args(&arguments).current_dir(&cwd).env_clear();
    command.envs(house.environment.of_commands(own_environment())).env("PWD", &cwd);
    let failed = |why: io::Error| ShellError::Start { program: program.clone(), why: why.to_string() };
    for (name, value) in &call.env {
        if name.contains('\0') || value.as_ref().is_some_and(|it| it.contains('\0')) {
            return Err(ShellError::Nul);
        }
        if name.is_empty() || name.contains('=') {
            return Err(failed(io::Error::other(format!("`{name}` is no name of a variable"))));
        }
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env(COOKIE, cookie);
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());

    let _entered = house.runtime.enter();
    let mut group = Group::start(command, mark).map_err(failed)?;
    let (stdin, stdout, stderr) = group.pipes();
    let pipes = || {
        let missing = || io::Error::other("a pipe is missing");
        let receiver = |it: Option<OwnedFd>| Receiver::from_owned_fd(it.ok_or_else(missing)?);
        let (stdout, stderr) = (receiver(stdout.map(Into::into))?, receiver(stderr.map(Into::into))?);
        let stdin = stdin.map(|it| Sender::from_owned_fd(it.into())).transpose()?;
        Ok(Pipes { stdin, stdout, stderr, input })
    };
    // A group that is dropped here is killed.
    pipes().map(|it| (group, it)).map_err(failed)
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

/// The next piece of an output; none at its end.
async fn next_piece<'a>(from: &Receiver, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    loop {
        from.readable().await.ok()?;
        match from.try_read(buffer) {
            Ok(0) => return None,
            Ok(n) => return Some(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A pipe that cannot be read has no more to say.
            Err(_) => return None,
        }
    }
}

/// Writes the input and closes it.
async fn write(into: Option<Sender>, input: &[u8]) {
    if let Some(mut into) = into {
        // A command may close its input before it has read all of it.
        drop(into.write_all(input).await);
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
