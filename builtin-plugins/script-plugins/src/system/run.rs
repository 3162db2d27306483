//! One script from its start to its end.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, FusedFuture, select, try_join3};
use linn_bus::{BoxFuture, Clock};
use linn_process::{Launch, Pipes, Stream, next_piece, write_whole};
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::system::group::Group;

/// How much is read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// How long outputs that something left behind holds open are read after the script has exited.
const DRAIN: Duration = Duration::from_millis(200);

/// What to run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<PathBuf>,
    pub(crate) cwd: PathBuf,
    /// All of its environment; the mark is added.
    pub(crate) environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    pub(crate) stdin: Vec<u8>,
    /// Wall time from the start to the last byte.
    pub(crate) timeout: Duration,
    /// How much each of its outputs may be.
    pub(crate) limit_bytes: usize,
    pub(crate) signal: CancellationToken,
    /// Unique among all scripts that run on this machine.
    pub(crate) mark: String,
}

/// The variable that marks what a script started.
pub(crate) const MARK: &str = "LINN_CALL";

/// What came of a script that exited by itself.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum NotRan {
    /// It could not be started.
    Start(io::Error),
    /// It reached its time limit.
    TimedOut,
    /// It wrote more than is taken; the name of the output.
    TooMuch(&'static str),
    /// Its signal ended it.
    Cancelled,
}

/// Runs a script to its end, its time limit or its signal. Whatever came of it, all it started is gone when this returns.
///
/// Dropping the future kills all of it at once.
pub(crate) async fn run(clock: &Arc<dyn Clock>, runtime: &Handle, run: Run) -> Result<Ran, NotRan> {
    if run.signal.is_cancelled() {
        return Err(NotRan::Cancelled);
    }
    if run.timeout.is_zero() {
        return Err(NotRan::TimedOut);
    }
    let mut deadline = clock.sleep(run.timeout);
    let (mut group, pipes) = start(runtime, &run).map_err(NotRan::Start)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let outcome = {
        let read_stdout = read(&pipes.stdout, &mut stdout, run.limit_bytes, "stdout");
        let read_stderr = read(&pipes.stderr, &mut stderr, run.limit_bytes, "stderr");
        let mut streams =
            pin!(try_join3(read_stdout, read_stderr, write_whole(pipes.stdin, &run.stdin).map(Ok)).fuse());
        match until_exit(&mut group, streams.as_mut(), &mut deadline, &run.signal).await {
            // What it wrote is in the pipes already; what it left behind may hold them open for ever.
            Ok(()) if !streams.is_terminated() => {
                match select(streams.as_mut(), select(clock.sleep(DRAIN), deadline)).await {
                    Either::Left((streamed, _)) => streamed.map(drop),
                    Either::Right(_) => Ok(()),
                }
            }
            ended => ended,
        }
    };
    let status = group.end(&**clock).await;
    outcome.map(|()| Ran { status, stdout, stderr })
}

/// Lets the streams flow until the script exits, whatever comes first of that, its limits and its signal.
async fn until_exit<F>(
    group: &mut Group,
    mut streams: Pin<&mut F>,
    deadline: &mut BoxFuture<'static, ()>,
    signal: &CancellationToken,
) -> Result<(), NotRan>
where
    F: Future<Output = Result<((), (), ()), NotRan>> + FusedFuture,
{
    let mut exited = pin!(group.exited());
    let mut cancelled = pin!(signal.cancelled());
    poll_fn(|cx| {
        if !streams.is_terminated()
            && let Poll::Ready(Err(too_much)) = streams.as_mut().poll(cx)
        {
            return Poll::Ready(Err(too_much));
        }
        if exited.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(NotRan::Cancelled));
        }
        deadline.as_mut().poll(cx).map(|()| Err(NotRan::TimedOut))
    })
    .await
}

fn start(runtime: &Handle, run: &Run) -> io::Result<(Group, Pipes)> {
    let mark = (MARK.into(), run.mark.as_str().into());
    let launch = Launch {
        program: run.program.clone().into_os_string(),
        arguments: run.arguments.iter().map(|it| it.clone().into_os_string()).collect(),
        cwd: run.cwd.clone(),
        environment: run.environment.iter().cloned().chain([mark]).collect(),
        stdin: Stream::Pipe,
        outputs: Stream::Pipe,
    };
    let _entered = runtime.enter();
    let mut group = Group::start(&launch, run.mark.clone())?;
    // A group that is dropped here is killed.
    let pipes = group.pipes()?;
    Ok((group, pipes))
}

/// Reads an output to its end.
///
/// # Errors
///
/// It is more than the limit.
async fn read(from: &Receiver, into: &mut Vec<u8>, limit_bytes: usize, name: &'static str) -> Result<(), NotRan> {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Some(piece) = next_piece(from, &mut buffer).await {
        if into.len() + piece.len() > limit_bytes {
            return Err(NotRan::TooMuch(name));
        }
        into.extend_from_slice(piece);
    }
    Ok(())
}
