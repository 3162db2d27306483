//! What sessions cost, and what fills their context.

use std::collections::BTreeMap;

use linn_bus::{ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::compaction::ContextBudget;
use crate::session::Session;

/// Counts tokens. Everything derives from the logs of sessions.
#[service("usage")]
pub trait Usage {
    /// What a session has come to.
    fn stats(&self, session: &Session) -> Result<SessionStats, ServiceError>;

    /// What fills the context of an agent, by estimate.
    fn breakdown(&self, agent: &Agent) -> Result<ContextBreakdown, ServiceError>;
}

/// What a session has come to since its last reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStats {
    /// Tokens of the context as it is now.
    pub tokens_in: u64,
    /// Tokens written, all in all.
    pub tokens_out: u64,
    /// Tokens read, all in all, cached ones among them.
    pub total_in: u64,
    /// Tokens read and written, all in all.
    pub tokens_total: u64,
    /// Tokens read from a cache, all in all.
    pub cached_tokens: u64,
    /// The part of what was read that came from a cache, from 0 to 1.
    pub cache_hit_ratio: f64,
    /// Turns.
    pub turns: u64,
    /// Compactions.
    pub compactions: u64,
    /// Messages of the history.
    pub messages: u64,
}

/// What fills the context of an agent, in tokens, by estimate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextBreakdown {
    /// All of it.
    pub total_tokens: u64,
    /// The window and how far it may be filled.
    pub budget: ContextBudget,
    /// Messages of the history.
    pub messages: u64,
    /// The system text and the tools.
    pub system_tokens: u64,
    /// By role: `system`, `user`, `assistant`, `tool`.
    pub by_role: BTreeMap<String, u64>,
    /// The largest messages, the largest first, ten at most.
    pub top_consumers: Vec<Consumer>,
}

/// A message that takes much of the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Consumer {
    /// Its place in the history, from 0.
    pub index: u64,
    /// Who wrote it.
    pub role: String,
    /// Tokens, by estimate.
    pub tokens: u64,
    /// How it begins: 100 characters, and `…` if there is more.
    pub preview: String,
}
