//! The sessions that are kept: what is ours to write, and how what they log gets there.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linn_bus::Context;
use linn_services::events::{
    SessionCreated, SessionDisposed, SessionEvent, SessionFlush, SessionSaved, SessionUnsaved,
};
use linn_services::ids::SessionId;
use linn_services::persistence::PersistenceError;
use linn_services::session::{Fact, Record, SESSION_VERSION, Session};

use crate::files::failed;
use crate::log_file::{LogFile, Mark};
use crate::place::Place;
use crate::plugin::SessionStoreConfig;
use crate::read::{LogContent, Unreadable, read_log};
use crate::system::{Disk, Lock, LockGuard, Open, Patience};
use crate::view;

/// How many pieces of an answer may wait for the record that ends it.
const MOST_WAITING: u64 = 256;

/// How long after a failure the next attempt is made, if nothing is logged meanwhile.
const RETRY: Duration = Duration::from_secs(5);

/// All that the plugin knows.
pub(crate) struct Store {
    pub(crate) ctx: Context,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
    /// Whether only sessions are kept that front ends name by a file.
    named_only: bool,
    kept: Mutex<HashMap<SessionId, Arc<Kept>>>,
    /// Sessions that front ends name by a file.
    files: Mutex<HashMap<SessionId, PathBuf>>,
    is_retrying: AtomicBool,
}

/// A session that is ours to write, or will be.
pub(crate) struct Kept {
    pub(crate) id: SessionId,
    pub(crate) place: Place,
    state: Mutex<KeptState>,
}

#[derive(Default)]
pub(crate) struct KeptState {
    /// The session, while it lives, and after that while something of it is not written.
    pub(crate) session: Option<Session>,
    /// Its log, once it is ours.
    pub(crate) log: Option<LogFile>,
    /// The last record that was read.
    pub(crate) last_read: Option<Arc<Record>>,
    /// Why something is not written, as it was told.
    unsaved: Option<String>,
    /// How many records the view shows.
    pub(crate) n_viewed: u64,
    /// The view is another one than the log says.
    pub(crate) is_view_stale: bool,
}

/// How far records shall get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    /// To the system, which keeps them when this process dies.
    Write,
    /// To the medium.
    Sync,
}

impl Kept {
    pub(crate) fn state(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptState {
    pub(crate) fn n_unsaved(&self) -> u64 {
        let n_written = self.log.as_ref().map_or(0, |it| it.written().n_records);
        match (&self.session, &self.unsaved) {
            (Some(session), Some(_)) => session.len() - n_written,
            _ => 0,
        }
    }
}

/// The file of a log, and what it holds.
pub(crate) type OpenLog = (Arc<dyn crate::system::DiskFile>, LogContent);

impl Store {
    pub(crate) fn new(ctx: Context, disk: Arc<dyn Disk>, config: SessionStoreConfig) -> Self {
        let SessionStoreConfig { folder, named_only } = config;
        let is_retrying = AtomicBool::new(false);
        Self { ctx, disk, folder, named_only, kept: Mutex::default(), files: Mutex::default(), is_retrying }
    }

    fn all_kept(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a session kept beside the file that a front end names.
    pub(crate) fn bind(&self, id: &SessionId, file: &Path) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), file.to_owned());
    }

    /// The same for a file that had another session before.
    pub(crate) fn bind_anew(&self, id: &SessionId, file: &Path) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|_, it| it != file);
        files.insert(id.clone(), file.to_owned());
    }

    /// The session that a file was bound to.
    pub(crate) fn bound_to(&self, file: &Path) -> Option<SessionId> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().find(|(_, it)| *it == file).map(|(id, _)| id.clone())
    }

    /// Whether a session lives in memory alone.
    fn is_left_out(&self, id: &SessionId) -> bool {
        self.named_only && !self.files.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    pub(crate) fn place_of(&self, id: &SessionId) -> Place {
        match self.files.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            Some(file) => Place::of_file(file),
            None => Place::of_id(&self.folder, id),
        }
    }

    /// A number that differs from all others.
    pub(crate) fn mark(&self) -> u64 {
        self.ctx.ids().next_u64()
    }

    pub(crate) fn look_up(&self, id: &SessionId) -> Option<Arc<Kept>> {
        self.all_kept().get(id).cloned()
    }

    /// What is kept of a session, which may be nothing yet.
    pub(crate) fn kept_of(&self, id: &SessionId) -> Arc<Kept> {
        if let Some(kept) = self.look_up(id) {
            return kept;
        }
        let place = self.place_of(id);
        let new = Kept { id: id.clone(), place, state: Mutex::default() };
        self.all_kept().entry(id.clone()).or_insert_with(|| Arc::new(new)).clone()
    }

    pub(crate) fn forget(&self, id: &SessionId) {
        self.all_kept().remove(id);
    }

    /// Takes the lock of a log.
    pub(crate) fn lock(&self, kept: &Kept) -> Result<LockGuard, PersistenceError> {
        let path = kept.place.lock();
        let folder = crate::files::folder_of(&path);
        self.disk.make_folder(folder).map_err(failed("cannot make the folder of", &path))?;
        match self.disk.lock(&path, Patience::None).map_err(failed("cannot lock", &path))? {
            Lock::Ours(guard) => Ok(guard),
            Lock::Theirs(owner) => Err(PersistenceError::Locked { id: kept.id.clone(), owner }),
        }
    }

    /// Opens and reads the log of a session; `None` if there is none.
    pub(crate) fn read(&self, kept: &Kept) -> Result<Option<OpenLog>, PersistenceError> {
        let path = kept.place.log();
        let file = match self.disk.open(&path, Open::Existing) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed("cannot open", &path))?,
        };
        let content = read_log(&*file).map_err(|error| unreadable(&path, error))?;
        Ok(Some((file, content)))
    }

    /// Makes the log of a session ours, if it is not. What it holds already has to be what the session begins with.
    fn hold(&self, kept: &Kept, state: &mut KeptState, session: &Session) -> Result<(), PersistenceError> {
        if let Some(log) = &state.log {
            let n_read = log.written().n_records;
            let is_ours = match (&state.last_read, n_read.checked_sub(1)) {
                (Some(last), Some(at)) => session.record(at).is_some_and(|it| Arc::ptr_eq(&it, last) || it == *last),
                _ => true,
            };
            return if is_ours { Ok(()) } else { Err(PersistenceError::Collision(kept.id.clone())) };
        }
        let lock = self.lock(kept)?;
        state.log = Some(match self.read(kept)? {
            None => LogFile::new(lock),
            Some((file, content)) => {
                let n_records = content.records.len() as u64;
                let mut begin = session.records_from(0);
                begin.truncate(content.records.len());
                if content.damage.is_some() || content.header.id != kept.id || begin != content.records {
                    return Err(PersistenceError::Collision(kept.id.clone()));
                }
                (state.n_viewed, state.is_view_stale) = (n_records, true);
                let end = Mark { n_records, n_bytes: content.good_bytes };
                LogFile::read(lock, file, end, content.lacks_newline)
            }
        });
        Ok(())
    }

    /// A session came into the store: it is written from now on.
    pub(crate) fn created(&self, event: &SessionCreated) -> Result<(), PersistenceError> {
        if self.is_left_out(event.session.id()) {
            return Ok(());
        }
        let kept = self.kept_of(event.session.id());
        let mut state = kept.state();
        match self.hold(&kept, &mut state, &event.session) {
            // Where the disk fails the session lives in memory, and whoever listens hears of it with the first record.
            Ok(()) | Err(PersistenceError::Io { .. }) => {}
            Err(error) => {
                if state.log.is_none() {
                    self.forget(&kept.id);
                }
                return Err(error);
            }
        }
        state.last_read = None;
        state.session = Some(event.session.clone());
        Ok(())
    }

    /// A session that was there before the plugin.
    pub(crate) fn adopt(&self, session: Session) {
        if self.is_left_out(session.id()) {
            return;
        }
        let kept = self.kept_of(session.id());
        kept.state().session = Some(session);
    }

    pub(crate) fn logged(&self, event: &SessionEvent) {
        let Some(kept) = self.look_up(event.session.id()) else { return };
        if matches!(event.record.fact, Fact::AssistantChunk(_)) {
            // A piece of an answer alone is worth no call of the system: the record that ends the answer brings them along.
            let state = kept.state();
            let n_written = state.log.as_ref().map_or(0, |it| it.written().n_records);
            if (event.record.seq + 1).saturating_sub(n_written) < MOST_WAITING {
                return;
            }
        }
        // Whoever listens was told, and the record is in memory.
        let _ = self.save(&kept, Save::Write);
    }

    pub(crate) async fn flush(&self, event: &SessionFlush) -> Result<(), PersistenceError> {
        match self.look_up(event.session.id()) {
            Some(kept) => self.save(&kept, Save::Sync),
            None => Ok(()),
        }
    }

    /// A session left the store: what is not written is, and the log is for others again.
    pub(crate) fn disposed(&self, event: &SessionDisposed) {
        let Some(kept) = self.look_up(event.session.id()) else { return };
        if kept.state().session.as_ref() != Some(&event.session) {
            return;
        }
        match self.save(&kept, Save::Sync) {
            Ok(()) => self.let_go(&kept),
            // It stays until it is written.
            Err(error) => self.ctx.logger().error(format_args!("session \"{}\" is not saved: {error}", kept.id)),
        }
    }

    fn let_go(&self, kept: &Kept) {
        self.forget(&kept.id);
        *kept.state() = KeptState::default();
    }

    /// Writes everything and lets go of all logs.
    pub(crate) fn close(&self) {
        let all: Vec<_> = self.all_kept().values().cloned().collect();
        for kept in all {
            if let Err(error) = self.save(&kept, Save::Sync) {
                self.ctx.logger().error(format_args!("session \"{}\" is not saved: {error}", kept.id));
            }
            self.let_go(&kept);
        }
    }

    /// Gets what a session holds to where it belongs, and tells when that begins to fail and when it works again.
    pub(crate) fn save(&self, kept: &Arc<Kept>, how: Save) -> Result<(), PersistenceError> {
        let mut state = kept.state();
        let Some(session) = state.session.clone() else { return Ok(()) };
        // After a failure nothing counts as saved that the medium has not.
        let how = if state.unsaved.is_some() { Save::Sync } else { how };
        let done = self.write(kept, &mut state, &session, how);
        let told = state.unsaved.take();
        state.unsaved = done.as_ref().err().map(ToString::to_string);
        let (is_news, n_records) = (state.unsaved != told, state.n_unsaved());
        drop(state);
        let owner = session.owner();
        match &done {
            Ok(()) if is_news => self.ctx.emit(&SessionSaved { session, owner }),
            Ok(()) => {}
            Err(error) => {
                if is_news {
                    self.ctx.emit(&SessionUnsaved { session, owner, n_records, why: error.to_string() });
                }
                self.retry_later();
            }
        }
        done
    }

    fn write(&self, kept: &Kept, state: &mut KeptState, session: &Session, how: Save) -> Result<(), PersistenceError> {
        self.hold(kept, state, session)?;
        let Some(log) = &mut state.log else { return Ok(()) };
        log.write(&*self.disk, &kept.place, session)?;
        if how == Save::Sync {
            log.sync(&*self.disk, &kept.place)?;
        }
        let n_written = log.written().n_records;
        self.show(kept, state, session, n_written, how);
        Ok(())
    }

    /// Brings the view up to what is written. It can be made again, so a failure is no loss.
    fn show(&self, kept: &Kept, state: &mut KeptState, session: &Session, n_written: u64, how: Save) {
        let Some(path) = kept.place.view() else { return };
        if n_written == state.n_viewed && !state.is_view_stale && how == Save::Write {
            return;
        }
        let news = session.records_from(state.n_viewed);
        let shown = if state.is_view_stale || news.iter().any(|it| view::is_rewritten_by(it)) {
            view::rewrite(&*self.disk, path, &session.records_from(0), self.mark())
        } else {
            let mut lines = news.iter().filter_map(|it| linn_services::chat::chat_message(&it.fact)).peekable();
            match lines.peek() {
                Some(_) => view::add(&*self.disk, path, lines),
                None => Ok(()),
            }
        };
        let shown = shown.and_then(|()| match how {
            Save::Sync if n_written > 0 => view::sync(&*self.disk, path),
            _ => Ok(()),
        });
        state.n_viewed = session.len().min(state.n_viewed + news.len() as u64);
        state.is_view_stale = shown.is_err();
        if let Err(error) = shown {
            self.ctx.logger().warn(format_args!("the view {} is behind its log: {error}", path.display()));
        }
    }
}

/// Attempts after a failure.
impl Store {
    fn retry_later(&self) {
        if self.is_retrying.swap(true, Ordering::Relaxed) {
            return;
        }
        let ctx = self.ctx.clone();
        // When the plugin goes, it saves what it can by itself.
        let _ = self.ctx.timeout(RETRY, move || ctx.emit(&Retry));
    }

    pub(crate) fn retry(&self, _: &Retry) {
        self.is_retrying.store(false, Ordering::Relaxed);
        let all: Vec<_> = self.all_kept().values().cloned().collect();
        for kept in all {
            if kept.state().unsaved.is_none() {
                continue;
            }
            let saved = self.save(&kept, Save::Sync);
            let is_gone = kept.state().session.as_ref().is_some_and(|it| !it.is_live());
            if saved.is_ok() && is_gone {
                self.let_go(&kept);
            }
        }
    }
}

/// It is time to try again what failed.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: this plugin, some time after a failure.
/// - On listener error or panic: it is logged.
/// - Cancelled by: the end of the plugin.
#[derive(Debug, linn_bus::Event)]
#[event(name = "internal/session-store/retry", mode = Emit)]
pub(crate) struct Retry;

/// Says which log cannot be read, and why.
pub(crate) fn unreadable(file: &Path, error: Unreadable) -> PersistenceError {
    let file = file.to_owned();
    match error {
        Unreadable::Io(error) => failed("cannot read", &file)(error),
        Unreadable::Empty => PersistenceError::Empty { file },
        Unreadable::Newer(found) => PersistenceError::Newer { file, found, supported: u64::from(SESSION_VERSION) },
        Unreadable::Header(why) => PersistenceError::Damaged { file, line: 1, why },
    }
}
