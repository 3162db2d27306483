//! What a process reads and writes.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::coop::consume_budget;

use crate::spawn::Ends;

/// The ends of the pipes of a process that are ours.
#[derive(Debug)]
pub struct Pipes {
    /// Its standard input, if that is a pipe.
    pub stdin: Option<Sender>,
    /// Its standard output.
    pub stdout: Receiver,
    /// Its standard error.
    pub stderr: Receiver,
}

impl Pipes {
    pub(crate) fn of(ends: Ends) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe is missing");
        let receiver = |it: Option<OwnedFd>| Receiver::from_owned_fd(it.ok_or_else(missing)?);
        let stdin = ends.stdin.map(Sender::from_owned_fd).transpose()?;
        Ok(Self { stdin, stdout: receiver(ends.stdout)?, stderr: receiver(ends.stderr)? })
    }
}

/// The next piece of an output, in the buffer; none at its end. A pipe that cannot be read has no more to say.
///
/// Cancel safe.
pub async fn next_piece<'a>(from: &Receiver, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    loop {
        // What is always ready, such as the output of `yes`, would let nobody else run.
        consume_budget().await;
        match from.try_read(buffer) {
            Ok(0) => return None,
            Ok(n) => return Some(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => from.readable().await.ok()?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Writes an input and closes it. Who reads it may close it before all of it is read, and that is no error.
///
/// Dropping the future closes the input where it is.
pub async fn write_whole(into: Option<Sender>, input: &[u8]) {
    if let Some(mut into) = into {
        drop(into.write_all(input).await);
    }
}
