//! A recording that is being replayed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use linn_services::model::GenerateRequest;

use crate::bundled::{BUNDLED, Bundled};
use crate::error::ReplayError;
use crate::format::{Exchange, Recording};
use crate::plugin::{ReplayConfig, ReplayMode};
use crate::store::RecordingStore;

/// A recording, and which of its answers were given.
struct Tape {
    name: String,
    exchanges: Vec<Arc<Exchange>>,
    is_used: Vec<bool>,
}

impl Tape {
    fn new(name: &str, recording: Recording) -> Self {
        let exchanges: Vec<_> = recording.exchanges.into_iter().map(Arc::new).collect();
        Self { name: name.to_owned(), is_used: vec![false; exchanges.len()], exchanges }
    }

    fn unused(&self) -> impl Iterator<Item = usize> {
        self.is_used.iter().enumerate().filter(|(_, is_used)| !**is_used).map(|(at, _)| at)
    }

    /// The answer to a request. In strict mode the first that was recorded for it and not given yet: what is asked side by
    /// side comes in any order.
    fn answer(
        &mut self,
        request: &GenerateRequest,
        mode: ReplayMode,
        begins_anew: bool,
    ) -> Result<Arc<Exchange>, ReplayError> {
        if begins_anew && self.unused().next().is_none() {
            self.is_used.fill(false);
        }
        let used_up = ReplayError::UsedUp { name: self.name.clone(), recorded: self.exchanges.len() };
        let next = self.unused().next().ok_or(used_up)?;
        let difference = |at: usize| self.exchanges[at].request.difference(request, true);
        let chosen = match mode {
            ReplayMode::Lenient => next,
            ReplayMode::Strict => match difference(next) {
                None => next,
                Some(first) => self.unused().skip(1).find(|at| difference(*at).is_none()).ok_or_else(|| {
                    ReplayError::Mismatch { name: self.name.clone(), request: next + 1, difference: first }
                })?,
            },
        };
        self.is_used[chosen] = true;
        Ok(self.exchanges[chosen].clone())
    }
}

/// The recordings there are, and those that are being replayed.
pub(crate) struct Library {
    bundled: Vec<Bundled>,
    store: Arc<dyn RecordingStore>,
    mode: ReplayMode,
    begins_anew: bool,
    tapes: Mutex<HashMap<String, Tape>>,
}

impl Library {
    pub(crate) fn new(config: &ReplayConfig) -> Self {
        Self {
            bundled: BUNDLED.iter().chain(&config.bundled).copied().collect(),
            store: config.store(),
            mode: config.mode,
            begins_anew: config.repeat,
            tapes: Mutex::default(),
        }
    }

    /// The answer of the recording `name` to a request.
    pub(crate) fn answer(&self, name: &str, request: &GenerateRequest) -> Result<Arc<Exchange>, ReplayError> {
        let mut tapes = self.tapes.lock().unwrap_or_else(PoisonError::into_inner);
        if !tapes.contains_key(name) {
            tapes.insert(name.to_owned(), Tape::new(name, self.load(name)?));
        }
        let tape = tapes.get_mut(name).expect("it was put there");
        tape.answer(request, self.mode, self.begins_anew)
    }

    fn load(&self, name: &str) -> Result<Recording, ReplayError> {
        if let Some(bundled) = self.bundled.iter().find(|it| it.name == name) {
            return Recording::parse(name, bundled.text);
        }
        match self.store.load(name)? {
            Some(text) => Recording::parse(name, &text),
            None => Err(ReplayError::NotFound {
                name: name.to_owned(),
                bundled: self.bundled.iter().map(|it| it.name).collect::<Vec<_>>().join(", "),
                looked_for: self.store.whereabouts(name),
            }),
        }
    }
}
