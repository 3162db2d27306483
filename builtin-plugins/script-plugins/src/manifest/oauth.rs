//! The login of a manifest.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::manifest::raw::RawOAuth;
use crate::manifest::read::script;
use crate::manifest::{DetectPath, OAuthEntry, Rejection};

/// How long a login may take where nothing is said: a human is in it.
const LOGIN: Duration = Duration::from_millis(120_000);

/// How long a token may take where nothing is said.
const TOKEN: Duration = Duration::from_millis(30_000);

/// What no variable that is passed on may be called after.
const SECRET_WORDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Reads a login; `owner` is whose it is, in words.
pub(crate) fn oauth(folder: &Path, raw: &RawOAuth, owner: &str) -> Result<OAuthEntry, Vec<Rejection>> {
    let id = &raw.provider_id;
    let mut problems = Vec::new();
    let mut refuse = |what: String| problems.push(Rejection(what));
    if id.is_empty() {
        refuse("oauth provider_id is empty".to_owned());
    }
    let kind = raw.kind.as_deref().unwrap_or("openai");
    if !matches!(kind, "openai" | "anthropic") {
        refuse(format!("oauth provider '{id}' has invalid kind '{kind}' (use 'openai' or 'anthropic')"));
    }
    if raw.base_url.is_empty() {
        refuse(format!("oauth provider '{id}' has an empty base_url"));
    }
    let token_file = raw.token_path.clone().unwrap_or_else(|| format!("{id}.json"));
    if !is_file_name(&token_file) {
        refuse(format!("oauth provider '{id}' token_path must be one relative filename"));
    }
    let detect = match raw.detect_path.as_deref().map(detect_path) {
        Some(Ok(detect)) => Some(detect),
        Some(Err(Rejection(why))) => {
            refuse(why);
            None
        }
        None => None,
    };
    for name in raw.env_passthrough.iter().filter(|it| !may_pass(it)) {
        refuse(format!(
            "oauth provider '{id}' env_passthrough entry '{name}' is invalid or secret-looking \
             (KEY/TOKEN/SECRET/PASSWORD/CREDENTIAL names are not allowed)"
        ));
    }
    if raw.script.is_none() && raw.token_script.is_none() {
        refuse(format!(
            "oauth provider '{id}' has no token script: set 'script' (handles all actions) or 'token_script'"
        ));
    }
    let mut find = |named: &Option<String>| -> Option<PathBuf> {
        let found = script(folder, named.as_deref()?, owner);
        found.map_err(|why| problems.push(why)).ok()
    };
    let shared = find(&raw.script);
    let login = find(&raw.login_script).or_else(|| shared.clone());
    let complete = find(&raw.complete_script).or_else(|| shared.clone());
    let token = find(&raw.token_script).or_else(|| shared.clone());
    match token {
        Some(token) if problems.is_empty() => Ok(OAuthEntry {
            provider_id: id.clone(),
            label: raw.label.clone().unwrap_or_else(|| id.clone()),
            kind: kind.to_owned(),
            base_url: raw.base_url.clone(),
            description: raw.description.clone().unwrap_or_default(),
            headers: raw.headers.clone(),
            token_file,
            detect,
            login,
            complete,
            token,
            clear: shared,
            login_timeout: raw.login_timeout_ms.map_or(LOGIN, Duration::from_millis),
            token_timeout: raw.token_timeout_ms.map_or(TOKEN, Duration::from_millis),
            env_passthrough: raw.env_passthrough.clone(),
        }),
        _ => Err(problems),
    }
}

/// Whether a name is that of one file in one folder.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    // A trailing slash would be lost among the components.
    let is_one = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    is_one && !name.contains('\\')
}

fn detect_path(path: &str) -> Result<DetectPath, Rejection> {
    let path = path.trim();
    if path.is_empty() {
        return Err(Rejection("oauth detect_path must not be empty".to_owned()));
    }
    if matches!(path, "$CODEX_HOME/auth.json" | "~/.codex/auth.json") {
        return Ok(DetectPath::Codex);
    }
    if Path::new(path).is_absolute() {
        return Err(Rejection(format!(
            "oauth detect_path '{path}' must be relative, $CODEX_HOME/auth.json, or ~/.codex/auth.json"
        )));
    }
    if Path::new(path).components().any(|it| it == Component::ParentDir) {
        return Err(Rejection(format!("oauth detect_path '{path}' may not contain '..'")));
    }
    Ok(DetectPath::Home(path.into()))
}

/// Whether a variable of this name may be passed on.
fn may_pass(name: &str) -> bool {
    let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    let upper = name.to_ascii_uppercase();
    is_name && !SECRET_WORDS.iter().any(|it| upper.contains(it))
}
