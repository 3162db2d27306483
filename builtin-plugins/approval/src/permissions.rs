//! What humans permitted for the rest of their sessions.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use linn_bus::Context;
use linn_services::approval::Permission;
use linn_services::ids::SessionId;
use linn_services::session::{Session, Sessions};

use crate::judge::{is_covered, is_exactly_covered};
use crate::rule::Rule;
use crate::subject::Subject;

/// How far a session may stand from the first one it comes from.
const MAX_ANCESTORS: usize = 64;

/// Permissions by the session that all others of a family come from.
#[derive(Debug, Default)]
pub(crate) struct Permissions(Mutex<HashMap<SessionId, Vec<Permission>>>);

impl Permissions {
    fn state(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Permission>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, family: SessionId, permission: Permission) {
        let mut state = self.state();
        let held = state.entry(family).or_default();
        if !held.contains(&permission) {
            held.push(permission);
        }
    }

    pub(crate) fn of(&self, family: &SessionId) -> Vec<Permission> {
        self.state().get(family).cloned().unwrap_or_default()
    }

    /// Says whether there were any.
    pub(crate) fn clear(&self, family: &SessionId) -> bool {
        self.state().remove(family).is_some()
    }
}

/// The session that this one comes from in the end, as far as they live: who permits something in a conversation means it
/// for the agents that work for it as well.
pub(crate) fn family_of(ctx: &Context, session: &Session) -> SessionId {
    let mut eldest = session.clone();
    let Some(sessions) = ctx.get::<dyn Sessions>() else { return eldest.id().clone() };
    for _ in 0..MAX_ANCESTORS {
        let parent = eldest.header().parent_session.as_ref().and_then(|it| sessions.get(it).ok().flatten());
        match parent {
            Some(parent) => eldest = parent,
            None => break,
        }
    }
    eldest.id().clone()
}

/// Whether what was permitted, together with the rules that allow, answers the question about a call.
pub(crate) fn permits(permissions: &[Permission], allow: &[Rule], subject: &Subject, is_suspicion: bool) -> bool {
    let mut rules: Vec<Rule> = permissions.iter().filter_map(rule_of).filter(|it| it.is_about(&subject.tool)).collect();
    if is_suspicion {
        return is_exactly_covered(subject, &rules);
    }
    let is_class = |it: &Permission| matches!(it, Permission::Class { class } if Some(*class) == subject.class);
    if permissions.iter().any(is_class) {
        return true;
    }
    if rules.is_empty() {
        return false;
    }
    // A line of two commands may have one of them allowed by rule and the other permitted.
    rules.extend(allow.iter().filter(|it| it.is_about(&subject.tool)).cloned());
    is_covered(subject, &rules)
}

fn rule_of(permission: &Permission) -> Option<Rule> {
    match permission {
        Permission::Tool { tool } => Some(Rule::new(tool.as_str(), "*")),
        Permission::Pattern { tool, pattern } => Some(Rule::new(tool.as_str(), pattern)),
        Permission::Exact { tool, target } => Some(Rule::exact(tool.as_str(), target)),
        _ => None,
    }
}
