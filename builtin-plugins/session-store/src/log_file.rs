//! The log of one session while it is ours: what of it is written, and what is on the medium.

use std::io;
use std::path::Path;
use std::sync::Arc;

use linn_services::persistence::PersistenceError;
use linn_services::session::{Record, Session, SessionHeader};

use crate::files::{failed, folder_of, write_all_at};
use crate::place::Place;
use crate::system::{Disk, DiskFile, LockGuard, Open};

/// How much is gathered for one call of the system.
const BATCH: usize = 1 << 20;

/// A log that nobody else writes.
///
/// It holds the first records of its session, in order and without gaps, at any time; what a failed write left behind them
/// is cut off before the next one.
pub(crate) struct LogFile {
    _lock: LockGuard,
    /// None before the first record.
    file: Option<Arc<dyn DiskFile>>,
    written: Mark,
    synced: Mark,
    /// What lies behind `written` is no record.
    must_cut: bool,
    /// The last line lacks its line feed.
    lacks_newline: bool,
    /// The name of the file may not be on the medium.
    is_name_new: bool,
    buffer: Vec<u8>,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) n_records: u64,
    pub(crate) n_bytes: u64,
}

impl LogFile {
    /// A log that is to come.
    pub(crate) fn new(lock: LockGuard) -> Self {
        Self {
            _lock: lock,
            file: None,
            written: Mark::default(),
            synced: Mark::default(),
            must_cut: false,
            lacks_newline: false,
            is_name_new: true,
            buffer: Vec::new(),
        }
    }

    /// A log that was read up to `end`.
    pub(crate) fn read(lock: LockGuard, file: Arc<dyn DiskFile>, end: Mark, lacks_newline: bool) -> Self {
        // What was read is never written anew: the next sync has all of the file on the medium, and if that fails, what is
        // written from here on counts as lost and no more.
        Self { file: Some(file), written: end, synced: end, lacks_newline, is_name_new: false, ..Self::new(lock) }
    }

    pub(crate) fn written(&self) -> Mark {
        self.written
    }

    /// Cuts off what lies behind the records that were read.
    pub(crate) fn cut(&mut self, path: &Path) -> Result<(), PersistenceError> {
        if let Some(file) = &self.file {
            self.must_cut = true;
            file.set_len(self.written.n_bytes).map_err(failed("cannot cut", path))?;
            self.must_cut = false;
        }
        Ok(())
    }

    /// Writes what the session holds beyond what is written.
    pub(crate) fn write(&mut self, disk: &dyn Disk, place: &Place, session: &Session) -> Result<(), PersistenceError> {
        let records = session.records_from(self.written.n_records);
        self.write_records(disk, place, session.header(), &records)
    }

    /// Writes records, the first of which is the next one.
    pub(crate) fn write_records(
        &mut self,
        disk: &dyn Disk,
        place: &Place,
        header: &SessionHeader,
        records: &[Arc<Record>],
    ) -> Result<(), PersistenceError> {
        if records.is_empty() && !self.must_cut {
            return Ok(());
        }
        let path = place.log();
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                disk.make_folder(folder_of(&path)).map_err(failed("cannot make the folder of", &path))?;
                let file = disk.open(&path, Open::OrNew).map_err(failed("cannot make", &path))?;
                self.file.insert(file).clone()
            }
        };
        if self.must_cut {
            file.set_len(self.written.n_bytes).map_err(failed("cannot cut", &path))?;
            self.must_cut = false;
        }
        let mut records = records.iter();
        while let Some(mark) = self.fill(header, &mut records).map_err(failed("cannot encode for", &path))? {
            if let Err(error) = write_all_at(&*file, &self.buffer, self.written.n_bytes) {
                self.must_cut = true;
                return Err(failed("cannot write", &path)(error));
            }
            self.written = mark;
            self.lacks_newline = false;
        }
        Ok(())
    }

    /// Gathers the lines of some records, and gives where the log will end; `None` if there are none.
    fn fill<'a>(
        &mut self,
        header: &SessionHeader,
        records: &mut impl Iterator<Item = &'a Arc<Record>>,
    ) -> io::Result<Option<Mark>> {
        self.buffer.clear();
        let mut mark = self.written;
        if mark.n_bytes == 0 {
            serde_json::to_writer(&mut self.buffer, header)?;
            self.buffer.push(b'\n');
        } else if self.lacks_newline {
            self.buffer.push(b'\n');
        }
        for record in records {
            serde_json::to_writer(&mut self.buffer, &**record)?;
            self.buffer.push(b'\n');
            mark.n_records += 1;
            if self.buffer.len() >= BATCH {
                break;
            }
        }
        mark.n_bytes += self.buffer.len() as u64;
        Ok((mark.n_records > self.written.n_records).then_some(mark))
    }

    /// Has what is written on the medium.
    ///
    /// When that fails, what was written since the last time that it did not counts as lost, and is written again: a system
    /// may forget what it could not write.
    pub(crate) fn sync(&mut self, disk: &dyn Disk, place: &Place) -> Result<(), PersistenceError> {
        let Some(file) = self.file.as_ref().filter(|_| self.synced != self.written || self.is_name_new) else {
            return Ok(());
        };
        let path = place.log();
        let synced = file.sync().map_err(failed("cannot save", &path)).and_then(|()| match self.is_name_new {
            true => disk.sync_folder(folder_of(&path)).map_err(failed("cannot save the name of", &path)),
            false => Ok(()),
        });
        match synced {
            Ok(()) => {
                self.synced = self.written;
                self.is_name_new = false;
            }
            Err(_) => {
                self.written = self.synced;
                self.must_cut = true;
            }
        }
        synced
    }
}
