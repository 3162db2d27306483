//! Approval: a human decides whether a call may run.

mod modes;
mod notice;
mod provider;

pub use modes::{
    ApprovalMode, ApprovalModes, ApprovalRuleReport, ModesError, PatternError, Permission, PermissionScope,
    check_pattern_scope, pattern_target,
};
pub use provider::{ApprovalConfig, ApprovalPlugin};

use linn_bus::{ListenerErrors, ServiceError, service};

use crate::events::ApprovalRequest;
use crate::session::{AppendError, ApprovalOutcome, ApprovalPolicy, Session};

/// Asks whether a call may run, and writes down that it asked and what was decided.
#[service("approval")]
pub trait Approval {
    /// Asks through the listeners of `approval/request`. It always comes to an outcome, once the question is logged.
    ///
    /// Dropping the future takes the question back; the log then says `cancelled`.
    async fn request(&self, request: ApprovalRequest) -> Result<ApprovalOutcome, ApprovalError>;

    /// Whether anybody can be asked in this session.
    fn policy(&self, session: &Session) -> Result<ApprovalPolicy, ServiceError>;

    /// Says whether anybody can be asked in this session from now on.
    fn set_policy(&self, session: &Session, policy: ApprovalPolicy) -> Result<(), ApprovalError>;
}

/// Why nobody was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// Questions belong to a turn.
    #[error("approval needs an open turn, and session \"{0}\" has none")]
    NoTurn(crate::ids::SessionId),
    /// The question could not be logged.
    #[error("the question was not logged")]
    Log(#[from] AppendError),
    /// A listener failed.
    #[error("{0}")]
    Listeners(#[from] ListenerErrors),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl ApprovalError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTurn(_) => "NO_OPEN_TURN",
            Self::Log(error) => error.code(),
            Self::Listeners(_) => "LISTENERS_FAILED",
            Self::Service(error) => error.code(),
        }
    }
}

#[cfg(test)]
mod tests;
