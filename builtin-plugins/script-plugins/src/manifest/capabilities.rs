//! What a plugin asks for: declared, or taken from what it does.

use std::collections::BTreeSet;

use crate::hooks::HookPoint;
use crate::manifest::raw::RawManifest;

/// Every capability there is.
const KNOWN: &[&str] = &[
    "read_workspace",
    "write_workspace",
    "execute_subprocess",
    "access_network",
    "receive_prompts",
    "receive_tool_arguments",
    "receive_model_responses",
    "access_secrets",
    "register_tools",
    "register_commands",
    "register_providers",
    "register_memory_backend",
];

/// How much is taken from what a manifest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// What manifests had to declare from the beginning; more would reject those that are right today.
    Demanded,
    /// What it comes to.
    Inferred,
}

/// The capabilities of a plugin, sorted, or why it is rejected.
pub(crate) fn capabilities(raw: &RawManifest) -> (Vec<String>, Option<String>) {
    let owned = |set: BTreeSet<&str>| set.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let Some(declared) = &raw.capabilities else { return (owned(implied(raw, Strictness::Inferred)), None) };
    let declared: BTreeSet<&str> = declared.iter().map(String::as_str).collect();
    let unknown: Vec<&str> = declared.iter().copied().filter(|it| !KNOWN.contains(it)).collect();
    let problem = if unknown.is_empty() {
        let demanded = implied(raw, Strictness::Demanded);
        let missing: Vec<&str> = demanded.difference(&declared).copied().collect();
        (!missing.is_empty()).then(|| {
            let missing = missing.join(", ");
            format!("plugin is denied because its manifest is missing required capabilities: {missing}")
        })
    } else {
        Some(format!("plugin declares unknown capabilities: {}", unknown.join(", ")))
    };
    (owned(declared), problem)
}

fn implied(raw: &RawManifest, strictness: Strictness) -> BTreeSet<&'static str> {
    let mut implied = BTreeSet::new();
    for (name, hook) in &raw.hooks {
        implied.insert("execute_subprocess");
        if hook.pass_args {
            implied.insert("receive_tool_arguments");
        }
        match HookPoint::parse(name) {
            Some(HookPoint::PreInput | HookPoint::PreContext | HookPoint::PreTurn | HookPoint::TurnStart) => {
                implied.insert("receive_prompts");
            }
            Some(HookPoint::PostTool | HookPoint::TurnEnd | HookPoint::SessionStop) => {
                implied.insert("receive_model_responses");
            }
            // They are given results as `post_tool` is.
            Some(HookPoint::PostBash | HookPoint::PostRead | HookPoint::PostWrite)
                if strictness == Strictness::Inferred =>
            {
                implied.insert("receive_model_responses");
            }
            _ => {}
        }
    }
    for tool in &raw.tools {
        let works_on = if tool.kind.as_deref() == Some("readonly") { "read_workspace" } else { "write_workspace" };
        implied.extend(["execute_subprocess", "register_tools", works_on]);
    }
    for command in &raw.commands {
        implied.insert("register_commands");
        if command.script.as_ref().is_some_and(|it| !it.trim().is_empty()) {
            implied.insert("execute_subprocess");
        }
    }
    if raw.oauth.is_some() {
        implied.extend(["execute_subprocess", "register_providers", "access_network", "access_secrets"]);
    }
    if raw.memory_provider.is_some() {
        implied.extend(["execute_subprocess", "register_memory_backend"]);
    }
    implied
}
