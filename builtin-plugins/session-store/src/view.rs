//! The file that front ends read: one message a line, made from the log.
//!
//! Its first line is `{"_session_version":2}`; then come messages in the shape of chat requests, and between them notes
//! about runs, `{"_run":{..}}`, which are not in the log and stay when the view is made again.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use linn_services::chat::chat_message;
use linn_services::session::{Fact, Record, RewindCause, SurfaceOp};
use serde_json::{Value, json};

use crate::files::{folder_of, read, read_up_to, replace, write_all_at};
use crate::system::{Disk, Open};

/// The version of the format.
pub(crate) const VIEW_VERSION: u64 = 2;

/// The first line.
fn first_line() -> String {
    format!("{{\"_session_version\":{VIEW_VERSION}}}\n")
}

/// Whether after this record the view is another one, and not a longer one.
pub(crate) fn is_rewritten_by(record: &Record) -> bool {
    match &record.fact {
        // A conversation that was cleared stays in the file.
        Fact::SessionRewind(it) => it.cause != RewindCause::Clear,
        _ => record.surface.as_ref().is_some_and(|it| it.op != SurfaceOp::Append),
    }
}

/// The records that a view shows, in its order: the surface, but for what was cleared, which stays.
fn shown(records: &[Arc<Record>]) -> Vec<&Record> {
    let mut end = records.len();
    let mut stretches = Vec::new();
    loop {
        let rewind = records[..end].iter().enumerate().rev().find_map(|(at, it)| match &it.fact {
            Fact::SessionRewind(it) if it.cause != RewindCause::Clear => Some((at, it.to)),
            _ => None,
        });
        let Some((at, to)) = rewind else { break };
        stretches.push(at..end);
        end = usize::try_from(to).unwrap_or(usize::MAX).min(at);
    }
    stretches.push(0..end);
    let mut shown: Vec<&Record> = Vec::new();
    for record in stretches.into_iter().rev().flat_map(|it| &records[it]) {
        let place = |seq| shown.iter().position(|it| it.seq == seq);
        match record.surface.as_ref().map(|it| it.op) {
            None => {}
            Some(SurfaceOp::Append) => shown.push(record),
            Some(SurfaceOp::Replace { start, end }) => match (place(start), place(end)) {
                (Some(start), Some(end)) if start <= end => drop(shown.splice(start..=end, [&**record])),
                _ => shown.push(record),
            },
        }
    }
    shown
}

/// Makes the whole view again.
pub(crate) fn rewrite(disk: &dyn Disk, path: &Path, records: &[Arc<Record>], mark: u64) -> io::Result<()> {
    let mut text = first_line();
    for line in shown(records).into_iter().filter_map(|it| chat_message(&it.fact)) {
        text.push_str(&format!("{line}\n"));
    }
    for note in run_notes(disk, path)? {
        text.push_str(&format!("{}\n", json!({"_run": note})));
    }
    disk.make_folder(folder_of(path))?;
    replace(disk, path, text.as_bytes(), mark)
}

/// Adds lines to the view. A view that is not there begins with its first line.
pub(crate) fn add(disk: &dyn Disk, path: &Path, lines: impl IntoIterator<Item = Value>) -> io::Result<()> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("{line}\n"));
    }
    disk.make_folder(folder_of(path))?;
    let file = disk.open(path, Open::OrNew)?;
    let len = file.len()?;
    let mut last = [b'\n'];
    if len == 0 {
        text.insert_str(0, &first_line());
    } else if read_up_to(&*file, &mut last, len - 1)? == 1 && last != *b"\n" {
        text.insert(0, '\n');
    }
    let written = write_all_at(&*file, text.as_bytes(), len);
    if written.is_err() {
        // What was half written would make a bad line; if this fails too, readers leave the line out.
        let _ = file.set_len(len);
    }
    written
}

/// Has the view on the medium.
pub(crate) fn sync(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    disk.open(path, Open::Existing)?.sync()
}

/// Whether a view has another number of messages than its log says, or is not there.
pub(crate) fn is_stale(disk: &dyn Disk, path: &Path, records: &[Arc<Record>]) -> bool {
    let Ok(Some(bytes)) = read(disk, path) else { return !records.is_empty() };
    let is_message = |line: &&[u8]| !line.is_empty() && memchr::memmem::find(line, b"\"role\"").is_some();
    let n_lines = bytes.split(|it| *it == b'\n').filter(is_message).count();
    n_lines != shown(records).into_iter().filter_map(|it| chat_message(&it.fact)).count()
}

/// The notes about runs in a view.
pub(crate) fn run_notes(disk: &dyn Disk, path: &Path) -> io::Result<Vec<Value>> {
    let Some(bytes) = read(disk, path)? else { return Ok(Vec::new()) };
    let lines = bytes.split(|it| *it == b'\n').filter(|it| memchr::memmem::find(it, b"\"_run\"").is_some());
    let note = |line: &[u8]| serde_json::from_slice::<HashMap<String, Value>>(line).ok()?.remove("_run");
    Ok(lines.filter_map(note).collect())
}

#[cfg(test)]
mod tests {
    use linn_services::model::MessageSource;
    use linn_services::session::{RecordSurface, SessionRewind, UserMessage};

    use super::*;

    fn said(seq: u64, op: SurfaceOp) -> Arc<Record> {
        let fact = UserMessage { content: vec![format!("{seq}").into()], source: MessageSource::User }.into();
        Arc::new(Record { seq, time_ms: 0, fact, surface: Some(RecordSurface { op, source_seqs: None }) })
    }

    fn back(seq: u64, to: u64, cause: RewindCause) -> Arc<Record> {
        Arc::new(Record { seq, time_ms: 0, fact: SessionRewind { to, cause }.into(), surface: None })
    }

    #[test]
    fn undo_and_reset_take_away_clear_does_not_and_a_summary_takes_the_place() {
        let append = |seq| said(seq, SurfaceOp::Append);
        let mut log = vec![append(0), append(1)];
        let seqs = |log: &[Arc<Record>]| shown(log).iter().map(|it| it.seq).collect::<Vec<_>>();
        log.push(back(2, 0, RewindCause::Clear));
        log.push(append(3));
        assert_eq!(seqs(&log), [0, 1, 3]);
        log.push(said(4, SurfaceOp::Replace { start: 3, end: 3 }));
        log.push(append(5));
        assert_eq!(seqs(&log), [0, 1, 4, 5]);
        log.push(back(6, 4, RewindCause::Undo));
        assert_eq!(seqs(&log), [0, 1, 3]);
        log.push(back(7, 0, RewindCause::Reset));
        log.push(append(8));
        assert_eq!(seqs(&log), [8]);
        log.push(back(9, 6, RewindCause::Undo));
        assert_eq!(seqs(&log), [0, 1, 4, 5]);
    }
}
