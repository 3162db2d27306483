//! Questions to a human that are no approvals.

mod provider;

pub use provider::InteractionPlugin;

use std::collections::BTreeMap;

use linn_bus::{ListenerError, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::ids::CallId;

/// Asks a human. Who answers is a listener of `interaction/ask` or `interaction/sudo`.
#[service("interaction")]
pub trait Interaction {
    /// Asks questions and waits for the answers.
    ///
    /// Dropping the future, or ending `signal`, takes the questions back.
    async fn ask(&self, questions: Questions) -> Result<Answers, InteractionError>;

    /// Asks whether a command may run with more rights, and for the password.
    ///
    /// Dropping the future, or ending `signal`, takes the question back.
    async fn sudo(&self, question: SudoQuestion) -> Result<SudoAnswer, InteractionError>;
}

/// Questions of an agent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Questions {
    /// Who asks.
    pub agent: Option<Agent>,
    /// The call that asks.
    pub call_id: Option<CallId>,
    /// The questions, at least one, each with an id of its own.
    pub questions: Vec<Question>,
    /// Takes them back.
    #[serde(skip)]
    pub signal: CancellationToken,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Id, unique among the questions asked together.
    pub id: String,
    /// What is asked.
    pub prompt: String,
    /// How it is answered.
    #[serde(rename = "type")]
    pub kind: QuestionKind,
    /// What to choose from; for `select`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Whether another answer than the options will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_custom: Option<bool>,
    /// What stands in an empty field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// Whether it must be answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// By one of the options.
    Select,
    /// By text.
    Text,
}

/// What a human answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    /// By question; what is missing was skipped.
    Given(BTreeMap<String, String>),
    /// All was skipped.
    Skipped,
    /// Nobody could be asked.
    Unavailable,
}

/// A command that needs more rights.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SudoQuestion {
    /// Who asks.
    pub agent: Option<Agent>,
    /// The call that asks.
    pub call_id: Option<CallId>,
    /// The command.
    pub command: String,
    /// Takes it back.
    #[serde(skip)]
    pub signal: CancellationToken,
}

/// What a human said to that. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub enum SudoAnswer {
    /// Go on, with this password.
    Approved(Password),
    /// Do not.
    Declined,
    /// Nobody could be asked.
    Unavailable,
}

impl std::fmt::Debug for SudoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Approved(_) => "Approved(..)",
            Self::Declined => "Declined",
            Self::Unavailable => "Unavailable",
        })
    }
}

/// A password: shown nowhere, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(zeroize::Zeroizing<String>);

impl Password {
    /// Keeps a password.
    pub fn new(text: String) -> Self {
        Self(zeroize::Zeroizing::new(text))
    }

    /// The password, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Why nobody was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InteractionError {
    /// The questions cannot be asked.
    #[error("ask validation failed: {0}")]
    Invalid(String),
    /// The question was taken back.
    #[error("the question was taken back")]
    Cancelled,
    /// Who should answer failed.
    #[error("{0:#}")]
    Listener(#[from] ListenerError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl InteractionError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_QUESTIONS",
            Self::Cancelled => "QUESTION_CANCELLED",
            Self::Listener(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
