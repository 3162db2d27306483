//! What the gate is configured with.

use linn_services::approval::ApprovalMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The mode, and the rules that come before it.
///
/// A rule is `tool(pattern)`, or `tool` for all of its calls; `*` as the tool stands for each. In a pattern `*` stands for
/// any text and `?` for one character. It is held against each simple command of a command line, or against the paths of a
/// call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalGateConfig {
    /// Which calls are asked about when no rule says otherwise.
    pub mode: ApprovalMode,
    /// Calls that run without a question.
    pub allow: Vec<String>,
    /// Calls that are refused, unless a rule at least as narrow allows them.
    pub deny: Vec<String>,
    /// Calls that are asked about, unless a rule allows them.
    pub ask: Vec<String>,
}
