//! What runs without a question: the mode, and what a human permitted for the rest of a session.

use linn_bus::{ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::ApprovalRequest;
use crate::ids::ToolName;
use crate::session::Session;
use crate::tools::ToolClass;

/// The gate before tool calls, for who sets it: front ends, and what stores sessions.
#[service("approval-modes")]
pub trait ApprovalModes {
    /// The mode that holds.
    fn mode(&self) -> Result<ApprovalMode, ServiceError>;

    /// Has another mode hold from now on.
    fn set_mode(&self, mode: ApprovalMode) -> Result<(), ServiceError>;

    /// Permits, beside the call that is asked about, others like it for the rest of the session. Gives what is permitted
    /// now. It does not answer the question.
    fn permit(&self, request: &ApprovalRequest, scope: PermissionScope) -> Result<Permission, ModesError>;

    /// Permits what was permitted in an earlier life of a session.
    fn restore(&self, session: &Session, permissions: Vec<Permission>) -> Result<(), ServiceError>;

    /// What is permitted in a session, the oldest first. Sessions share it with those they come from.
    fn permissions(&self, session: &Session) -> Result<Vec<Permission>, ServiceError>;

    /// Takes back what was permitted in a session.
    fn clear(&self, session: &Session) -> Result<(), ServiceError>;

    /// The configured rules, with what is wrong with them.
    fn rules(&self) -> Result<Vec<ApprovalRuleReport>, ServiceError>;
}

/// Which calls are asked about when no rule and no permission says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// None.
    Never,
    /// Those that may change something, and those on paths that are restricted.
    #[default]
    Destructive,
    /// All.
    Always,
}

/// What shall be permitted beside the call that is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionScope {
    /// Every call of a tool of the same class.
    Class,
    /// Every call of the same tool.
    Tool,
    /// Calls of the same tool that fit a pattern; without one, or with what the call is about for one, those on exactly the
    /// same path or with the same command.
    Pattern(Option<String>),
}

/// What a human permitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Permission {
    /// Every call of a tool of this class.
    Class {
        /// The class.
        class: ToolClass,
    },
    /// Every call of a tool.
    Tool {
        /// The tool.
        tool: ToolName,
    },
    /// Calls of a tool that fit a pattern.
    Pattern {
        /// The tool.
        tool: ToolName,
        /// The pattern: `*` stands for any text, `?` for one character.
        pattern: String,
    },
    /// Calls of a tool on exactly one path, or with one command: `*` and `?` stand for themselves.
    Exact {
        /// The tool.
        tool: ToolName,
        /// The path or the command.
        target: String,
    },
}

/// A configured rule, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRuleReport {
    /// `allow`, `deny` or `ask`, then the tool and the pattern.
    pub rule: String,
    /// Why it does not do what it says, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Why something was not permitted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ModesError {
    /// The pattern does not belong to the call.
    #[error("approval pattern exceeds or does not match the requested scope: {0}")]
    Pattern(#[from] PatternError),
    /// The call is of no known class.
    #[error("tool `{0}` has no class that could be permitted")]
    NoClass(ToolName),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl ModesError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Pattern(_) => "PATTERN_OUT_OF_SCOPE",
            Self::NoClass(_) => "NO_TOOL_CLASS",
            Self::Service(error) => error.code(),
        }
    }
}

/// Why a pattern does not belong to a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The call has no path and no command.
    #[error("the call has neither `path` nor `command`")]
    NoTarget,
    /// It stands for everything.
    #[error("`{0}` fits every call")]
    Everything(String),
    /// It goes up.
    #[error("`{0}` contains `..`")]
    Upwards(String),
    /// The call does not begin with its text.
    #[error("`{pattern}` does not begin like `{target}`")]
    Elsewhere {
        /// The pattern.
        pattern: String,
        /// What the call is about.
        target: String,
    },
}

/// What a pattern is held against: the `path` of a call, or else its `command`.
pub fn pattern_target(arguments: &Value) -> Option<&str> {
    ["path", "command"].iter().find_map(|it| arguments.get(it)?.as_str()).filter(|it| !it.is_empty())
}

/// Whether a pattern may be permitted where a call on `target` is asked about: it equals the target, or begins with a part
/// of it.
pub fn check_pattern_scope(pattern: &str, target: &str) -> Result<(), PatternError> {
    if pattern.is_empty() || pattern == "*" {
        return Err(PatternError::Everything(pattern.to_owned()));
    }
    if pattern.split(['/', '\\']).any(|it| it == "..") {
        return Err(PatternError::Upwards(pattern.to_owned()));
    }
    if pattern == target {
        return Ok(());
    }
    let elsewhere = PatternError::Elsewhere { pattern: pattern.to_owned(), target: target.to_owned() };
    let Some((prefix, _)) = pattern.find(['*', '?', '[']).map(|at| pattern.split_at(at)) else {
        return Err(elsewhere);
    };
    match prefix {
        "" | "/" => Err(PatternError::Everything(pattern.to_owned())),
        prefix if target.starts_with(prefix) => Ok(()),
        _ => Err(elsewhere),
    }
}

impl PermissionScope {
    /// What it permits where this call is asked about.
    pub fn permission(self, request: &ApprovalRequest) -> Result<Permission, ModesError> {
        let tool = request.tool_name.clone();
        match self {
            Self::Class => match request.class {
                Some(class) => Ok(Permission::Class { class }),
                None => Err(ModesError::NoClass(tool)),
            },
            Self::Tool => Ok(Permission::Tool { tool }),
            Self::Pattern(pattern) => {
                let arguments = request.arguments.as_deref();
                let target = arguments.and_then(pattern_target).ok_or(PatternError::NoTarget)?;
                let pattern = pattern.unwrap_or_else(|| target.to_owned());
                check_pattern_scope(&pattern, target)?;
                // A human who was shown `rm *.tmp` meant that line, and not all that begin and end like it.
                Ok(if pattern == target {
                    Permission::Exact { tool, target: pattern }
                } else {
                    Permission::Pattern { tool, pattern }
                })
            }
        }
    }
}

impl Permission {
    /// The permission as a front end shows it.
    pub fn text(&self) -> String {
        match self {
            Self::Class { class: ToolClass::Destructive } => "destructive:always".to_owned(),
            Self::Class { class: ToolClass::ReadOnly } => "readonly:always".to_owned(),
            Self::Tool { tool } => format!("{tool} *"),
            Self::Pattern { tool, pattern: what } | Self::Exact { tool, target: what } => format!("{tool} {what}"),
        }
    }
}
