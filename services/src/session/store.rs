//! The sessions that live in a harness.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use linn_bus::{
    BusError, Context, Demand, EffectHandle, Fault, ListenerErrors, NeedList, Plugin, ServiceError, provider, service,
};

use crate::events::{SessionCreated, SessionDisposed, SessionFlush};
use crate::ids::SessionId;
use crate::secrets::secrets_of;
use crate::session::fork::{ForkError, seed_of_fork};
use crate::session::log::Audience;
use crate::session::{Record, SESSION_VERSION, SeedError, Session, SessionHeader};

/// The sessions that live in a harness: made here, found here, flushed here.
///
/// A session belongs to the context it was entered through: its scope hears of the session's records, and the session
/// leaves the store with it.
#[service("sessions")]
pub trait Sessions {
    /// Makes a session and announces it. The same as [`prepare`](Sessions::prepare), then [`enter`](Sessions::enter).
    fn create(&self, ctx: &Context, options: CreateSession) -> Result<Session, SessionError>;

    /// Makes a session that nobody can find or hear of yet; its id is taken from now on, until the reservation goes.
    fn prepare(&self, ctx: &Context, options: CreateSession) -> Result<PreparedSession, SessionError>;

    /// Puts a prepared session into the store and announces it with `session/created`. A listener that fails undoes it.
    fn enter(&self, ctx: &Context, prepared: PreparedSession) -> Result<EnteredSession, SessionError>;

    /// The session of this id, if it is in the store.
    fn get(&self, id: &SessionId) -> Result<Option<Session>, SessionError>;

    /// All sessions in the store, by id.
    fn list(&self) -> Result<Vec<Session>, SessionError>;

    /// Asks those who keep sessions to write everything down, and waits until they have: `session/flush`.
    ///
    /// Cancel safe: what was written stays written.
    async fn flush(&self, session: &Session) -> Result<(), SessionError>;

    /// A new session that begins with the records of `source` up to and with `boundary`, the seq of a `turn/end`; by
    /// default its last record.
    fn fork(
        &self,
        ctx: &Context,
        source: &SessionId,
        boundary: Option<u64>,
        child: Option<SessionId>,
    ) -> Result<Session, SessionError>;
}

/// What a new session is made of.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// Its id; by default `session-<n>`.
    pub id: Option<SessionId>,
    /// The folder it works in, an absolute path.
    pub cwd: Option<String>,
    /// The session it comes from.
    pub parent_session: Option<SessionId>,
    /// How many records of the seed came from the parent.
    pub seed_length: Option<u64>,
    /// Records it begins with.
    pub seed: Vec<Arc<Record>>,
    /// When it was made, for a session that is made again from what was stored; by default now.
    pub created_at: Option<i64>,
}

/// Why a session could not be made, found or flushed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The id is taken.
    #[error("session \"{0}\" already exists")]
    Exists(SessionId),
    /// No session has this id.
    #[error("no session \"{0}\" is open")]
    NotFound(SessionId),
    /// The session is not in the store, or no longer.
    #[error("session \"{0}\" is not live")]
    NotLive(SessionId),
    /// The folder is not named from the root.
    #[error("the folder of a session is an absolute path, and \"{0}\" is none")]
    RelativeCwd(String),
    /// The records make no session.
    #[error("session \"{id}\" cannot begin with these records")]
    Seed {
        /// The session.
        id: SessionId,
        /// Why.
        #[source]
        source: SeedError,
    },
    /// A session cannot be forked there.
    #[error("session \"{id}\" cannot be forked")]
    Fork {
        /// The session.
        id: SessionId,
        /// Why.
        #[source]
        source: ForkError,
    },
    /// A listener of `session/created` refused it.
    #[error("session \"{id}\" was refused by who heard of it: {errors}")]
    Refused {
        /// The session.
        id: SessionId,
        /// Their errors.
        #[source]
        errors: ListenerErrors,
    },
    /// A listener of `session/flush` failed.
    #[error("session \"{id}\" was not flushed: {errors}")]
    Flush {
        /// The session.
        id: SessionId,
        /// Their errors.
        #[source]
        errors: ListenerErrors,
    },
    /// The context cannot own a session any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl SessionError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Exists(_) => "SESSION_ALREADY_EXISTS",
            Self::NotFound(_) => "SESSION_NOT_FOUND",
            Self::NotLive(_) => "SESSION_NOT_LIVE",
            Self::RelativeCwd(_) => "RELATIVE_CWD",
            Self::Seed { .. } => "BAD_SEED",
            Self::Fork { source, .. } => source.code(),
            Self::Refused { .. } => "SESSION_REFUSED",
            Self::Flush { .. } => "SESSION_NOT_FLUSHED",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}

/// A session that is made and not in the store. Dropping it gives the id free again.
#[derive(Debug)]
pub struct PreparedSession {
    session: Session,
    reservation: Reservation,
}

impl PreparedSession {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// A session in the store.
#[derive(Debug, Clone)]
pub struct EnteredSession {
    /// The session.
    pub session: Session,
    /// What takes it out again; it goes with the context it was entered through.
    pub handle: EffectHandle,
}

/// An id that is taken.
#[derive(Debug)]
struct Reservation {
    store: Arc<Store>,
    id: SessionId,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.store.entries().remove(&self.id);
    }
}

/// Provides [`Sessions`].
#[derive(Debug)]
pub struct SessionsPlugin;

linn_bus::register_plugin!(SessionsPlugin);

impl Plugin for SessionsPlugin {
    const NAME: &'static str = "sessions";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Sessions>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Sessions>(Arc::new(Provider(Arc::default())))?;
        Ok(())
    }
}

struct Provider(Arc<Store>);

#[derive(Debug, Default)]
struct Store {
    /// `None` while a session is prepared.
    entries: Mutex<HashMap<SessionId, Option<Session>>>,
}

impl Store {
    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, Option<Session>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an id, or the next free default one.
    fn reserve(self: &Arc<Self>, id: Option<SessionId>) -> Result<Reservation, SessionError> {
        let mut entries = self.entries();
        let id = match id {
            Some(id) if entries.contains_key(&id) => return Err(SessionError::Exists(id)),
            Some(id) => id,
            None => (1..)
                .map(|n| SessionId::from(format!("session-{n}")))
                .find(|it| !entries.contains_key(it))
                .expect("there are more numbers than sessions"),
        };
        entries.insert(id.clone(), None);
        Ok(Reservation { store: self.clone(), id })
    }
}

#[provider]
impl Sessions for Provider {
    fn create(&self, ctx: &Context, options: CreateSession) -> Result<Session, SessionError> {
        let prepared = self.prepare(ctx, options)?;
        Ok(self.enter(ctx, prepared)?.session)
    }

    fn prepare(&self, ctx: &Context, options: CreateSession) -> Result<PreparedSession, SessionError> {
        if let Some(cwd) = options.cwd.as_deref().filter(|it| !std::path::Path::new(it).is_absolute()) {
            return Err(SessionError::RelativeCwd(cwd.to_owned()));
        }
        let reservation = self.0.reserve(options.id)?;
        let now = || ctx.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let header = SessionHeader {
            version: SESSION_VERSION,
            id: reservation.id.clone(),
            created_at: options.created_at.unwrap_or_else(|| i64::try_from(now()).unwrap_or(i64::MAX)),
            cwd: options.cwd,
            parent_session: options.parent_session,
            seed_length: options.seed_length,
        };
        let session = Session::prepare(header, ctx.clock().clone(), options.seed)
            .map_err(|source| SessionError::Seed { id: reservation.id.clone(), source })?;
        Ok(PreparedSession { session, reservation })
    }

    fn enter(&self, ctx: &Context, prepared: PreparedSession) -> Result<EnteredSession, SessionError> {
        let PreparedSession { session, reservation } = prepared;
        let owner = ctx.scope_key().cloned();
        let handle = ctx.effect(&format!("session {}", session.id()), |fx| {
            self.0.entries().insert(session.id().clone(), Some(session.clone()));
            session.open_to(Audience { ctx: ctx.clone(), owner: owner.clone(), secrets: secrets_of(ctx) });
            let (leaving, owner, ctx) = (session.clone(), owner.clone(), ctx.clone());
            fx.defer(move || {
                leaving.close();
                // Nobody finds it any more, and nobody takes its id before all have heard.
                reservation.store.entries().insert(reservation.id.clone(), None);
                ctx.emit(&SessionDisposed { session: leaving, owner });
                drop(reservation);
            });
        })?;
        match ctx.try_emit(&SessionCreated { session: session.clone(), owner }) {
            Ok(()) => Ok(EnteredSession { session, handle }),
            Err(errors) => {
                // Nothing of it waits: the store is empty again when this returns.
                drop(handle.dispose());
                Err(SessionError::Refused { id: session.id().clone(), errors })
            }
        }
    }

    fn get(&self, id: &SessionId) -> Result<Option<Session>, SessionError> {
        Ok(self.0.entries().get(id).cloned().flatten())
    }

    fn list(&self) -> Result<Vec<Session>, SessionError> {
        let mut all: Vec<Session> = self.0.entries().values().flatten().cloned().collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        Ok(all)
    }

    async fn flush(&self, session: &Session) -> Result<(), SessionError> {
        let Some(audience) = session.audience() else { return Err(SessionError::NotLive(session.id().clone())) };
        let event = SessionFlush { session: session.clone(), owner: audience.owner };
        let flushed = audience.ctx.parallel(&event).await;
        flushed.map_err(|errors| SessionError::Flush { id: session.id().clone(), errors })
    }

    fn fork(
        &self,
        ctx: &Context,
        source: &SessionId,
        boundary: Option<u64>,
        child: Option<SessionId>,
    ) -> Result<Session, SessionError> {
        let known = self.0.entries();
        if let Some(child) = child.as_ref().filter(|it| known.contains_key(*it)) {
            return Err(SessionError::Exists(child.clone()));
        }
        let parent = known.get(source).cloned();
        drop(known);
        let parent = match parent {
            None => return Err(SessionError::NotFound(source.clone())),
            Some(None) => return Err(SessionError::NotLive(source.clone())),
            Some(Some(parent)) => parent,
        };
        let seed = seed_of_fork(&parent, boundary)
            .map_err(|error| SessionError::Fork { id: source.clone(), source: error })?;
        let options = CreateSession {
            id: child,
            cwd: parent.header().cwd.clone(),
            parent_session: Some(source.clone()),
            seed_length: Some(seed.len() as u64),
            seed,
            created_at: None,
        };
        self.create(ctx, options)
    }
}
