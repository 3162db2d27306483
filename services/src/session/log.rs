//! A session that lives: its log, and what it derives from it as it grows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use linn_bus::{Clock, Context, ListenerErrors, ScopeKey};

use crate::events::SessionEvent;
use crate::ids::SessionId;
use crate::model::{EpochHeader, Message};
use crate::session::headers::HeaderFold;
use crate::session::surface::Surface;
use crate::session::{Fact, Record, RecordSurface, SessionHeader, SessionRewind, SurfaceOp};

/// A session: a log that only grows, and the history that derives from it. A handle, cheap to clone.
///
/// What is appended is in the log at once and told to the listeners of `session/event`, one record after the other in the
/// order of the log, also where listeners append themselves.
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
    untold: VecDeque<Arc<Record>>,
    /// Somebody is telling.
    is_telling: bool,
}

/// Where the records of a session are told.
#[derive(Clone)]
pub(crate) struct Audience {
    pub(crate) ctx: Context,
    pub(crate) owner: Option<ScopeKey>,
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

/// Why a record was not appended, or was but not all heard of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The kind belongs on the surface, and no place there was named.
    #[error("`{kind}` lies on the surface; say where, with `append_to_surface`")]
    SurfaceOpMissing {
        /// The kind.
        kind: String,
    },
    /// The kind has no place on the surface.
    #[error("`{kind}` does not lie on the surface; append it with `append`")]
    SurfaceOpUnexpected {
        /// The kind.
        kind: String,
    },
    /// The end of a range to replace is not on the surface.
    #[error("record {seq} is not on the surface")]
    NotOnSurface {
        /// The record.
        seq: u64,
    },
    /// The range to replace runs backwards.
    #[error("the range to replace begins at record {start}, which lies after its end, record {end}")]
    RangeReversed {
        /// First record.
        start: u64,
        /// Last record.
        end: u64,
    },
    /// A record names another one as its source that is not older, or names one twice, or names none.
    #[error("`{kind}` names record {seq} as a source, which is not an older record named once")]
    BadSource {
        /// The kind.
        kind: String,
        /// The record named.
        seq: u64,
    },
    /// A value has no place in JSON, such as a number that is not finite.
    #[error("`{kind}` holds what JSON cannot: {what}")]
    NotJson {
        /// The kind.
        kind: String,
        /// What it holds.
        what: String,
    },
    /// A header changed in a log that has none.
    #[error("`request/header-delta` before any `request/header`: nothing to change")]
    DeltaWithoutHeader,
    /// The conversation cannot go back to there.
    #[error("cannot go back to record {to}: {why}")]
    BadRewind {
        /// Where it should go.
        to: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The record is in the log; listeners of `session/event` failed.
    #[error("record {seq} is logged, but who heard of it failed: {errors}")]
    Listeners {
        /// The record.
        seq: u64,
        /// Their errors.
        #[source]
        errors: ListenerErrors,
    },
}

impl AppendError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SurfaceOpMissing { .. } => "SURFACE_OP_MISSING",
            Self::SurfaceOpUnexpected { .. } => "SURFACE_OP_UNEXPECTED",
            Self::NotOnSurface { .. } => "NOT_ON_SURFACE",
            Self::RangeReversed { .. } => "RANGE_REVERSED",
            Self::BadSource { .. } => "BAD_SOURCE",
            Self::NotJson { .. } => "NOT_JSON",
            Self::DeltaWithoutHeader => "DELTA_WITHOUT_HEADER",
            Self::BadRewind { .. } => "BAD_REWIND",
            Self::Listeners { .. } => "LISTENERS_FAILED",
        }
    }

    /// Whether the record is in the log all the same.
    pub fn is_logged(&self) -> bool {
        matches!(self, Self::Listeners { .. })
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
        let now = self.0.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = {
            let mut state = self.state();
            state.check(&fact, surface.as_ref())?;
            let time_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
            let record = Arc::new(Record { seq: state.records.len() as u64, time_ms, fact, surface });
            state.take(record.clone())?;
            if state.audience.is_none() {
                return Ok(record);
            }
            state.untold.push_back(record.clone());
            if state.is_telling {
                return Ok(record);
            }
            state.is_telling = true;
            record
        };
        match self.tell(&record) {
            Ok(()) => Ok(record),
            Err(errors) => Err(AppendError::Listeners { seq: record.seq, errors }),
        }
    }

    /// Tells all records that were not told yet, and gives the errors of those who heard of `own`.
    fn tell(&self, own: &Arc<Record>) -> Result<(), ListenerErrors> {
        let mut own_errors = Ok(());
        loop {
            let (record, audience) = {
                let mut state = self.state();
                match (state.untold.pop_front(), state.audience.clone()) {
                    (Some(record), Some(audience)) => (record, audience),
                    (_, _) => {
                        state.untold.clear();
                        state.is_telling = false;
                        return own_errors;
                    }
                }
            };
            let event = SessionEvent { session: self.clone(), owner: audience.owner, record };
            let told = audience.ctx.try_emit(&event);
            if Arc::ptr_eq(&event.record, own) {
                own_errors = told;
            } else if let Err(errors) = told {
                audience.ctx.logger().error(format_args!("session `{}`: {errors}", self.id()));
            }
        }
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

impl State {
    /// Whether the fact can be logged.
    fn check(&self, fact: &Fact, surface: Option<&RecordSurface>) -> Result<(), AppendError> {
        let kind = || fact.kind().to_owned();
        if let Some(what) = fact.not_json() {
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
        let mut seen = std::collections::HashSet::new();
        if seqs.is_empty() {
            return Err(bad(self.records.len() as u64));
        }
        match seqs.iter().find(|seq| **seq >= self.records.len() as u64 || !seen.insert(**seq)) {
            Some(seq) => Err(bad(*seq)),
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
        let mut turns = Turns::default();
        self.records.iter().take_while(|it| it.seq < to).for_each(|it| turns.note(&it.fact));
        if turns.is_open { bad("it lies within a turn") } else { Ok(()) }
    }

    /// Takes a record in; what it says was checked.
    fn take(&mut self, record: Arc<Record>) -> Result<(), AppendError> {
        self.surface.put(&record)?;
        self.headers.take(&record.fact);
        self.turns.note(&record.fact);
        let rewind = if let Fact::SessionRewind(it) = &record.fact { Some(it.to) } else { None };
        self.records.push(record);
        if let Some(to) = rewind {
            self.surface = self.surface_before(to)?;
        }
        Ok(())
    }

    /// The surface as it was when the log had `to` records.
    fn surface_before(&self, to: u64) -> Result<Surface, AppendError> {
        // A rewind in between throws away what was collected; to find where to start, go from the last one backwards.
        let mut end = to;
        let mut stretches = Vec::new();
        let before = |end: u64| &self.records[..usize::try_from(end).unwrap_or(usize::MAX).min(self.records.len())];
        while let Some(rewind) = before(end).iter().rev().find_map(|it| match &it.fact {
            Fact::SessionRewind(rewind) => Some((it.seq, rewind.to)),
            _ => None,
        }) {
            stretches.push(rewind.0..end);
            end = rewind.1;
        }
        stretches.push(0..end);
        let mut surface = Surface::default();
        for stretch in stretches.into_iter().rev() {
            for record in self.records.iter().filter(|it| stretch.contains(&it.seq)) {
                surface.put(record)?;
            }
        }
        Ok(surface)
    }
}

/// Why the records of an earlier life make no session.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// A record is missing, or in the wrong place.
    #[error("the log has a gap: record {found} stands where record {expected} belongs")]
    Gap {
        /// Seq that belongs there.
        expected: u64,
        /// Seq that stands there.
        found: u64,
    },
    /// A record cannot be appended to those before it.
    #[error("record {seq} does not fit those before it")]
    Record {
        /// The record.
        seq: u64,
        /// Why.
        #[source]
        source: AppendError,
    },
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", self.id()).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
