//! Reads lines, none of them longer than a command may be.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::wire::MAX_COMMAND_BYTES;

/// How much is read at once at least.
const CHUNK_BYTES: usize = 64 << 10;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    /// Its bytes, without what ends it.
    Text(Vec<u8>),
    /// It was longer than [`MAX_COMMAND_BYTES`]; it is read past.
    TooLong,
}

/// Reads lines. What is read and not yet given out stays in here.
pub(crate) struct LineReader {
    stream: Box<dyn AsyncRead + Send + Unpin>,
    buffer: Vec<u8>,
    /// Where the line begins that comes next.
    start: usize,
    /// Up to here no end of a line was found.
    scanned: usize,
    /// The rest of a line that is too long is read past.
    is_skipping: bool,
}

impl LineReader {
    pub(crate) fn new(stream: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self { stream, buffer: Vec::new(), start: 0, scanned: 0, is_skipping: false }
    }

    /// The next line, also a last one that has no end; `None` at the end of the input. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            if let Some(line) = self.next_buffered() {
                return Ok(Some(line));
            }
            self.make_room();
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split_off(self.start);
                (self.buffer, self.start, self.scanned) = (Vec::new(), 0, 0);
                return Ok((!rest.is_empty() && !self.is_skipping).then(|| InputLine::Text(trimmed(rest))));
            }
        }
    }

    fn next_buffered(&mut self) -> Option<InputLine> {
        loop {
            let end = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at);
            let Some(end) = end else {
                self.scanned = self.buffer.len();
                let is_too_long = self.buffer.len() - self.start >= MAX_COMMAND_BYTES;
                if self.is_skipping || is_too_long {
                    (self.buffer, self.start, self.scanned) = (Vec::new(), 0, 0);
                }
                if is_too_long && !self.is_skipping {
                    self.is_skipping = true;
                    return Some(InputLine::TooLong);
                }
                return None;
            };
            let line = self.start..end;
            (self.start, self.scanned) = (end + 1, end + 1);
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if line.len() >= MAX_COMMAND_BYTES {
                return Some(InputLine::TooLong);
            }
            return Some(InputLine::Text(trimmed(self.buffer[line].to_vec())));
        }
    }

    /// Drops what was given out.
    fn make_room(&mut self) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > 4 * CHUNK_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK_BYTES);
    }
}

fn trimmed(mut line: Vec<u8>) -> Vec<u8> {
    while line.pop_if(|it| matches!(it, b'\r' | b'\n')).is_some() {}
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &'static [u8]) -> Vec<InputLine> {
        linn_bus_test::run(async |_| {
            let mut reader = LineReader::new(Box::new(input));
            let mut lines = Vec::new();
            while let Some(line) = reader.next().await.unwrap() {
                lines.push(line);
            }
            lines
        })
    }

    fn text(text: &str) -> InputLine {
        InputLine::Text(text.into())
    }

    #[test]
    fn lines_end_with_a_newline_or_the_input() {
        assert_eq!(read(b"a\r\r\n\nb\nc"), [text("a"), text(""), text("b"), text("c")]);
        assert_eq!(read(b""), []);
        assert_eq!(read(b"\n"), [text("")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_read_past() {
        let mut input = vec![b'x'; MAX_COMMAND_BYTES - 1];
        input.push(b'\n');
        input.extend(vec![b'y'; MAX_COMMAND_BYTES]);
        input.extend_from_slice(b"\nok\n");
        input.extend(vec![b'z'; 2 * MAX_COMMAND_BYTES]);
        let lines = read(input.leak());
        assert_eq!(lines[0], InputLine::Text(vec![b'x'; MAX_COMMAND_BYTES - 1]));
        assert_eq!(lines[1..], [InputLine::TooLong, text("ok"), InputLine::TooLong]);
    }
}
