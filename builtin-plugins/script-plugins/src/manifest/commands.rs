//! The commands of a manifest.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::manifest::raw::RawCommand;
use crate::manifest::read::script;
use crate::manifest::{CommandEntry, CommandKind, PATIENT, PROMPT_LIMIT_BYTES, Rejection};
use crate::system::{FileProblem, prompt_file};

/// Commands of the harness and of front ends, which a plugin cannot have.
const RESERVED: &[&str] = &[
    "help",
    "new",
    "abort",
    "login",
    "logout",
    "models",
    "plugin-install",
    "plugin-list",
    "plugin-enable",
    "plugin-disable",
    "plugin-remove",
    "plugin-reload",
    "plugin-config",
    "stats",
    "sessions",
    "clear",
    "reset",
    "undo",
    "compact",
    "memory",
    "remember",
    "forget",
    "reflect",
    "index",
    "goal",
    "cancel-goal",
    "run",
    "parallel",
    "chain",
    "subagents",
    "vision",
    "context",
    "usage",
    "skill",
];

/// Reads a command; `Ok(None)` for one without a name, which is passed over.
pub(crate) fn command(
    folder: &Path,
    raw: &RawCommand,
    of_plugin: &str,
) -> Result<Option<CommandEntry>, Vec<Rejection>> {
    let trimmed = raw.name.trim();
    let name = trimmed.strip_prefix('/').unwrap_or(trimmed);
    if name.is_empty() {
        return Ok(None);
    }
    let mut problems = Vec::new();
    if RESERVED.contains(&name) {
        let what = format!("command '{name}' collides with a reserved builtin slash command");
        problems.push(Rejection(what));
    }
    let set = |it: &Option<String>| it.clone().filter(|it| !it.trim().is_empty());
    let (given_script, given_prompt) = (set(&raw.script), set(&raw.prompt_file));
    let refuse = |what| Err(Rejection(what));
    let owner = format!("command '{name}'{of_plugin}");
    let body = match (&given_script, &given_prompt, raw.mode.as_deref()) {
        (Some(_), Some(_), _) => {
            refuse(format!("command '{name}' declares both `script` and `prompt_file`; use exactly one"))
        }
        (None, None, _) => refuse(format!("command '{name}' declares neither `script` nor `prompt_file`; set one")),
        (Some(named), None, None | Some("script")) => script(folder, named, &owner).map(|script| {
            let timeout = raw.timeout_ms.map_or(PATIENT, Duration::from_millis);
            CommandKind::Script { script, timeout }
        }),
        (None, Some(named), None | Some("agent_turn")) => {
            prompt(folder, named, &owner).map(|file| CommandKind::Prompt { file })
        }
        (Some(_), None, Some(mode)) => {
            refuse(format!("command '{name}' has `script` but mode=\"{mode}\" (expected \"script\")"))
        }
        (None, Some(_), Some(mode)) => {
            refuse(format!("command '{name}' has `prompt_file` but mode=\"{mode}\" (expected \"agent_turn\")"))
        }
    };
    match body {
        Ok(body) if problems.is_empty() => {
            Ok(Some(CommandEntry { name: name.to_owned(), description: raw.description.clone(), body }))
        }
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

fn prompt(folder: &Path, named: &str, owner: &str) -> Result<PathBuf, Rejection> {
    prompt_file(folder, named, PROMPT_LIMIT_BYTES).map_err(|problem| {
        let what = match problem {
            FileProblem::Absolute => "must be relative to the plugin directory".to_owned(),
            FileProblem::Escapes => "escapes the plugin directory".to_owned(),
            FileProblem::Missing => "does not exist or is unreadable".to_owned(),
            FileProblem::NotAFile | FileProblem::NotExecutable => "is not a regular file".to_owned(),
            FileProblem::TooLarge => format!("exceeds the {PROMPT_LIMIT_BYTES} byte limit"),
        };
        Rejection(format!("prompt_file \"{named}\" {what}: {owner}"))
    })
}
