//! The policy that wants files read before they are written or edited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Fault, Plugin};
use linn_services::agent::Agent;
use linn_services::events::{AgentDisposed, FsEditIntent, FsObserved, FsWriteIntentRequest};
use linn_services::fs::{FsTarget, FsWriteIntent};
use linn_services::ids::{FsTargetKey, FsVersion, SessionId};

/// Lets a session write and edit what it has seen, as it has seen it, and create what is not there.
///
/// It decides alone: who listens behind it is not asked. What a session has seen is forgotten when its agent is gone; a
/// session that is resumed reads again.
#[derive(Debug)]
pub struct FsPolicyPlugin;

impl Plugin for FsPolicyPlugin {
    const NAME: &'static str = "fs-policy";
    type Config = ();
    type Needs = ();

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let policy = Arc::<Policy>::default();
        ctx.on_with(&policy, Policy::observed)?;
        ctx.on_with(&policy, Policy::write)?;
        ctx.on_with(&policy, Policy::edit)?;
        ctx.on_with(&policy, Policy::disposed)?;
        Ok(())
    }
}

/// What a session has seen, file by file.
type Seen = HashMap<FsTargetKey, FsVersion>;

#[derive(Default)]
struct Policy {
    /// Who acts for no agent shares one view.
    by_session: Mutex<HashMap<Option<SessionId>, Seen>>,
}

impl Policy {
    fn by_session(&self) -> MutexGuard<'_, HashMap<Option<SessionId>, Seen>> {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, target: &FsTarget, actor: Option<&Agent>) -> Option<FsVersion> {
        self.by_session().get(&session_of(actor)).and_then(|it| it.get(&target.target_key)).cloned()
    }

    fn observed(&self, observed: &FsObserved) {
        let mut by_session = self.by_session();
        let seen = by_session.entry(session_of(observed.actor.as_ref())).or_default();
        let key = observed.target.target_key.clone();
        match &observed.version {
            Some(version) => seen.insert(key, version.clone()),
            None => seen.remove(&key),
        };
    }

    async fn write(&self, request: &FsWriteIntentRequest) -> FsWriteIntent {
        match self.seen(&request.target, request.actor.as_ref()) {
            Some(version) => FsWriteIntent::ReplaceIfVersion { version },
            None => FsWriteIntent::CreateIfAbsent,
        }
    }

    async fn edit(&self, request: &FsEditIntent) -> Result<Option<FsVersion>, Fault> {
        let seen = self.seen(&request.target, request.actor.as_ref());
        let not_seen = || {
            let path = &request.target.display_path;
            Fault::msg(format!("\"{path}\" was not read in this session")).with_code("FS_NOT_OBSERVED")
        };
        seen.map(Some).ok_or_else(not_seen)
    }

    fn disposed(&self, disposed: &AgentDisposed) {
        self.by_session().remove(&session_of(Some(&disposed.agent)));
    }
}

fn session_of(actor: Option<&Agent>) -> Option<SessionId> {
    actor.map(|it| it.session().id().clone())
}
