//! What others ask of the sessions that are kept.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use linn_bus::provider;
use linn_services::ids::SessionId;
use linn_services::persistence::{
    FiledSession, PersistenceError, SessionFiles, SessionPersistence, SessionSummary, StoredSession,
};
use linn_services::session::{SESSION_VERSION, SessionHeader};
use serde_json::{Value, json};

use crate::files::{failed, folder_of, read, replace};
use crate::import::{foreign, id_of_file, import};
use crate::load::OnDamage;
use crate::log_file::LogFile;
use crate::meta::{set_field, tidy_title};
use crate::place::{LOG, Place, VIEW};
use crate::store::{KeptState, Store, unreadable};
use crate::summary::{Digest, digest, id_at, order};
use crate::system::FileInfo;
use crate::view;

/// Provides both seams.
pub(crate) struct Provider(pub(crate) Arc<Store>);

#[provider]
impl SessionPersistence for Provider {
    async fn load(&self, id: &SessionId) -> Result<StoredSession, PersistenceError> {
        self.0.load_kept(&self.0.kept_of(id), OnDamage::Refuse)
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, PersistenceError> {
        let filed = self.list_folder(&self.0.folder)?;
        Ok(filed.into_iter().map(|it| it.summary).collect())
    }

    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), PersistenceError> {
        let title = title.and_then(tidy_title).map(Value::String);
        set_field(&*self.0.disk, &self.stored(id)?, "title", title, self.0.mark())
    }

    async fn set_pinned(&self, id: &SessionId, is_pinned: bool) -> Result<(), PersistenceError> {
        set_field(&*self.0.disk, &self.stored(id)?, "pinned", Some(json!(is_pinned)), self.0.mark())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), PersistenceError> {
        let place = self.stored(id)?;
        let kept = self.0.kept_of(id);
        let mut state = kept.state();
        if state.session.as_ref().is_some_and(|it| it.is_live()) {
            return Err(PersistenceError::Live(id.clone()));
        }
        *state = KeptState::default();
        self.0.forget(id);
        let _lock = self.0.lock(&kept)?;
        for path in place.all() {
            self.0.disk.remove(&path).map_err(failed("cannot delete", &path))?;
        }
        Ok(())
    }

    async fn import(&self, file: &str) -> Result<SessionId, PersistenceError> {
        let file = Path::new(file);
        let id = self.find_file(file)?;
        let kept = self.0.kept_of(&id);
        if self.info(&kept.place.log())?.is_none() {
            if self.info(file)?.is_none() {
                return Err(PersistenceError::NotFound(id));
            }
            let imported = self.0.import_kept(&kept, file);
            self.0.forget(&id);
            imported?;
        }
        Ok(id)
    }
}

#[provider]
impl SessionFiles for Provider {
    async fn open(&self, file: &Path) -> Result<StoredSession, PersistenceError> {
        let id = self.find_file(file)?;
        if let Some(kept) = self.0.look_up(&id)
            && kept.state().session.as_ref().is_some_and(|it| it.is_live())
        {
            return Err(PersistenceError::Live(id));
        }
        if self.info(&Place::of_file(file).log())?.is_some() {
            return self.0.load_kept(&self.0.kept_of(&id), OnDamage::Refuse);
        }
        let kept = self.0.kept_of(&id);
        let imported = self.0.import_kept(&kept, file);
        let imported = imported.inspect_err(|_| self.0.forget(&id))?;
        if self.info(&kept.place.log())?.is_some() {
            let mut loaded = self.0.load_kept(&kept, OnDamage::Refuse)?;
            loaded.notices.splice(0..0, imported);
            return Ok(loaded);
        }
        self.new_session(file, imported)
    }

    async fn find(&self, file: &Path) -> Result<SessionId, PersistenceError> {
        self.find_file(file)
    }

    async fn list_in(&self, folder: &Path) -> Result<Vec<FiledSession>, PersistenceError> {
        self.list_folder(folder)
    }

    async fn salvage(&self, id: &SessionId) -> Result<StoredSession, PersistenceError> {
        self.0.load_kept(&self.0.kept_of(id), OnDamage::Cut)
    }

    async fn release(&self, id: &SessionId) -> Result<(), PersistenceError> {
        if let Some(kept) = self.0.look_up(id) {
            let mut state = kept.state();
            if state.session.is_none() {
                *state = KeptState::default();
                self.0.forget(id);
            }
        }
        Ok(())
    }

    fn n_unsaved(&self, id: &SessionId) -> Result<u64, PersistenceError> {
        Ok(self.0.look_up(id).map_or(0, |it| it.state().n_unsaved()))
    }

    async fn rebuild_view(&self, id: &SessionId) -> Result<(), PersistenceError> {
        let place = self.stored(id)?;
        let Some(path) = place.view() else { return Ok(()) };
        let kept = self.0.kept_of(id);
        let mut state = kept.state();
        let records = match state.session.clone() {
            Some(session) => session.records_from(0),
            None => self.0.read(&kept)?.map(|(_, content)| content.records).unwrap_or_default(),
        };
        view::rewrite(&*self.0.disk, path, &records, self.0.mark()).map_err(failed("cannot write", path))?;
        (state.n_viewed, state.is_view_stale) = (records.len() as u64, false);
        if state.session.is_none() && state.log.is_none() {
            self.0.forget(id);
        }
        Ok(())
    }

    async fn note_run(&self, id: &SessionId, note: &Value) -> Result<(), PersistenceError> {
        let place = self.0.place_of(id);
        let Some(path) = place.view() else { return Ok(()) };
        // Between a line of the view and this one there may be nobody.
        let kept = self.0.look_up(id);
        let _state = kept.as_ref().map(|it| it.state());
        view::add(&*self.0.disk, path, [json!({"_run": note})]).map_err(failed("cannot write", path))
    }

    async fn run_notes(&self, id: &SessionId) -> Result<Vec<Value>, PersistenceError> {
        match self.0.place_of(id).view() {
            Some(path) => view::run_notes(&*self.0.disk, path).map_err(failed("cannot read", path)),
            None => Ok(Vec::new()),
        }
    }

    async fn escalations(&self, id: &SessionId) -> Result<Vec<String>, PersistenceError> {
        let Some(path) = self.0.place_of(id).escalations() else { return Ok(Vec::new()) };
        let bytes = read(&*self.0.disk, &path).map_err(failed("cannot read", &path))?;
        Ok(bytes.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default())
    }

    async fn keep_escalations(&self, id: &SessionId, classes: &[String]) -> Result<(), PersistenceError> {
        let Some(path) = self.0.place_of(id).escalations() else { return Ok(()) };
        let disk = &*self.0.disk;
        if classes.is_empty() {
            return match disk.remove(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => removed.map_err(failed("cannot delete", &path)),
            };
        }
        disk.make_folder(folder_of(&path)).map_err(failed("cannot make the folder of", &path))?;
        replace(disk, &path, &json!(classes).to_string().into_bytes(), self.0.mark())
            .map_err(failed("cannot write", &path))
    }
}

impl Provider {
    fn info(&self, path: &Path) -> Result<Option<FileInfo>, PersistenceError> {
        self.0.disk.info(path).map_err(failed("cannot look at", path))
    }

    /// The place of a session that is stored: its log is there, or a file of the older format.
    fn stored(&self, id: &SessionId) -> Result<Place, PersistenceError> {
        let place = self.0.place_of(id);
        let log = place.log();
        // A log that holds nothing says nothing about the file beside it.
        let found = self.info(&log)?;
        if let Some(info) = found.filter(|it| it.len > 0) {
            let opened = self.0.disk.open(&log, crate::system::Open::Existing).map_err(failed("cannot open", &log))?;
            let header = crate::read::read_header(&*opened, info.len);
            return header.map(|_| place).map_err(|error| unreadable(&log, error));
        }
        let bytes = match place.view() {
            Some(view) => crate::files::read(&*self.0.disk, view).map_err(failed("cannot read", view))?,
            None => None,
        };
        match (bytes.as_deref().map(foreign), place.view()) {
            (Some(Some(why)), Some(view)) => Err(PersistenceError::NotASession { file: view.to_owned(), why }),
            (None, _) if found.is_none() => Err(PersistenceError::NotFound(id.clone())),
            _ => Ok(place),
        }
    }

    /// The id of the session of a file, which is bound to it from now on.
    fn find_file(&self, file: &Path) -> Result<SessionId, PersistenceError> {
        if !file.is_absolute() {
            let why = "it has to be named from the root".to_owned();
            return Err(PersistenceError::Io { what: "cannot find", file: file.to_owned(), why });
        }
        let place = Place::of_file(file);
        let log = place.log();
        let id = match self.info(&log)? {
            Some(info) => {
                let opened = self.0.disk.open(&log, crate::system::Open::Existing);
                let opened = opened.map_err(failed("cannot open", &log))?;
                let header = crate::read::read_header(&*opened, info.len);
                header.map_err(|error| unreadable(&log, error))?.0.id
            }
            None => self.0.bound_to(file).unwrap_or_else(|| id_of_file(file)),
        };
        self.0.bind(&id, file);
        Ok(id)
    }

    /// A session without records. Its id is a new one: the file may have had another session before.
    fn new_session(&self, file: &Path, notices: Vec<String>) -> Result<StoredSession, PersistenceError> {
        self.0.forget(&id_of_file(file));
        let id = SessionId::from(format!("session-{:016x}", self.0.mark()));
        self.0.bind_anew(&id, file);
        let kept = self.0.kept_of(&id);
        let lock = self.0.lock(&kept).inspect_err(|_| self.0.forget(&id))?;
        let shown = view::add(&*self.0.disk, file, []);
        if let Err(error) = shown {
            self.0.forget(&id);
            return Err(failed("cannot write", file)(error));
        }
        kept.state().log = Some(LogFile::new(lock));
        let now = self.0.ctx.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let header = SessionHeader {
            version: SESSION_VERSION,
            id,
            created_at: i64::try_from(now).unwrap_or(i64::MAX),
            cwd: None,
            parent_session: None,
            seed_length: None,
        };
        Ok(StoredSession { header, records: Vec::new(), notices })
    }

    fn list_folder(&self, folder: &Path) -> Result<Vec<FiledSession>, PersistenceError> {
        let entries = self.0.disk.list(folder).map_err(failed("cannot list", folder))?;
        let names: std::collections::HashSet<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        let mut found = Vec::new();
        for (name, info) in &entries {
            let base = match name.strip_suffix(LOG) {
                Some(base) => folder.join(base),
                None => folder.join(name),
            };
            let is_log = name.ends_with(LOG);
            let has_log = names.contains(format!("{name}{LOG}").as_str());
            let is_older = name.ends_with(VIEW) && !name.ends_with(".checkpoints.jsonl") && !has_log;
            let summary = match (is_log, is_older) {
                (true, _) => self.summary_of_log(&base, *info),
                (false, true) => self.summary_of_older(&base, *info),
                (false, false) => continue,
            };
            match summary {
                Ok(summary) => found.push(FiledSession { file: base, summary }),
                Err(error) => self.0.ctx.logger().warn(format_args!("left out of the list of sessions: {error}")),
            }
        }
        found.sort_by(|a, b| order(&a.summary, &b.summary));
        Ok(found)
    }

    fn summary_of_log(&self, base: &Path, info: FileInfo) -> Result<SessionSummary, PersistenceError> {
        let disk = &*self.0.disk;
        let place = Place::of_file(base);
        let digest = digest(disk, &place, info, self.0.mark()).map_err(|error| unreadable(&place.log(), error))?;
        let id = &digest.header.id;
        // A log that is not where its id says was put there by the name of its file.
        if self.0.place_of(id).log() != place.log() && id_at(disk, &self.0.place_of(id)).as_ref() != Some(id) {
            self.0.bind(id, base);
        }
        Ok(digest.summary(disk, &place, info.modified_ms))
    }

    fn summary_of_older(&self, file: &Path, info: FileInfo) -> Result<SessionSummary, PersistenceError> {
        let bytes = crate::files::read(&*self.0.disk, file).map_err(failed("cannot read", file))?.unwrap_or_default();
        if let Some(why) = foreign(&bytes) {
            return Err(PersistenceError::NotASession { file: file.to_owned(), why });
        }
        let newer = |found| PersistenceError::Newer { file: PathBuf::from(file), found, supported: view::VIEW_VERSION };
        let records = import(&bytes, info.modified_ms).map_err(newer)?.records;
        let id = self.find_file(file)?;
        let mut digest = Digest::new(SessionHeader {
            version: SESSION_VERSION,
            id,
            created_at: info.modified_ms,
            cwd: None,
            parent_session: None,
            seed_length: None,
        });
        records.iter().for_each(|it| digest.take(it));
        Ok(digest.summary(&*self.0.disk, &Place::of_file(file), info.modified_ms))
    }
}
