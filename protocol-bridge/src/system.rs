//! Standard input and output. This is the one module that opens them.
//!
//! On Unix the program's own descriptors of them are put aside for the protocol: what a plugin or a library prints to
//! standard output, or a child that inherits it, goes to standard error, and whoever reads standard input finds nothing. So
//! each line of the output is one of the protocol.
//!
//! Each has a thread of its own, since reading and writing them blocks. The threads are waited for by nobody: one that
//! reads cannot be woken, and must not keep a program from ending.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The system and the processor that the program was built for.
pub(crate) const PLATFORM: (&str, &str) = (std::env::consts::OS, std::env::consts::ARCH);

/// How much of the input is read at once.
const READ_BYTES: usize = 64 << 10;

/// How much may wait for its thread.
const MOST_WAITING: usize = 128 << 10;

/// Standard input and output of the program, for a [`BridgeConfig`](crate::BridgeConfig). To be called once.
///
/// From then on standard output is standard error for everybody else in the program, and standard input is empty.
///
/// # Errors
///
/// The system gives no descriptor or no thread.
pub fn stdio() -> io::Result<(impl AsyncRead + Send + Unpin, impl AsyncWrite + Send + Unpin)> {
    let (source, target) = put_aside()?;
    let (input, output) = (Pipe::new(), Pipe::new());
    let (read, write) = (input.clone(), output.clone());
    start("stdin", move || read_all(source, &read))?;
    start("stdout", move || write_all(target, &write))?;
    Ok((Input(input), PipedOutput(output)))
}

/// The streams, out of the reach of others.
#[cfg(unix)]
fn put_aside() -> io::Result<(std::fs::File, std::fs::File)> {
    use rustix::io::fcntl_dupfd_cloexec;
    use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

    // What was printed before this moment is on its way already.
    io::stdout().flush()?;
    let (source, target) = (fcntl_dupfd_cloexec(stdin(), 3)?, fcntl_dupfd_cloexec(stdout(), 3)?);
    dup2_stdin(std::fs::File::open("/dev/null")?)?;
    dup2_stdout(stderr())?;
    Ok((source.into(), target.into()))
}

/// The streams; here they stay where others reach them.
#[cfg(not(unix))]
fn put_aside() -> io::Result<(io::Stdin, io::Stdout)> {
    Ok((io::stdin(), io::stdout()))
}

#[expect(clippy::disallowed_methods, reason = "a thread that blocks on standard input ends with the program alone")]
fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// Bytes between a thread and a task.
struct Pipe {
    state: Mutex<State>,
    /// Tells the thread.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// The thread has taken bytes and not written them yet.
    is_writing: bool,
    is_over: bool,
    error: Option<io::Error>,
    /// Tells the task.
    waker: Option<Waker>,
}

impl Pipe {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait_for_thread(&mut self, cx: &Context<'_>) {
        if !self.waker.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }
}

fn read_all(mut source: impl Read, pipe: &Pipe) {
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let read = source.read(&mut chunk);
        let mut state = pipe.state();
        match read {
            Ok(0) => state.is_over = true,
            Ok(n) => state.bytes.extend(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => (state.is_over, state.error) = (true, Some(error)),
        }
        state.wake();
        if state.is_over {
            return;
        }
        while state.bytes.len() >= MOST_WAITING {
            state = pipe.wait(state);
        }
    }
}

fn write_all(mut output: impl Write, pipe: &Pipe) {
    loop {
        let chunk = {
            let mut state = pipe.state();
            while state.bytes.is_empty() && !state.is_over {
                state = pipe.wait(state);
            }
            if state.bytes.is_empty() {
                return;
            }
            state.is_writing = true;
            std::mem::take(&mut state.bytes)
        };
        let (first, second) = chunk.as_slices();
        let written = output.write_all(first).and_then(|()| output.write_all(second)).and_then(|()| output.flush());
        let mut state = pipe.state();
        state.is_writing = false;
        if let Err(error) = written {
            (state.is_over, state.error) = (true, Some(error));
            state.bytes.clear();
        }
        state.wake();
    }
}

struct Input(Arc<Pipe>);

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        if state.bytes.is_empty() {
            if let Some(error) = state.error.take() {
                return Poll::Ready(Err(error));
            }
            if state.is_over {
                return Poll::Ready(Ok(()));
            }
            state.wait_for_thread(cx);
            return Poll::Pending;
        }
        let n = state.bytes.len().min(buffer.remaining());
        let (first, second) = state.bytes.as_slices();
        let n_first = n.min(first.len());
        buffer.put_slice(&first[..n_first]);
        buffer.put_slice(&second[..n - n_first]);
        state.bytes.drain(..n);
        self.0.changed.notify_one();
        Poll::Ready(Ok(()))
    }
}

struct PipedOutput(Arc<Pipe>);

impl Drop for PipedOutput {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_one();
    }
}

/// The error that ended the thread; the first who asks gets it in full.
fn failed(state: &mut State) -> Option<io::Error> {
    match state.error.take() {
        Some(error) => {
            state.error = Some(error.kind().into());
            Some(error)
        }
        None => None,
    }
}

impl AsyncWrite for PipedOutput {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.state();
        if let Some(error) = failed(&mut state) {
            return Poll::Ready(Err(error));
        }
        let room = MOST_WAITING.saturating_sub(state.bytes.len());
        if room == 0 {
            state.wait_for_thread(cx);
            return Poll::Pending;
        }
        let n = room.min(bytes.len());
        state.bytes.extend(&bytes[..n]);
        self.0.changed.notify_one();
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        if let Some(error) = failed(&mut state) {
            return Poll::Ready(Err(error));
        }
        if state.bytes.is_empty() && !state.is_writing {
            return Poll::Ready(Ok(()));
        }
        state.wait_for_thread(cx);
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
