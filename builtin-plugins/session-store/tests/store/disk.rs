//! A disk that can be full, write less than asked, fail to save, and stand still.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use linn_plugin_session_store::system::{Disk, DiskFile, FileInfo, Lock, Open, Patience, SystemDisk};

/// What is wrong with the disk, and what it was asked for.
#[derive(Default)]
pub(crate) struct Faults {
    /// Bytes that there is room for; no limit by default.
    room: Option<AtomicI64>,
    pub(crate) is_full: AtomicBool,
    pub(crate) fails_to_sync: AtomicBool,
    /// Most bytes of one write; 0 for all.
    pub(crate) most: AtomicU64,
    pub(crate) n_read: AtomicU64,
    pub(crate) n_written: AtomicU64,
    pub(crate) n_syncs: AtomicU64,
    /// Calls that change something, counted; at this one it stands still, for ever.
    n_calls: AtomicU64,
    stop_at: Option<u64>,
}

impl Faults {
    pub(crate) fn with_room(n_bytes: i64) -> Self {
        Self { room: Some(AtomicI64::new(n_bytes)), ..Self::default() }
    }

    pub(crate) fn stopping_at(call: Option<u64>) -> Self {
        Self { stop_at: call, ..Self::default() }
    }

    pub(crate) fn make_room(&self) {
        self.is_full.store(false, Relaxed);
        if let Some(room) = &self.room {
            room.store(i64::MAX, Relaxed);
        }
    }

    pub(crate) fn n_calls(&self) -> u64 {
        self.n_calls.load(Relaxed)
    }

    /// Counts a call; true if it is the one to stop at.
    fn count(&self) -> bool {
        Some(self.n_calls.fetch_add(1, Relaxed)) == self.stop_at
    }

    /// Tells the parent that it may kill this process, and waits for that.
    #[expect(clippy::print_stdout, reason = "the parent reads it")]
    fn stand_still(&self) -> ! {
        println!("\n#stopped");
        // Nothing comes, but for the end of a parent that failed.
        let _ = io::stdin().read(&mut [0]);
        std::process::abort();
    }
}

/// The disk of the machine with faults.
pub(crate) struct FaultyDisk(pub(crate) Arc<Faults>);

struct FaultyFile(Arc<dyn DiskFile>, Arc<Faults>);

impl FaultyDisk {
    fn change<T>(&self, change: impl FnOnce(SystemDisk) -> io::Result<T>) -> io::Result<T> {
        if self.0.count() {
            self.0.stand_still();
        }
        change(SystemDisk)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let file =
            if how == Open::Existing { SystemDisk.open(path, how) } else { self.change(|it| it.open(path, how)) };
        Ok(Arc::new(FaultyFile(file?, self.0.clone())))
    }
    fn lock(&self, path: &Path, patience: Patience) -> io::Result<Lock> {
        self.change(|it| it.lock(path, patience))
    }
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        SystemDisk.info(path)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<(String, FileInfo)>> {
        SystemDisk.list(folder)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|it| it.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|it| it.remove(path))
    }
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.change(|it| it.make_folder(folder))
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.n_syncs.fetch_add(1, Relaxed);
        self.change(|it| it.sync_folder(folder))
    }
    fn is_folder(&self, path: &Path) -> bool {
        SystemDisk.is_folder(path)
    }
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let n = self.0.read_at(buffer, at)?;
        self.1.n_read.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let faults = &self.1;
        if faults.count() {
            // Half of it got there.
            self.0.write_at(&bytes[..bytes.len() / 2], at)?;
            faults.stand_still();
        }
        let mut n = bytes.len();
        match faults.most.load(Relaxed) {
            0 => {}
            most => n = n.min(usize::try_from(most).unwrap()),
        }
        if let Some(room) = &faults.room {
            n = n.min(usize::try_from(room.load(Relaxed).max(0)).unwrap());
        }
        if faults.is_full.load(Relaxed) || n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let n = self.0.write_at(&bytes[..n], at)?;
        faults.n_written.fetch_add(n as u64, Relaxed);
        if let Some(room) = &faults.room {
            room.fetch_sub(i64::try_from(n).unwrap(), Relaxed);
        }
        Ok(n)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.1.count() {
            self.1.stand_still();
        }
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.n_syncs.fetch_add(1, Relaxed);
        if self.1.count() {
            self.1.stand_still();
        }
        match self.1.fails_to_sync.load(Relaxed) {
            true => Err(io::Error::other("the medium is broken")),
            false => self.0.sync(),
        }
    }
}
