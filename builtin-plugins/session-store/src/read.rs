//! Reading a log: its header, then its records, on two threads where it is long.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use linn_services::json::whole_characters;
use linn_services::session::{Fact, Record, SESSION_VERSION, SessionHeader};
use serde::Deserialize;

use crate::files::read_up_to;
use crate::system::DiskFile;

/// How much is read at once. It stays in the cache of the processor while it is parsed.
const BLOCK: usize = 1 << 18;

/// From this length on, a log is read by two threads.
const LONG: u64 = 1 << 20;

/// What a log holds.
#[derive(Debug)]
pub(crate) struct LogContent {
    pub(crate) header: SessionHeader,
    pub(crate) records: Vec<Arc<Record>>,
    /// How many bytes those take, from the start of the file.
    pub(crate) good_bytes: u64,
    /// How long the file is.
    pub(crate) all_bytes: u64,
    /// Whether the last line is whole but for its line feed.
    pub(crate) lacks_newline: bool,
    /// What ended the reading before the end of the file.
    pub(crate) damage: Option<Damage>,
}

/// The first line that is no record, or not the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The line, from 1.
    pub(crate) line: u64,
    pub(crate) why: String,
    /// The line is the last one and lacks its end: the process died while it wrote.
    pub(crate) is_torn: bool,
    /// A turn ended after it, so more than the last turn would be lost.
    pub(crate) is_inside: bool,
}

/// Why a log tells nothing.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Io(io::Error),
    /// It is empty.
    Empty,
    /// It is of a later version.
    Newer(u64),
    /// Its first line is no header.
    Header(String),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads the header; gives it with the length of its line, and whether that has a line feed.
pub(crate) fn read_header(file: &dyn DiskFile, len: u64) -> Result<(SessionHeader, u64, bool), Unreadable> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    if len == 0 {
        return Err(Unreadable::Empty);
    }
    let mut line = vec![0; 4096];
    let end = loop {
        let n = read_up_to(file, &mut line, 0)?;
        match memchr::memchr(b'\n', &line[..n]) {
            Some(at) => break Some(at),
            None if n < line.len() => {
                line.truncate(n);
                break None;
            }
            None => line.resize(line.len() * 4, 0),
        }
    };
    let text = &line[..end.unwrap_or(line.len())];
    let bad = |error: serde_json::Error| Unreadable::Header(error.to_string());
    let Version { version } = serde_json::from_slice(text).map_err(bad)?;
    if version > u64::from(SESSION_VERSION) {
        return Err(Unreadable::Newer(version));
    }
    let header = serde_json::from_slice(text).map_err(bad)?;
    let length = text.len() as u64 + u64::from(end.is_some());
    Ok((header, length, end.is_some()))
}

/// Reads a log up to its end, or up to the first line that is damaged.
pub(crate) fn read_log(file: &dyn DiskFile) -> Result<LogContent, Unreadable> {
    let all_bytes = file.len()?;
    let (header, start, has_newline) = read_header(file, all_bytes)?;
    let middle = start + (all_bytes - start) / 2;
    let (first, second) = if all_bytes - start < LONG {
        (read_part(file, start, start, all_bytes, all_bytes), None)
    } else {
        std::thread::scope(|threads| {
            let second = threads.spawn(|| read_part(file, start, middle, all_bytes, all_bytes));
            let first = read_part(file, start, start, middle, all_bytes);
            (first, Some(second.join()))
        })
    };
    let mut parts = vec![first?];
    match second {
        Some(Ok(second)) => parts.push(second?),
        // What panics here would have panicked on one thread too.
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => {}
    }
    let mut content = LogContent {
        header,
        records: Vec::new(),
        good_bytes: start,
        all_bytes,
        lacks_newline: !has_newline,
        damage: None,
    };
    let mut n_lines = 1;
    for part in parts {
        let expected = content.records.len() as u64;
        if let Some(found) = part.records.first().map(|it| it.seq).filter(|it| *it != expected) {
            content.damage = Some(damage(n_lines + 1, out_of_order(expected, found)));
            break;
        }
        if content.records.is_empty() {
            content.records = part.records;
        } else {
            content.records.extend(part.records);
        }
        content.good_bytes = part.good_bytes;
        content.lacks_newline |= part.lacks_newline;
        if let Some((line, why, is_torn)) = part.damage {
            content.damage = Some(Damage { is_torn, ..damage(n_lines + line, why) });
            break;
        }
        n_lines += part.n_lines;
    }
    if let Some(damage) = &mut content.damage
        && !damage.is_torn
    {
        damage.is_inside = has_end_of_turn(file, content.good_bytes, all_bytes)?;
    }
    Ok(content)
}

fn damage(line: u64, why: String) -> Damage {
    Damage { line, why, is_torn: false, is_inside: false }
}

fn out_of_order(expected: u64, found: u64) -> String {
    format!("record {found} stands where record {expected} belongs")
}

struct Part {
    records: Vec<Arc<Record>>,
    n_lines: u64,
    good_bytes: u64,
    lacks_newline: bool,
    /// Line within the part, from 1; why; whether it is the last one and lacks its end.
    damage: Option<(u64, String, bool)>,
}

/// Reads the lines that begin at `from` or later and before `to`; `start` is where the first line of all begins.
fn read_part(file: &dyn DiskFile, start: u64, from: u64, to: u64, end: u64) -> io::Result<Part> {
    // A line begins at `from` if the byte before it ends one; so begin there, and leave out what that ends.
    let is_first = from == start;
    let mut lines = Lines::new(file, if is_first { from } else { from - 1 }, end);
    let begin = match is_first {
        true => from,
        false => lines.next()?.map_or(end, |it| it.end),
    };
    let mut part = Part { records: Vec::new(), n_lines: 0, good_bytes: begin, lacks_newline: false, damage: None };
    part.records.reserve(usize::try_from((to - from) / 160).unwrap_or(0));
    let mut next_seq = None;
    while part.good_bytes < to {
        let Some(line) = lines.next()? else { break };
        part.n_lines += 1;
        let (text, line_end, has_newline) = (line.text, line.end, line.has_newline);
        if !text.trim_ascii().is_empty() {
            let record = match parse(text) {
                Ok(record) => record,
                Err(error) => {
                    part.damage = Some((part.n_lines, error.to_string(), !has_newline));
                    break;
                }
            };
            if let Some(expected) = next_seq.filter(|it| *it != record.seq) {
                part.damage = Some((part.n_lines, out_of_order(expected, record.seq), false));
                break;
            }
            next_seq = Some(record.seq + 1);
            part.records.push(Arc::new(record));
        }
        part.good_bytes = line_end;
        part.lacks_newline = !has_newline;
    }
    Ok(part)
}

/// Reads one line.
fn parse(line: &[u8]) -> serde_json::Result<Record> {
    serde_json::from_slice(line).or_else(|error| match whole_characters(line) {
        Cow::Owned(mended) => serde_json::from_slice(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Whether a turn ends in what follows the damage.
fn has_end_of_turn(file: &dyn DiskFile, from: u64, end: u64) -> io::Result<bool> {
    let mut lines = Lines::new(file, from, end);
    // The damaged line itself.
    lines.next()?;
    while let Some(line) = lines.next()? {
        if memchr::memmem::find(line.text, b"turn/end").is_some()
            && serde_json::from_slice::<Record>(line.text).is_ok_and(|it| matches!(it.fact, Fact::TurnEnd(_)))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lines of a file, block by block.
pub(crate) struct Lines<'a> {
    file: &'a dyn DiskFile,
    block: Vec<u8>,
    /// Where in the block the next line begins, and where what was read ends.
    at: usize,
    filled: usize,
    /// Where the block begins in the file.
    offset: u64,
    end: u64,
}

/// A line without its line feed.
pub(crate) struct Line<'a> {
    pub(crate) text: &'a [u8],
    /// Where the next line begins in the file.
    pub(crate) end: u64,
    pub(crate) has_newline: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, from: u64, end: u64) -> Self {
        let room = usize::try_from(end.saturating_sub(from)).unwrap_or(BLOCK).min(BLOCK);
        Self { file, block: vec![0; room], at: 0, filled: 0, offset: from, end }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = self.at;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.block[searched..self.filled]) {
                let (start, stop) = (self.at, searched + found);
                self.at = stop + 1;
                let end = self.offset + self.at as u64;
                return Ok(Some(Line { text: &self.block[start..stop], end, has_newline: true }));
            }
            searched = self.filled - self.at;
            if !self.fill()? {
                let start = self.at;
                self.at = self.filled;
                let text = &self.block[start..self.filled];
                let end = self.offset + self.filled as u64;
                return Ok((!text.is_empty()).then_some(Line { text, end, has_newline: false }));
            }
        }
    }

    /// Moves the begun line to the front and reads on behind it; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.block.copy_within(self.at..self.filled, 0);
        self.offset += self.at as u64;
        (self.filled, self.at) = (self.filled - self.at, 0);
        if self.filled == self.block.len() {
            self.block.resize((self.block.len() * 2).max(4096), 0);
        }
        let place = self.offset + self.filled as u64;
        let room = usize::try_from(self.end.saturating_sub(place)).unwrap_or(usize::MAX);
        let upto = self.block.len().min(self.filled.saturating_add(room));
        let n = read_up_to(self.file, &mut self.block[self.filled..upto], place)?;
        self.filled += n;
        Ok(n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl DiskFile for Bytes {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            let rest = self.0.get(usize::try_from(at).unwrap()..).unwrap_or_default();
            // Fewer bytes than asked for, as systems are free to do.
            let n = rest.len().min(buffer.len()).min(1000);
            buffer[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("nothing writes")
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("nothing writes")
        }
        fn sync(&self) -> io::Result<()> {
            unreachable!("nothing writes")
        }
    }

    fn log(n: u64, text: &str) -> Vec<u8> {
        let mut bytes = br#"{"version":0,"id":"a","createdAt":1}"#.to_vec();
        for seq in 0..n {
            let line = format!("\n{{\"type\":\"x/y\",\"seq\":{seq},\"time\":1,\"data\":\"{text}\"}}");
            bytes.extend_from_slice(line.as_bytes());
        }
        bytes.push(b'\n');
        bytes
    }

    #[test]
    fn both_threads_together_read_every_line_wherever_the_middle_falls() {
        let text = "z".repeat(50);
        for extra in 0..40 {
            let bytes = log(12_000 + extra, &text);
            assert!(bytes.len() as u64 > LONG);
            let all = bytes.len() as u64;
            let content = read_log(&Bytes(bytes)).unwrap();
            assert_eq!((content.records.len() as u64, content.good_bytes), (12_000 + extra, all));
            assert!(content.damage.is_none() && !content.lacks_newline);
        }
    }

    #[test]
    fn damage_is_found_with_its_line_in_either_half_and_at_the_seam() {
        let good = log(14_000, &"z".repeat(50));
        let starts: Vec<usize> = memchr::memchr_iter(b'\n', &good).map(|it| it + 1).collect();
        let middle = starts.partition_point(|it| *it < good.len() / 2);
        for line in [1, 100, middle - 1, middle, middle + 1, 13_999, 14_000] {
            let mut bytes = good.clone();
            bytes[starts[line - 1]] = b'?';
            let content = read_log(&Bytes(bytes)).unwrap();
            let damage = content.damage.unwrap();
            assert_eq!((damage.line, content.records.len()), (line as u64 + 1, line - 1));
            assert_eq!(content.good_bytes, starts[line - 1] as u64);
        }
        // A line that is missing altogether.
        for line in [1, middle, 13_999] {
            let mut bytes = good.clone();
            bytes.drain(starts[line - 1]..starts[line]);
            let damage = read_log(&Bytes(bytes)).unwrap().damage.unwrap();
            assert_eq!((damage.line, damage.why), (line as u64 + 1, out_of_order(line as u64 - 1, line as u64)));
        }
    }

    #[test]
    fn a_line_longer_than_a_block_is_read() {
        let content = read_log(&Bytes(log(3, &"z".repeat(3 * BLOCK)))).unwrap();
        assert_eq!(content.records.len(), 3);
    }
}
