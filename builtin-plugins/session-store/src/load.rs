//! Reading a session so that it can be continued.

use std::sync::Arc;

use linn_services::persistence::{PersistenceError, StoredSession};
use linn_services::session::{SessionHeader, repair};

use crate::files::{append, failed};
use crate::import::{Imported, foreign, import};
use crate::log_file::{LogFile, Mark};
use crate::read::{Damage, LogContent};
use crate::store::{Kept, KeptState, Save, Store};
use crate::view::{self, VIEW_VERSION};

/// What to do where a log is damaged before the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDamage {
    Refuse,
    /// Read up to the damage.
    Cut,
}

impl Store {
    /// Reads a session and keeps its log locked until it lives, or is released.
    pub(crate) fn load_kept(&self, kept: &Arc<Kept>, on_damage: OnDamage) -> Result<StoredSession, PersistenceError> {
        let lives = kept.state().session.as_ref().map(|it| it.is_live());
        match lives {
            Some(true) => return Err(PersistenceError::Live(kept.id.clone())),
            // It left the store before all of it was written.
            Some(false) => self.save(kept, Save::Sync)?,
            None => {}
        }
        let mut state = kept.state();
        // What was claimed before and not continued is read anew.
        *state = KeptState::default();
        let loaded = self.read_and_repair(kept, &mut state, on_damage);
        if loaded.is_err() {
            *state = KeptState::default();
            self.forget(&kept.id);
        }
        loaded
    }

    fn read_and_repair(
        &self,
        kept: &Kept,
        state: &mut KeptState,
        on_damage: OnDamage,
    ) -> Result<StoredSession, PersistenceError> {
        let not_found = || PersistenceError::NotFound(kept.id.clone());
        let path = kept.place.log();
        self.disk.info(&path).map_err(failed("cannot look at", &path))?.ok_or_else(not_found)?;
        let lock = self.lock(kept)?;
        let (file, mut content) = self.read(kept)?.ok_or_else(not_found)?;
        if content.header.id != kept.id {
            let why = format!("this is the log of session \"{}\"", content.header.id);
            return Err(PersistenceError::Damaged { file: path, line: 1, why });
        }
        self.check_folder(&content.header)?;
        let mut notices = Vec::new();
        let n_records = content.records.len() as u64;
        let end = Mark { n_records, n_bytes: content.good_bytes };
        let mut log = LogFile::read(lock, file, end, content.lacks_newline);
        if let Some(damage) = content.damage.take() {
            if damage.is_inside && on_damage == OnDamage::Refuse {
                let Damage { line, why, .. } = damage;
                return Err(PersistenceError::Damaged { file: path, line, why });
            }
            notices.push(self.put_aside(kept, &content, &damage)?);
            log.cut(&path)?;
        }
        let repairs = repair(&content.records);
        if !repairs.is_empty() {
            notices.push("the last turn was interrupted; what it left open was closed".to_owned());
            let written = log.write_records(&*self.disk, &kept.place, &content.header, &repairs);
            // What is not written now is with the next record.
            if let Err(error) = written.and_then(|()| log.sync(&*self.disk, &kept.place)) {
                notices.push(format!("the repair is not saved yet: {error}"));
            }
            content.records.extend(repairs);
        }
        state.n_viewed = content.records.len() as u64;
        state.is_view_stale = kept.place.view().is_some_and(|it| view::is_stale(&*self.disk, it, &content.records));
        let n_written = log.written().n_records;
        let last_written = n_written.checked_sub(1).and_then(|it| usize::try_from(it).ok());
        state.last_read = last_written.and_then(|it| content.records.get(it)).cloned();
        state.log = Some(log);
        Ok(StoredSession { header: content.header, records: content.records, notices })
    }

    /// A session works in its own folder or not at all.
    fn check_folder(&self, header: &SessionHeader) -> Result<(), PersistenceError> {
        match header.cwd.as_deref().filter(|it| !self.disk.is_folder(std::path::Path::new(it))) {
            Some(folder) => Err(PersistenceError::FolderGone { id: header.id.clone(), folder: folder.into() }),
            None => Ok(()),
        }
    }

    /// Copies what lies behind the good records into a file beside the log, and says so.
    fn put_aside(&self, kept: &Kept, content: &LogContent, damage: &Damage) -> Result<String, PersistenceError> {
        let (path, torn) = (kept.place.log(), kept.place.torn());
        let bytes = crate::files::read(&*self.disk, &path).map_err(failed("cannot read", &path))?.unwrap_or_default();
        let tail = bytes.get(usize::try_from(content.good_bytes).unwrap_or(usize::MAX)..).unwrap_or_default();
        let n_bytes = content.all_bytes - content.good_bytes;
        let mut aside = tail.to_vec();
        aside.push(b'\n');
        let kept_aside = append(&*self.disk, &torn, &aside).map_err(failed("cannot write", &torn));
        let what = match damage.is_torn {
            true => format!("line {} is cut off ({n_bytes} bytes)", damage.line),
            false => format!("line {} is damaged ({}); it and what follows, {n_bytes} bytes,", damage.line, damage.why),
        };
        match kept_aside {
            Ok(()) => Ok(format!("{what} and was put aside in {}", torn.display())),
            // What was being written when the process died was acknowledged to nobody.
            Err(error) if damage.is_torn => Ok(format!("{what} and was left out; it could not be put aside: {error}")),
            Err(error) => Err(error),
        }
    }

    /// Makes a log of a file of the older format, if it holds any messages; gives what to tell the user.
    pub(crate) fn import_kept(&self, kept: &Kept, file: &std::path::Path) -> Result<Vec<String>, PersistenceError> {
        let Some(bytes) = crate::files::read(&*self.disk, file).map_err(failed("cannot read", file))? else {
            return Ok(Vec::new());
        };
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(why) = foreign(&bytes) {
            return Err(PersistenceError::NotASession { file: file.to_owned(), why });
        }
        let modified_ms = self.disk.info(file).ok().flatten().map_or(0, |it| it.modified_ms);
        let newer = |found| PersistenceError::Newer { file: file.to_owned(), found, supported: VIEW_VERSION };
        let Imported { records, notices } = import(&bytes, modified_ms).map_err(newer)?;
        let header = SessionHeader {
            version: linn_services::session::SESSION_VERSION,
            id: kept.id.clone(),
            created_at: modified_ms,
            cwd: None,
            parent_session: None,
            seed_length: None,
        };
        let mut log = LogFile::new(self.lock(kept)?);
        let written = log
            .write_records(&*self.disk, &kept.place, &header, &records)
            .and_then(|()| log.sync(&*self.disk, &kept.place));
        if let Err(error) = written {
            // Half a log would count as the truth from now on.
            let _ = self.disk.remove(&kept.place.log());
            return Err(error);
        }
        Ok(notices)
    }
}
