//! A session that lives: its log, and what it derives from it as it grows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::UNIX_EPOCH;

use linn_bus::{Clock, Context, ListenerErrors, MAX_NESTING, ScopeKey};

use crate::events::SessionEvent;
use crate::ids::SessionId;
use crate::model::{EpochHeader, Message};
use crate::secrets::SecretKeeper;
use crate::session::headers::HeaderFold;
use crate::session::lossless::not_lossless;
use crate::session::surface::Surface;
use crate::session::{AppendError, Fact, Record, RecordSurface, SeedError, SessionHeader, SessionRewind, SurfaceOp};

/// A session: a log that only grows, and the history that derives from it. A handle, cheap to clone.
///
/// What is appended is in the log at once and told to the listeners of `session/event`, one record after the other in the
/// order of the log, also where listeners append themselves and where threads append side by side. Whoever appends while
/// somebody else is telling does not wait: the teller tells that record too, and logs the errors of its listeners.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    header: SessionHeader,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: Vec<Arc<Record>>,
    surface: Surface,
    headers: HeaderFold,
    turns: Turns,
    /// Who hears of records; nobody before the session was entered into the store and after it was taken out.
    audience: Option<Audience>,
    /// Records that the audience has not heard of yet.
    untold: VecDeque<Untold>,
    /// Who is telling.
    teller: Option<Teller>,
}

struct Untold {
    record: Arc<Record>,
    n_before: usize,
}

/// The thread that tells, and how many records were logged, each in answer to the one before, up to the one it tells.
#[derive(Clone, Copy)]
struct Teller {
    thread: ThreadId,
    n_before: usize,
}

/// Where the records of a session are told.
#[derive(Clone)]
pub(crate) struct Audience {
    pub(crate) ctx: Context,
    pub(crate) owner: Option<ScopeKey>,
    /// What is taken out of all that is logged.
    pub(crate) secrets: SecretKeeper,
}

/// Where the log stands in turns and steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turns {
    /// Number of the last turn that began; 0 before the first.
    pub last_turn: u32,
    /// Whether that turn is open.
    pub is_open: bool,
    /// Number of the step that is open.
    pub open_step: Option<u32>,
}

impl Turns {
    /// Number of the turn that is open.
    pub fn open_turn(&self) -> Option<u32> {
        self.is_open.then_some(self.last_turn)
    }

    fn note(&mut self, fact: &Fact) {
        match fact {
            Fact::TurnStart(it) => *self = Self { last_turn: it.turn, is_open: true, open_step: None },
            Fact::TurnEnd(_) => (self.is_open, self.open_step) = (false, None),
            Fact::StepStart(it) => self.open_step = Some(it.step),
            Fact::StepEnd(_) => self.open_step = None,
            _ => {}
        }
    }
}

impl Session {
    /// A session that nobody hears of yet, with the records of an earlier life.
    ///
    /// The records are taken as they are, after a check that they are numbered from 0 without gaps and lie where they say.
    pub(crate) fn prepare(
        header: SessionHeader,
        clock: Arc<dyn Clock>,
        seed: Vec<Arc<Record>>,
    ) -> Result<Self, SeedError> {
        let mut state = State::default();
        state.records.reserve(seed.len());
        for record in seed {
            let expected = state.records.len() as u64;
            if record.seq != expected {
                return Err(SeedError::Gap { expected, found: record.seq });
            }
            state
                .check(&record.fact, record.surface.as_ref())
                .map_err(|source| SeedError::Record { seq: expected, source })?;
            state.take(record).map_err(|source| SeedError::Record { seq: expected, source })?;
        }
        Ok(Self(Arc::new(Inner { header, clock, state: Mutex::new(state) })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Id of the session.
    pub fn id(&self) -> &SessionId {
        &self.0.header.id
    }

    /// What is fixed about it.
    pub fn header(&self) -> &SessionHeader {
        &self.0.header
    }

    /// How many records the log holds; the seq of the next one.
    pub fn len(&self) -> u64 {
        self.state().records.len() as u64
    }

    /// Whether nothing was logged yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records from `seq` on, as they are now.
    pub fn records_from(&self, seq: u64) -> Vec<Arc<Record>> {
        let from = usize::try_from(seq).unwrap_or(usize::MAX);
        self.state().records.get(from..).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// One record.
    pub fn record(&self, seq: u64) -> Option<Arc<Record>> {
        self.state().records.get(usize::try_from(seq).ok()?).cloned()
    }

    /// The last record that `wanted` picks something from, and what it picks. Nothing is copied on the way.
    ///
    /// The log is locked meanwhile: `wanted` must not use the session.
    pub fn find_last<T>(&self, mut wanted: impl FnMut(&Record) -> Option<T>) -> Option<T> {
        self.state().records.iter().rev().find_map(|it| wanted(it))
    }

    /// Where the log stands in turns and steps.
    pub fn turns(&self) -> Turns {
        self.state().turns
    }

    /// Seqs of the records on the surface, in the order the model sees them.
    pub fn surface(&self) -> Vec<u64> {
        self.state().surface.seqs()
    }

    /// The history as the model sees it: a snapshot of shared messages.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.state().surface.messages()
    }

    /// The history as the model saw it when the log had `len` records. Walks the log up to there.
    pub fn messages_before(&self, len: u64) -> Vec<Arc<Message>> {
        // A surface that was there once can be there again.
        Surface::replay(&self.state().records, len).map(|it| it.messages()).unwrap_or_default()
    }

    /// The surface with what the model sees of each record, which is nothing for an answer without content.
    pub fn surface_messages(&self) -> Vec<(u64, Option<Arc<Message>>)> {
        self.state().surface.nodes()
    }

    /// What stands in front of the history, as the log tells it.
    pub fn request_header(&self) -> Option<Arc<EpochHeader>> {
        self.state().headers.current()
    }

    /// The scope that hears of its records, while the session is in the store.
    pub fn owner(&self) -> Option<ScopeKey> {
        self.state().audience.as_ref().and_then(|it| it.owner.clone())
    }

    /// Whether the session is in the store.
    pub fn is_live(&self) -> bool {
        self.state().audience.is_some()
    }

    /// Logs a fact that has no place on the surface.
    ///
    /// With [`AppendError::Listeners`] the fact is logged all the same.
    pub fn append(&self, fact: impl Into<Fact>) -> Result<Arc<Record>, AppendError> {
        self.log(fact.into(), None)
    }

    /// Logs a fact and puts it on the surface; `source_seqs` names the records it was made of.
    ///
    /// With [`AppendError::Listeners`] the fact is logged all the same.
    pub fn append_to_surface(
        &self,
        fact: impl Into<Fact>,
        op: SurfaceOp,
        source_seqs: Option<Vec<u64>>,
    ) -> Result<Arc<Record>, AppendError> {
        self.log(fact.into(), Some(RecordSurface { op, source_seqs }))
    }

    /// Logs a fact at the end of the surface.
    pub fn say(&self, fact: impl Into<Fact>) -> Result<Arc<Record>, AppendError> {
        self.append_to_surface(fact, SurfaceOp::Append, None)
    }

    fn log(&self, fact: Fact, surface: Option<RecordSurface>) -> Result<Arc<Record>, AppendError> {
        let fact = self.without_secrets(of_known_kind(fact)?)?;
        let now = self.0.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let record = {
            let mut state = self.state();
            state.check(&fact, surface.as_ref())?;
            let n_before = state.n_before(&fact)?;
            let record = Arc::new(Record { seq: state.records.len() as u64, time_ms, fact, surface });
            state.take(record.clone())?;
            if state.audience.is_none() {
                return Ok(record);
            }
            state.untold.push_back(Untold { record: record.clone(), n_before });
            if state.teller.is_some() {
                return Ok(record);
            }
            state.teller = Some(Teller { thread: std::thread::current().id(), n_before });
            record
        };
        match self.tell(&record) {
            Ok(()) => Ok(record),
            Err(errors) => Err(AppendError::Listeners { seq: record.seq, errors }),
        }
    }

    /// The fact as it is logged.
    fn without_secrets(&self, fact: Fact) -> Result<Fact, AppendError> {
        let secrets = self.state().audience.as_ref().map(|it| it.secrets.clone()).unwrap_or_default();
        if secrets.is_empty() {
            return Ok(fact);
        }
        let bad = |why: serde_json::Error| AppendError::BadData { kind: fact.kind().to_owned(), why: why.to_string() };
        let mut json = Vec::new();
        fact.serialize_data(&mut serde_json::Serializer::new(&mut json)).map_err(bad)?;
        if std::str::from_utf8(&json).is_ok_and(|it| !secrets.is_in(it)) {
            return Ok(fact);
        }
        // What JSON would change is refused by name later on.
        let Ok(mut data) = serde_json::from_slice(&json) else { return Ok(fact) };
        secrets.redact_value(&mut data);
        Fact::from_parts(fact.kind(), data).map_err(bad)
    }

    /// Tells all records that were not told yet, and gives the errors of those who heard of `own`.
    fn tell(&self, own: &Arc<Record>) -> Result<(), ListenerErrors> {
        let stop = StopTelling(self);
        let mut own_errors = Ok(());
        while let Some((record, audience)) = stop.next() {
            let event = SessionEvent { session: self.clone(), owner: audience.owner, record };
            let told = audience.ctx.try_emit(&event);
            if Arc::ptr_eq(&event.record, own) {
                own_errors = told;
            } else if let Err(errors) = told {
                audience.ctx.logger().error(format_args!("session `{}`: {errors:#}", self.id()));
            }
        }
        own_errors
    }

    /// Has the records told from now on.
    pub(crate) fn open_to(&self, audience: Audience) {
        self.state().audience = Some(audience);
    }

    /// Has no records told any more.
    pub(crate) fn close(&self) {
        self.state().audience = None;
    }

    /// Where its records are told.
    pub(crate) fn audience(&self) -> Option<Audience> {
        self.state().audience.clone()
    }
}

/// Ends the telling, also when it panics.
struct StopTelling<'a>(&'a Session);

impl StopTelling<'_> {
    /// The next record to tell, and to whom; with none, the telling is over in the same moment.
    fn next(&self) -> Option<(Arc<Record>, Audience)> {
        let mut state = self.0.state();
        let next = state.untold.pop_front().zip(state.audience.clone());
        match next {
            Some((Untold { record, n_before }, audience)) => {
                state.teller = Some(Teller { thread: std::thread::current().id(), n_before });
                Some((record, audience))
            }
            None => {
                state.untold.clear();
                state.teller = None;
                None
            }
        }
    }
}

impl Drop for StopTelling<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state();
            state.untold.clear();
            state.teller = None;
        }
    }
}

/// The typed fact, where one was given by the name of a kind that Linn knows.
fn of_known_kind(fact: Fact) -> Result<Fact, AppendError> {
    match fact {
        Fact::Other { kind, data } if Fact::known_kind(&kind).is_some() => {
            Fact::from_parts(&kind, data).map_err(|why| AppendError::BadData { kind, why: why.to_string() })
        }
        fact => Ok(fact),
    }
}

impl State {
    /// How many records were logged, each in answer to the one before, up to one that is logged now.
    fn n_before(&self, fact: &Fact) -> Result<usize, AppendError> {
        match self.teller {
            Some(teller) if teller.thread == std::thread::current().id() => match teller.n_before + 1 {
                n_before if n_before > MAX_NESTING => Err(AppendError::TooDeep { kind: fact.kind().to_owned() }),
                n_before => Ok(n_before),
            },
            _ => Ok(0),
        }
    }

    /// Whether the fact can be logged.
    fn check(&self, fact: &Fact, surface: Option<&RecordSurface>) -> Result<(), AppendError> {
        let kind = || fact.kind().to_owned();
        if let Some(what) = not_lossless(fact) {
            return Err(AppendError::NotJson { kind: kind(), what });
        }
        match (surface, fact.is_on_surface()) {
            (None, true) => return Err(AppendError::SurfaceOpMissing { kind: kind() }),
            (Some(_), false) => return Err(AppendError::SurfaceOpUnexpected { kind: kind() }),
            (None, false) => {}
            (Some(surface), true) => {
                self.surface.check(surface.op)?;
                self.check_sources(fact, surface)?;
            }
        }
        match fact {
            Fact::SessionRewind(it) => self.check_rewind(it),
            Fact::RequestHeaderDelta(_) if self.headers.current().is_none() => Err(AppendError::DeltaWithoutHeader),
            _ => Ok(()),
        }
    }

    fn check_sources(&self, fact: &Fact, surface: &RecordSurface) -> Result<(), AppendError> {
        let Some(seqs) = &surface.source_seqs else { return Ok(()) };
        let bad = |seq| AppendError::BadSource { kind: fact.kind().to_owned(), seq };
        let end = self.records.len() as u64;
        // Nearly always they are in order, as the chunks of an answer are.
        if !seqs.is_empty() && seqs.is_sorted_by(|a, b| a < b) {
            return seqs.last().filter(|it| **it >= end).map_or(Ok(()), |it| Err(bad(*it)));
        }
        let mut seen = std::collections::HashSet::new();
        match seqs.iter().find(|seq| **seq >= end || !seen.insert(**seq)) {
            Some(seq) => Err(bad(*seq)),
            None if seqs.is_empty() => Err(bad(end)),
            None => Ok(()),
        }
    }

    fn check_rewind(&self, rewind: &SessionRewind) -> Result<(), AppendError> {
        let to = rewind.to;
        let bad = |why| Err(AppendError::BadRewind { to, why });
        if self.turns.is_open {
            return bad("a turn is open");
        }
        if to > self.records.len() as u64 {
            return bad("the log is not that long");
        }
        let before = &self.records[..usize::try_from(to).unwrap_or(usize::MAX)];
        let is_within_turn = before.iter().rev().find_map(|it| match it.fact {
            Fact::TurnStart(_) => Some(true),
            Fact::TurnEnd(_) => Some(false),
            _ => None,
        });
        if is_within_turn == Some(true) { bad("it lies within a turn") } else { Ok(()) }
    }

    /// Takes a record in; what it says was checked.
    fn take(&mut self, record: Arc<Record>) -> Result<(), AppendError> {
        self.surface.put(&record)?;
        self.headers.take(&record.fact);
        self.turns.note(&record.fact);
        let rewind = if let Fact::SessionRewind(it) = &record.fact { Some((record.seq, it.to)) } else { None };
        self.records.push(record);
        if let Some((seq, to)) = rewind {
            self.surface.go_back(&self.records, seq, to)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", self.id()).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A session is shown by its id.
impl serde::Serialize for Session {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id().serialize(serializer)
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
