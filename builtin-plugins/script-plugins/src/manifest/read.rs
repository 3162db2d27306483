//! Reading a manifest: the first thing that is wrong rejects the plugin, and all of it can be told.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use linn_services::tools::ToolClass;
use serde_json::{Value, json};

use crate::hooks::HookPoint;
use crate::manifest::capabilities::capabilities;
use crate::manifest::commands::command;
use crate::manifest::oauth::oauth;
use crate::manifest::raw::{RawHook, RawManifest, RawTool};
use crate::manifest::{
    Hook, MANIFEST_LIMIT_BYTES, Manifest, MemoryEntry, PATIENT, PROTOCOL_VERSION, Rejection, ToolEntry,
};
use crate::system::{FileProblem, script_file, text_of_file};

/// What was found in a folder.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// The manifest, if nothing is wrong with it.
    pub(crate) manifest: Option<Manifest>,
    /// What it calls itself, as far as that can be read.
    pub(crate) loose: Loose,
    /// What is wrong, in the order in which it counts.
    pub(crate) problems: Vec<Rejection>,
    /// What is passed over.
    pub(crate) warnings: Vec<String>,
    /// What it declares, or is taken to ask for.
    pub(crate) capabilities: Vec<String>,
}

/// What can be told of a plugin whose manifest may be wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Loose {
    pub(crate) name: Option<String>,
    pub(crate) version: String,
    pub(crate) description: String,
}

impl Reading {
    /// The manifest, or why the plugin is rejected.
    pub(crate) fn verdict(self) -> Result<Manifest, Rejection> {
        match (self.manifest, self.problems.into_iter().next()) {
            (Some(manifest), None) => Ok(manifest),
            (_, Some(problem)) => Err(problem),
            (None, None) => Err(Rejection("plugin.json cannot be read".to_owned())),
        }
    }

    fn failed(problem: String) -> Self {
        Self {
            manifest: None,
            loose: Loose::default(),
            problems: vec![Rejection(problem)],
            warnings: Vec::new(),
            capabilities: Vec::new(),
        }
    }
}

/// The name of a plugin for who cannot trust its manifest: that of its folder, if it has no better one.
pub(crate) fn name_of(folder: &Path, loose: &Loose) -> String {
    let of_folder = || folder.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    loose.name.clone().filter(|it| !it.is_empty()).unwrap_or_else(of_folder)
}

/// Reads the manifest in a folder, which is free of links, and looks at everything that it names. Nothing is run.
pub(crate) fn read(folder: &Path) -> Reading {
    let text = match text_of_file(&folder.join("plugin.json"), MANIFEST_LIMIT_BYTES) {
        Ok(text) => text,
        Err(error) => return Reading::failed(format!("cannot read plugin.json: {error}")),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value = serde_json::from_str::<Value>(text);
    let loose = value.as_ref().map(loosely).unwrap_or_default();
    let parse_error = |what: &dyn fmt::Display| format!("plugin.json parse error: {what}");
    let (raw, problems) = match serde_json::from_str::<RawManifest>(text) {
        Ok(raw) => (raw, Vec::new()),
        // Everything that is wrong, each once, in place of the first of it.
        Err(error) => match RawManifest::in_parts(text) {
            Some((raw, parts)) if !parts.is_empty() => {
                (raw, parts.iter().map(|it| Rejection(parse_error(it))).collect())
            }
            _ => return Reading::failed(parse_error(&error)),
        },
    };
    let mut reading = judge(folder, &raw, problems);
    reading.loose = loose;
    reading
}

fn loosely(value: &Value) -> Loose {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Loose {
        name: text("name"),
        version: text("version").unwrap_or_default(),
        description: text("description").unwrap_or_default(),
    }
}

/// Looks at all of a manifest; `problems` are those of its types.
fn judge(folder: &Path, raw: &RawManifest, mut problems: Vec<Rejection>) -> Reading {
    let mut warnings = Vec::new();
    let has_bad_types = !problems.is_empty();
    if let Err(problem) = check_name(&raw.name)
        && !(has_bad_types && raw.name.is_empty())
    {
        problems.push(problem);
    }
    if let Some(version) = raw.protocol_version.filter(|it| *it > PROTOCOL_VERSION) {
        let what = format!("plugin protocol version {version} is newer than supported ({PROTOCOL_VERSION})");
        problems.push(Rejection(what));
    }
    // Whose a script is stands behind what is wrong with it.
    let of_plugin = if raw.name.is_empty() { String::new() } else { format!(" of plugin '{}'", raw.name) };
    let (capabilities, problem) = capabilities(raw);
    problems.extend(problem.map(Rejection));

    let mut hooks = BTreeMap::new();
    for (name, entry) in &raw.hooks {
        let Some(point) = HookPoint::parse(name) else {
            warnings.push(format!("unknown hook point '{name}' in plugin '{}'; skipping", raw.name));
            continue;
        };
        let owner = format!("hook '{name}'{of_plugin}");
        match hook(folder, point, entry, &owner) {
            Ok(hook) => drop(hooks.insert(point, hook)),
            Err(problem) => problems.push(problem),
        }
    }
    let mut tools = Vec::new();
    for entry in &raw.tools {
        match tool(folder, entry, &of_plugin) {
            Ok(tool) => tools.push(tool),
            Err(found) => problems.extend(found),
        }
    }
    let mut commands = Vec::new();
    for entry in &raw.commands {
        match command(folder, entry, &of_plugin) {
            Ok(Some(command)) => commands.push(command),
            Ok(None) => warnings.push(format!("a command without a name in plugin '{}'; skipping", raw.name)),
            Err(found) => problems.extend(found),
        }
    }
    let mut login = None;
    match raw.oauth.as_ref().map(|it| oauth(folder, it, &format!("login{of_plugin}"))) {
        Some(Ok(entry)) => login = Some(entry),
        Some(Err(found)) => problems.extend(found),
        None => {}
    }
    let memory_provider = raw.memory_provider.as_ref().and_then(|it| {
        if it.script.trim().is_empty() {
            problems.push(Rejection("memory_provider.script is empty".to_owned()));
            return None;
        }
        let timeout = it.timeout_ms.map_or(PATIENT, Duration::from_millis);
        match script(folder, &it.script, &format!("memory provider{of_plugin}")) {
            Ok(script) => Some(MemoryEntry { script, timeout }),
            Err(problem) => {
                problems.push(problem);
                None
            }
        }
    });
    let manifest = problems.is_empty().then(|| Manifest {
        name: raw.name.clone(),
        version: raw.version.clone(),
        capabilities: capabilities.clone(),
        description: raw.description.clone(),
        system_prompt: raw.system_prompt.clone(),
        hooks,
        tools,
        commands,
        disable_tools: raw.disable_tools.clone(),
        oauth: login,
        memory_provider,
        named_files: named_files(raw),
    });
    Reading { manifest, loose: Loose::default(), problems, warnings, capabilities }
}

fn check_name(name: &str) -> Result<(), Rejection> {
    if name.is_empty() {
        return Err(Rejection("plugin name is empty".to_owned()));
    }
    if matches!(name, "." | "..") || name.contains(['/', '\\']) {
        return Err(Rejection(format!("plugin name contains a path separator: \"{name}\"")));
    }
    let mut parts = Path::new(name).components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) || name.contains(char::is_control) {
        return Err(Rejection(format!("plugin name must be a single directory name: \"{name}\"")));
    }
    Ok(())
}

fn hook(folder: &Path, point: HookPoint, raw: &RawHook, owner: &str) -> Result<Hook, Rejection> {
    let script = script(folder, &raw.script, owner).map_err(|Rejection(what)| Rejection(format!("hook {what}")))?;
    let timeout = raw.timeout_ms.map_or(point.patience(), Duration::from_millis);
    Ok(Hook { script, timeout, pass_args: raw.pass_args })
}

/// Finds the script of an owner, such as `tool 't' of plugin 'p'`.
pub(crate) fn script(folder: &Path, named: &str, owner: &str) -> Result<PathBuf, Rejection> {
    script_file(folder, named).map_err(|problem| {
        let what = match problem {
            FileProblem::Absolute | FileProblem::Escapes => "escapes the plugin directory",
            FileProblem::Missing => "does not exist",
            FileProblem::NotExecutable => "is not executable (try chmod +x)",
            FileProblem::NotAFile | FileProblem::TooLarge => "is not a regular file",
        };
        Rejection(format!("script \"{named}\" {what}: {owner}"))
    })
}

fn tool(folder: &Path, raw: &RawTool, of_plugin: &str) -> Result<ToolEntry, Vec<Rejection>> {
    let name = &raw.name;
    let mut problems = Vec::new();
    if name.is_empty() {
        problems.push(Rejection("plugin declares a tool with an empty name".to_owned()));
    }
    let class = match raw.kind.as_deref() {
        Some("readonly") => ToolClass::ReadOnly,
        None | Some("destructive") => ToolClass::Destructive,
        Some(kind) => {
            let what = format!("tool '{name}' has invalid kind '{kind}' (use 'readonly' or 'destructive')");
            problems.push(Rejection(what));
            ToolClass::Destructive
        }
    };
    let script = match script(folder, &raw.script, &format!("tool '{name}'{of_plugin}")) {
        Ok(script) if problems.is_empty() => script,
        found => {
            problems.extend(found.err());
            return Err(problems);
        }
    };
    let parameters =
        if raw.parameters.is_object() { raw.parameters.clone() } else { json!({ "type": "object", "properties": {} }) };
    Ok(ToolEntry {
        name: name.clone(),
        description: raw.description.clone(),
        parameters,
        script,
        class,
        timeout: raw.timeout_ms.map_or(PATIENT, Duration::from_millis),
        is_override: raw.is_override,
    })
}

fn named_files(raw: &RawManifest) -> Vec<String> {
    let hooks = raw.hooks.values().map(|it| &it.script);
    let tools = raw.tools.iter().map(|it| &it.script);
    let commands = raw.commands.iter().flat_map(|it| [&it.script, &it.prompt_file]).flatten();
    let logins = raw.oauth.iter().flat_map(|it| [&it.script, &it.login_script, &it.complete_script, &it.token_script]);
    let memory = raw.memory_provider.iter().map(|it| &it.script);
    hooks.chain(tools).chain(commands).chain(logins.flatten()).chain(memory).cloned().collect()
}

#[cfg(test)]
mod tests;
