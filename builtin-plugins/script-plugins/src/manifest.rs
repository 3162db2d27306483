//! What a plugin says of itself in `plugin.json`.

mod capabilities;
mod commands;
mod oauth;
mod raw;
mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use linn_services::tools::ToolClass;
use serde_json::Value;

use crate::hooks::HookPoint;

pub(crate) use read::{Reading, name_of, read};

/// The newest contract that is spoken.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// How large a template, and what is made of it, may be.
pub(crate) const PROMPT_LIMIT_BYTES: u64 = 256 * 1024;

/// How large a manifest may be.
const MANIFEST_LIMIT_BYTES: u64 = 8 * 1024 * 1024;

/// How long tools, script commands and memory providers may take where nothing is said.
const PATIENT: Duration = Duration::from_millis(30_000);

/// Why a plugin is rejected, for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Rejection(pub(crate) String);

/// A manifest in which everything is right. Scripts are files that exist, free of links.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) capabilities: Vec<String>,
    pub(crate) description: String,
    pub(crate) system_prompt: String,
    pub(crate) hooks: BTreeMap<HookPoint, Hook>,
    pub(crate) tools: Vec<ToolEntry>,
    pub(crate) commands: Vec<CommandEntry>,
    pub(crate) disable_tools: Vec<String>,
    pub(crate) oauth: Option<OAuthEntry>,
    pub(crate) memory_provider: Option<MemoryEntry>,
    /// Every path that it names, as it names it.
    pub(crate) named_files: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) script: PathBuf,
    pub(crate) timeout: Duration,
    pub(crate) pass_args: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolEntry {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
    pub(crate) script: PathBuf,
    pub(crate) class: ToolClass,
    pub(crate) timeout: Duration,
    pub(crate) is_override: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandEntry {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) body: CommandKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Script { script: PathBuf, timeout: Duration },
    Prompt { file: PathBuf },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryEntry {
    pub(crate) script: PathBuf,
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OAuthEntry {
    pub(crate) provider_id: String,
    pub(crate) label: String,
    pub(crate) kind: String,
    pub(crate) base_url: String,
    pub(crate) description: String,
    pub(crate) headers: Vec<(String, String)>,
    /// A single file name.
    pub(crate) token_file: String,
    pub(crate) detect: Option<DetectPath>,
    /// What handles each action.
    pub(crate) login: Option<PathBuf>,
    pub(crate) complete: Option<PathBuf>,
    pub(crate) token: PathBuf,
    pub(crate) clear: Option<PathBuf>,
    pub(crate) login_timeout: Duration,
    pub(crate) token_timeout: Duration,
    pub(crate) env_passthrough: Vec<String>,
}

/// A file whose being there says that somebody is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DetectPath {
    /// `auth.json` in `$CODEX_HOME`, else in `.codex` of the user's folder.
    Codex,
    /// Below the user's folder.
    Home(PathBuf),
}
