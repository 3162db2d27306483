//! The lines of standard input, for whoever waits for one: the conversation, or a question.

use std::io::{self, BufRead as _};
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

/// Lines that were read and nobody has taken yet, at most.
const MOST_WAITING: usize = 16;

/// The lines of standard input. One thread reads them, from the first time that somebody asks for one, and ends with the
/// program.
pub(crate) struct Lines(Mutex<Option<mpsc::Receiver<io::Result<Vec<u8>>>>>);

impl Lines {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(None)))
    }

    /// The next line, without its end; `None` when there are no more. Cancel safe: a line that nobody took is there for the
    /// next who asks.
    ///
    /// # Errors
    ///
    /// Standard input cannot be read, or the line is no UTF-8; the next one may be had all the same.
    pub(crate) async fn next(&self) -> io::Result<Option<String>> {
        let mut lines = self.0.lock().await;
        let lines = match &mut *lines {
            Some(lines) => lines,
            none => none.insert(read_all()?),
        };
        let Some(line) = lines.recv().await.transpose()? else { return Ok(None) };
        match String::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line is no UTF-8")),
        }
    }

    /// Forgets what was typed already: it was no answer to what is asked now.
    pub(crate) async fn forget(&self) {
        if let Some(lines) = &mut *self.0.lock().await {
            while lines.try_recv().is_ok() {}
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread that blocks on standard input ends with the program alone")]
fn read_all() -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (sender, lines) = mpsc::channel(MOST_WAITING);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        loop {
            let mut line = Vec::new();
            let read = match io::stdin().lock().read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(without_end(line)),
                Err(error) => Err(error),
            };
            let is_over = read.is_err();
            if sender.blocking_send(read).is_err() || is_over {
                return;
            }
        }
    })?;
    Ok(lines)
}

fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    while line.pop_if(|it| matches!(it, b'\n' | b'\r')).is_some() {}
    line
}
