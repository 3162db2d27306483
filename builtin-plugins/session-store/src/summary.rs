//! A session in short, for listings, without reading a long log twice.
//!
//! What a log says is kept beside it with the length that was read. A log only grows, so the next listing reads what is new.

use std::io;

use linn_services::ids::SessionId;
use linn_services::model::text_of;
use linn_services::persistence::SessionSummary;
use linn_services::session::{Fact, Record, SessionHeader, SurfaceOp};
use serde::{Deserialize, Serialize};

use crate::files::{read, replace};
use crate::meta::read_meta;
use crate::place::Place;
use crate::read::{Lines, Unreadable, read_header};
use crate::system::{Disk, FileInfo, Open};

/// Longest title made from a prompt, in characters.
const LONGEST_TITLE: usize = 80;

/// What the title of a session without prompts is.
pub(crate) const NO_PROMPT: &str = "(no messages yet)";

/// What a log says, up to a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Digest {
    pub(crate) header: SessionHeader,
    /// How many bytes of the log it covers.
    n_bytes: u64,
    /// The prompts and answers that are visible, by seq.
    messages: Vec<u64>,
    /// The first visible prompt, with its seq.
    first_prompt: Option<(u64, String)>,
}

impl Digest {
    pub(crate) fn new(header: SessionHeader) -> Self {
        Self { header, n_bytes: 0, messages: Vec::new(), first_prompt: None }
    }

    pub(crate) fn take(&mut self, record: &Record) {
        let is_replacement = record.surface.as_ref().is_some_and(|it| it.op != SurfaceOp::Append);
        match &record.fact {
            // What a summary took the place of was said all the same.
            _ if is_replacement => {}
            Fact::UserMessage(it) => {
                self.messages.push(record.seq);
                let text = text_of(&it.content);
                let title: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if self.first_prompt.is_none() && !title.is_empty() {
                    self.first_prompt = Some((record.seq, title.chars().take(LONGEST_TITLE).collect()));
                }
            }
            Fact::SteeringMessage(_) | Fact::AssistantMessage(_) => self.messages.push(record.seq),
            Fact::SessionRewind(it) => {
                while self.messages.pop_if(|seq| *seq >= it.to).is_some() {}
                self.first_prompt = self.first_prompt.take().filter(|(seq, _)| *seq < it.to);
            }
            _ => {}
        }
    }

    /// Reads on from where it ends.
    fn read_on(&mut self, disk: &dyn Disk, place: &Place, len: u64) -> io::Result<()> {
        /// What a line has to begin with to say something here; all that Linn writes begins with its kind.
        const KINDS: [&[u8]; 4] = [
            br#"{"type":"user/message""#,
            br#"{"type":"assistant/message""#,
            br#"{"type":"steering/message""#,
            br#"{"type":"session/rewind""#,
        ];
        let file = disk.open(&place.log(), Open::Existing)?;
        let mut lines = Lines::new(&*file, self.n_bytes, len);
        while let Some(line) = lines.next()? {
            // One that is being written counts when it is whole; one that is damaged is for whoever loads the session.
            if !line.has_newline {
                break;
            }
            if KINDS.iter().any(|it| line.text.starts_with(it))
                && let Ok(record) = serde_json::from_slice(line.text)
            {
                self.take(&record);
            }
            self.n_bytes = line.end;
        }
        Ok(())
    }

    pub(crate) fn summary(&self, disk: &dyn Disk, place: &Place, updated_at: i64) -> SessionSummary {
        let meta = read_meta(disk, place);
        let title = meta.title.or_else(|| self.first_prompt.as_ref().map(|(_, title)| title.clone()));
        summary_of(&self.header, title, meta.is_pinned, updated_at, self.messages.len() as u64)
    }
}

fn summary_of(
    header: &SessionHeader,
    title: Option<String>,
    is_pinned: bool,
    updated_at: i64,
    n_messages: u64,
) -> SessionSummary {
    SessionSummary {
        id: header.id.clone(),
        title: title.unwrap_or_else(|| NO_PROMPT.to_owned()),
        is_pinned,
        created_at: header.created_at,
        updated_at,
        cwd: header.cwd.clone(),
        n_messages,
        parent_session: header.parent_session.clone(),
    }
}

/// What the log at a place says: from what is kept, and from the log where it went on since.
pub(crate) fn digest(disk: &dyn Disk, place: &Place, info: FileInfo, mark: u64) -> Result<Digest, Unreadable> {
    let kept = read(disk, &place.summary()).ok().flatten();
    let kept = kept.and_then(|it| serde_json::from_slice::<Digest>(&it).ok());
    let mut digest = match kept.filter(|it| it.n_bytes <= info.len) {
        Some(kept) if kept.n_bytes == info.len => return Ok(kept),
        Some(kept) => kept,
        None => {
            let file = disk.open(&place.log(), Open::Existing)?;
            let (header, n_bytes, _) = read_header(&*file, info.len)?;
            Digest { n_bytes, ..Digest::new(header) }
        }
    };
    digest.read_on(disk, place, info.len)?;
    // Kept for the next time. Where that fails it is read again.
    if let Ok(bytes) = serde_json::to_vec(&digest) {
        let _ = replace(disk, &place.summary(), &bytes, mark);
    }
    Ok(digest)
}

/// The header of the log at a place, if there is one that can be read.
pub(crate) fn id_at(disk: &dyn Disk, place: &Place) -> Option<SessionId> {
    let file = disk.open(&place.log(), Open::Existing).ok()?;
    let len = file.len().ok()?;
    read_header(&*file, len).ok().map(|(header, _, _)| header.id)
}

/// The pinned ones first, then the latest first.
pub(crate) fn order(a: &SessionSummary, b: &SessionSummary) -> std::cmp::Ordering {
    let key = |it: &SessionSummary| (!it.is_pinned, std::cmp::Reverse(it.updated_at));
    key(a).cmp(&key(b)).then_with(|| b.id.cmp(&a.id))
}
