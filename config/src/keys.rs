//! Every key there is.
//!
//! Ranges and defaults are those of the clients that exist, where they know the key.

use std::path::PathBuf;

use indexmap::IndexMap;
use secrecy::SecretString;
use serde_json::Value as Json;

use crate::key::{Base, Declaration, Initial, Key, Kind, Who};
use crate::provider::Provider;
use crate::value::{Approval, NetworkMode, SandboxMode};
#[cfg(test)]
use crate::value::{Typed, Value};

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $declaration:expr;)+) => {
        $($(#[doc = $doc])+ pub static $name: Key<$type> = Key::new(concat!($($doc, "\n"),+), $declaration);)+

        /// All keys, in the order in which they are listed.
        pub(crate) static ALL: &[&Declaration] = &[$(&$name.declaration),+];

        #[cfg(test)]
        /// Whether the value of a key can be read as the type it is declared with.
        pub(crate) fn has_its_type(name: &str, value: &Value) -> bool {
            $(if name == $name.declaration.name {
                return <$type>::from_value(value).is_some();
            })+
            false
        }
    };
}

const ANY: Kind = Kind::Integer { min: 0, max: u64::MAX };
const FROM_ONE: Kind = Kind::Integer { min: 1, max: u64::MAX };
const START: Kind = Kind::Path { base: Base::Start };

const fn key(name: &'static str, kind: Kind, initial: Initial) -> Declaration {
    Declaration::new(name, kind, initial)
}

const fn integer(name: &'static str, kind: Kind, initial: u64) -> Declaration {
    key(name, kind, Initial::Integer(initial))
}

const fn switch(name: &'static str, initial: bool) -> Declaration {
    key(name, Kind::Bool, Initial::Bool(initial))
}

keys! {
    /// The folder the work is in.
    WORKSPACE: PathBuf = key("workspace", START, Initial::Text("."))
        .client(&["workspace"]).flag("--workspace").variable("CATALYST_CODE_WORKSPACE");
    /// Which tool calls wait for an answer.
    APPROVAL: Approval = key(
        "approval",
        Kind::Choice { choices: Approval::CHOICES, otherwise: Some("destructive") },
        Initial::Text("destructive"),
    ).client(&["approval"]).flag("--approval").variable("CATALYST_CODE_APPROVAL");
    /// The provider that is asked first; the first one configured if not set.
    PROVIDER: Option<String> = key("provider", Kind::Text, Initial::Absent)
        .by(Who::Repository).client(&["activeProvider", "active_provider"]).flag("--provider")
        .variable("UMANS_ACTIVE_PROVIDER");
    /// The model used where none is named.
    MODEL: Option<String> = key("model", Kind::Text, Initial::Absent)
        .by(Who::Repository).client(&["model"]).flag("--model");
    /// How much a model thinks where nobody says so. Each model maps it to the levels it has.
    REASONING_EFFORT: String = key("reasoning_effort", Kind::Text, Initial::Text("medium"))
        .by(Who::Repository).client(&["reasoning_effort"]);
    /// Where requests go while no provider is configured.
    BASE_URL: String = key("base_url", Kind::Text, Initial::Text("https://api.code.umans.ai/v1"))
        .client(&["base_url"]).flag("--base-url").variable("UMANS_BASE_URL");
    /// The key used while no provider is configured.
    API_KEY: Option<SecretString> = key("api_key", Kind::Secret, Initial::Absent).client(&["api_key"]);
    /// Keys by the name of the provider; they win over the key in `providers`.
    PROVIDER_KEYS: IndexMap<String, SecretString> = key("provider_keys", Kind::Secrets, Initial::Absent)
        .client(&["provider_keys"]);
    /// The providers. See [providers](#providers).
    PROVIDERS: Vec<Provider> = key("providers", Kind::Providers, Initial::Absent)
        .client(&["providers"]).variable("UMANS_PROVIDERS");
    /// Seconds without a byte after which a model stream counts as dead.
    STREAM_IDLE_TIMEOUT_SECS: u64 = integer("stream.idle_timeout_secs", Kind::Integer { min: 10, max: u64::MAX }, 120)
        .by(Who::Repository).client(&["idle_timeout_secs"]).flag("--idle-timeout")
        .variable("CATALYST_CODE_IDLE_TIMEOUT");

    /// The session file; without one nothing is kept.
    SESSION_FILE: Option<PathBuf> = key("session.file", START, Initial::Absent)
        .client(&["session"]).flag("--session").variable("CATALYST_CODE_SESSION");
    /// Tokens after which a session takes no more turns; 0 is no limit.
    SESSION_MAX_TOKENS: u64 = integer("session.max_tokens", ANY, 0)
        .by(Who::Repository).client(&["max_session_tokens"]).flag("--max-session-tokens")
        .variable("CATALYST_CODE_MAX_SESSION_TOKENS");

    /// The shell that runs commands; chosen by the system if not set.
    SHELL_PROGRAM: Option<String> = key("shell.program", Kind::Text, Initial::Absent).variable("CATALYST_CODE_SHELL");
    /// Seconds a command may run unless the call asks for more.
    SHELL_TIMEOUT_SECS: u64 = integer("shell.timeout_secs", FROM_ONE, 30)
        .by(Who::Repository).client(&["bash_timeout_secs"]).flag("--bash-timeout")
        .variable("CATALYST_CODE_BASH_TIMEOUT").command("bash_timeout_secs");
    /// Seconds that a call can ask for at most.
    SHELL_MAX_TIMEOUT_SECS: u64 = integer("shell.max_timeout_secs", FROM_ONE, 600)
        .by(Who::Repository).client(&["max_bash_timeout_secs"]).flag("--max-bash-timeout")
        .variable("CATALYST_CODE_MAX_BASH_TIMEOUT");
    /// A command that contains one of these is refused.
    SHELL_DENY: Vec<String> = key(
        "shell.deny",
        Kind::List,
        Initial::List(&["rm -rf /", "rm -rf ~", "mkfs", "dd if=/dev/zero of=/dev/sd", ":(){:|:&};:"]),
    ).client(&["bash_deny"]);
    /// A command that matches one of these regular expressions is refused.
    SHELL_DENY_REGEX: Vec<String> = key("shell.deny_regex", Kind::List, Initial::List(&[]))
        .client(&["bash_deny_regex"]);

    /// Seconds that fetching a page may take.
    FETCH_TIMEOUT_SECS: u64 = integer("fetch.timeout_secs", FROM_ONE, 20)
        .by(Who::Repository).client(&["fetch_timeout_secs"]).flag("--fetch-timeout")
        .variable("CATALYST_CODE_FETCH_TIMEOUT");
    /// Bytes of a page that are kept.
    FETCH_MAX_BYTES: u64 = integer("fetch.max_bytes", FROM_ONE, 262_144)
        .by(Who::Repository).client(&["fetch_max_bytes"]).variable("CATALYST_CODE_FETCH_MAX_BYTES");
    /// Hosts that pages are fetched from; an empty list is every host.
    FETCH_ALLOWLIST: Vec<String> = key("fetch.allowlist", Kind::List, Initial::List(&[]))
        .client(&["fetch_allowlist"]).variable("CATALYST_CODE_FETCH_ALLOWLIST");
    /// Key of the search provider Exa.
    SEARCH_EXA_KEY: Option<SecretString> = key("search.exa_key", Kind::Secret, Initial::Absent)
        .client(&["search_keys.exa"]).variable("EXA_API_KEY");
    /// Key of the search provider Tavily.
    SEARCH_TAVILY_KEY: Option<SecretString> = key("search.tavily_key", Kind::Secret, Initial::Absent)
        .client(&["search_keys.tavily"]).variable("TAVILY_API_KEY");
    /// Searches a month that Exa is asked for at most; no limit if not set.
    SEARCH_EXA_MONTHLY_LIMIT: Option<u64> = key("search.exa_monthly_limit", ANY, Initial::Absent)
        .variable("EXA_MONTHLY_LIMIT");
    /// Searches a month that Tavily is asked for at most; no limit if not set.
    SEARCH_TAVILY_MONTHLY_LIMIT: Option<u64> = key("search.tavily_monthly_limit", ANY, Initial::Absent)
        .variable("TAVILY_MONTHLY_LIMIT");
    /// Seconds that a run of diagnostics may take.
    DIAGNOSTICS_TIMEOUT_SECS: u64 = integer("diagnostics.timeout_secs", Kind::Integer { min: 5, max: u64::MAX }, 120)
        .by(Who::Repository).client(&["diag_timeout_secs"]).flag("--diag-timeout")
        .variable("CATALYST_CODE_DIAG_TIMEOUT");

    /// Calls that need no answer, as `Tool(pattern)`.
    PERMISSIONS_ALLOW: Vec<String> = key("permissions.allow", Kind::Rules, Initial::List(&[]))
        .client(&["permissions.allow", "permissions.yes", "permissions.true"]);
    /// Calls that are refused, as `Tool(pattern)`.
    PERMISSIONS_DENY: Vec<String> = key("permissions.deny", Kind::Rules, Initial::List(&[]))
        .client(&["permissions.deny", "permissions.no", "permissions.false"]);
    /// Calls that wait for an answer whatever `approval` is, as `Tool(pattern)`.
    PERMISSIONS_ASK: Vec<String> = key("permissions.ask", Kind::Rules, Initial::List(&[])).client(&["permissions.ask"]);

    /// Part of a model's context at which history is summarised.
    CONTEXT_COMPACT_AT: f64 = key(
        "context.compact_at",
        Kind::Number { min: 0.0, is_open: true, max: 0.95 },
        Initial::Number(0.9),
    ).by(Who::Repository).client(&["context_compact_at"]);
    /// Part of a model's context at which old tool results are shortened, below `context.compact_at`; 0 is never.
    CONTEXT_DIGEST_AT: f64 = key(
        "context.digest_at",
        Kind::Number { min: 0.0, is_open: false, max: 0.95 },
        Initial::Number(0.7),
    ).by(Who::Repository).client(&["context_digest_at"]);
    /// Whether history is summarised without being asked.
    CONTEXT_AUTO_COMPACT: bool = switch("context.auto_compact", true)
        .by(Who::Repository).client(&["auto_compact"]).variable("CATALYST_CODE_AUTO_COMPACT").command("auto_compact");
    /// Whether a model writes the summary; without it the oldest messages are dropped.
    CONTEXT_SUMMARIZE: bool = switch("context.summarize", true).by(Who::Repository).client(&["summarize_on_compact"]);
    /// What a summary should keep, in words for the model.
    CONTEXT_COMPACT_INSTRUCTIONS: Option<String> = key("context.compact_instructions", Kind::Text, Initial::Absent)
        .by(Who::Repository).client(&["compact_instructions"]).variable("CATALYST_CODE_COMPACT_INSTRUCTIONS");
    /// Whether the state of the work is carried along outside history.
    CONTEXT_ROLLING_STATE: bool = switch("context.rolling_state", true).by(Who::Repository).client(&["rolling_state"]);

    /// Whether what a turn taught is saved as memory.
    MEMORY_AUTO_REFLECT: bool = switch("memory.auto_reflect", true)
        .by(Who::Repository).client(&["auto_reflect"]).variable("CATALYST_CODE_AUTO_REFLECT");
    /// Tool calls a turn needs before it is reflected on.
    MEMORY_AUTO_REFLECT_MIN_TOOL_CALLS: u64 = integer("memory.auto_reflect_min_tool_calls", ANY, 1)
        .by(Who::Repository).client(&["auto_reflect_min_tool_calls"])
        .variable("CATALYST_CODE_AUTO_REFLECT_MIN_TOOL_CALLS");
    /// Whether images may be sent to a model.
    VISION_ALLOW: bool = switch("vision.allow", true).by(Who::Repository).client(&["allow_vision"]);

    /// Whether another model advises the main one.
    ADVISOR_ENABLED: bool = switch("advisor.enabled", false)
        .by(Who::Repository).client(&["advisor.enabled"]).command("advisor.enabled");
    /// Whether it advises subagents too.
    ADVISOR_SUBAGENTS: bool = switch("advisor.subagents", false)
        .by(Who::Repository).client(&["advisor.subagents"]).command("advisor.subagents");
    /// The model that advises.
    ADVISOR_MODEL: Option<String> = key("advisor.model", Kind::Text, Initial::Absent)
        .by(Who::Repository).client(&["advisor.model"]).command("advisor.model");
    /// The model that advises subagents.
    ADVISOR_SUBAGENT_MODEL: Option<String> = key("advisor.subagent_model", Kind::Text, Initial::Absent)
        .by(Who::Repository).client(&["advisor.subagentModel"]).command("advisor.subagent_model");
    /// Whether the main model is reminded that it can ask for advice.
    ADVISOR_NUDGE: bool = switch("advisor.nudge", false).by(Who::Repository).client(&["advisor.nudge"]);

    /// How deep subagents may start subagents.
    SUBAGENTS_MAX_DEPTH: u64 = integer("subagents.max_depth", ANY, 2)
        .by(Who::Repository).client(&["subagents.maxSubagentDepth"]).variable("CATALYST_CODE_SUBAGENT_MAX_DEPTH");
    /// How subagents reach the one who started them.
    SUBAGENTS_INTERCOM_MODE: Option<String> = key("subagents.intercom_mode", Kind::Text, Initial::Absent)
        .by(Who::Repository).client(&["subagents.intercomBridge.mode"]);
    /// Tasks that one parallel call may have.
    SUBAGENTS_MAX_TASKS: u64 = integer("subagents.max_tasks", FROM_ONE, 64)
        .by(Who::Repository).client(&["subagents.parallel.maxTasks"]);
    /// Tasks that run at a time.
    SUBAGENTS_CONCURRENCY: u64 = integer("subagents.concurrency", FROM_ONE, 4)
        .by(Who::Repository).client(&["subagents.parallel.concurrency"]);
    /// Whether a subagent runs beside the one who started it unless the call says otherwise.
    SUBAGENTS_ASYNC_BY_DEFAULT: bool = switch("subagents.async_by_default", false)
        .by(Who::Repository).client(&["subagents.asyncByDefault"]);
    /// Whether the agents that Linn brings are left out.
    SUBAGENTS_DISABLE_BUILTINS: bool = switch("subagents.disable_builtins", false)
        .by(Who::Repository).client(&["subagents.disableBuiltins"]);
    /// Changes to agents by name: `model`, `fallbackModels`, `thinking`, `disabled`.
    SUBAGENTS_OVERRIDES: Json = key("subagents.overrides", Kind::Table, Initial::Absent)
        .by(Who::Repository).client(&["subagents.agentOverrides"]);

    /// Where commands run.
    SANDBOX_MODE: SandboxMode = key(
        "sandbox.mode",
        Kind::Choice { choices: SandboxMode::CHOICES, otherwise: None },
        Initial::Text("none"),
    ).client(&["sandbox"]).flag("--sandbox").variable("CATALYST_CODE_SANDBOX").command("sandbox");
    /// Whether the sandbox reaches no network, whatever `sandbox.network_mode` is.
    SANDBOX_NO_NETWORK: bool = switch("sandbox.no_network", false)
        .client(&["no_network"]).flag("--no-network").variable("CATALYST_CODE_NO_NETWORK");
    /// The image of the sandbox.
    SANDBOX_IMAGE: String = key("sandbox.image", Kind::Text, Initial::Text("ghcr.io/catalystctl/catcode-sandbox:0.1"))
        .client(&["sandbox_image"]).flag("--sandbox-image").variable("CATALYST_CODE_SANDBOX_IMAGE");
    /// Its processors.
    SANDBOX_CPUS: u64 = integer("sandbox.cpus", Kind::Integer { min: 1, max: 16 }, 2)
        .client(&["sandbox_cpus"]).flag("--sandbox-cpus").variable("CATALYST_CODE_SANDBOX_CPUS");
    /// Its memory in MiB.
    SANDBOX_MEMORY_MB: u64 = integer("sandbox.memory_mb", Kind::Integer { min: 256, max: 16_384 }, 2_048)
        .client(&["sandbox_memory_mb"]).flag("--sandbox-memory-mb").variable("CATALYST_CODE_SANDBOX_MEMORY_MB");
    /// Its disk in MiB.
    SANDBOX_DISK_MB: u64 = integer("sandbox.disk_mb", Kind::Integer { min: 256, max: 65_536 }, 8_192)
        .client(&["sandbox_disk_mb"]).flag("--sandbox-disk-mb").variable("CATALYST_CODE_SANDBOX_DISK_MB");
    /// What it reaches on the network.
    SANDBOX_NETWORK_MODE: NetworkMode = key(
        "sandbox.network_mode",
        Kind::Choice { choices: NetworkMode::CHOICES, otherwise: None },
        Initial::Text("restricted"),
    ).client(&["sandbox_network_mode"]).flag("--sandbox-network").variable("CATALYST_CODE_SANDBOX_NETWORK");
    /// The hosts it reaches in the network mode `allowlist`.
    SANDBOX_NETWORK_ALLOWLIST: Vec<String> = key("sandbox.network_allowlist", Kind::List, Initial::List(&[]))
        .client(&["sandbox_network_allowlist"]);
    /// Whether it reaches addresses of private networks.
    SANDBOX_ALLOW_PRIVATE_NETWORKS: bool = switch("sandbox.allow_private_networks", false)
        .client(&["sandbox_allow_private_networks"]);
    /// Names of variables that commands in it see.
    SANDBOX_ENV_ALLOWLIST: Vec<String> = key("sandbox.env_allowlist", Kind::List, Initial::List(&[]))
        .client(&["sandbox_env_allowlist"]).flag("--sandbox-env-allowlist")
        .variable("CATALYST_CODE_SANDBOX_ENV_ALLOWLIST");
    /// Seconds without a command after which it is stopped.
    SANDBOX_IDLE_TIMEOUT_SECS: u64 = integer("sandbox.idle_timeout_secs", ANY, 900)
        .client(&["sandbox_idle_timeout_secs"]);

    /// The folder that script plugins are in, beside the one of the user.
    SCRIPT_PLUGINS_DIR: PathBuf = key(
        "script_plugins.dir",
        Kind::Path { base: Base::Workspace },
        Initial::Text(".catalyst-code/plugins"),
    ).client(&["plugins.dir"]);
    /// Names of script plugins that are not loaded.
    SCRIPT_PLUGINS_DISABLED: Vec<String> = key("script_plugins.disabled", Kind::List, Initial::List(&[]))
        .client(&["plugins.disabled"]);
    /// Whether script plugins of the workspace run without having been trusted.
    SCRIPT_PLUGINS_TRUST_PROJECT: bool = switch("script_plugins.trust_project", false)
        .by(Who::Start).flag("--trust-project-plugins").opposite_flag("--no-trust-project-plugins")
        .variable("CATALYST_CODE_TRUST_PROJECT_PLUGINS");

    /// Libraries that were reloaded and cannot be unmapped, before a reload is refused.
    LOADER_MAX_PINNED: u64 = integer("loader.max_pinned", ANY, 64);
    /// Seconds that calls in flight have to end when a plugin is disposed.
    LOADER_DISPOSE_GRACE_SECS: u64 = integer("loader.dispose_grace_secs", ANY, 5);
    /// Seconds that calls in flight have to end when a plugin is reloaded.
    LOADER_RELOAD_GRACE_SECS: u64 = integer("loader.reload_grace_secs", ANY, 30);

    /// Whether a login opens no browser.
    LOGIN_NO_BROWSER: bool = switch("login.no_browser", false).variable("CATALYST_CODE_NO_BROWSER");
    /// Whether decisions on tool calls are written to the audit log.
    AUDIT_LOG: bool = switch("audit.log", false).by(Who::Repository).client(&["audit_log"]);
    /// Whether the traffic with models is logged. Without `debug.log` it goes to `~/.config/catalyst-code/debug.jsonl`.
    DEBUG_ENABLED: bool = switch("debug.enabled", false).flag("--debug").variable("CATALYST_CODE_DEBUG");
    /// The file that it is logged to.
    DEBUG_LOG: Option<PathBuf> = key("debug.log", START, Initial::Absent)
        .client(&["debug_log"]).flag("--debug-log").variable("CATALYST_CODE_DEBUG_LOG");
}

/// Every key there is, in the order in which they are listed.
pub fn all() -> &'static [&'static Declaration] {
    ALL
}

pub(crate) fn index_of(name: &str) -> Option<usize> {
    ALL.iter().position(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_have_the_type_of_their_key() {
        for it in ALL {
            assert!(has_its_type(it.name, &it.initial_value()), "{}", it.name);
        }
        assert!(!has_its_type("shell.timeout_secs", &Value::Absent));
    }

    #[test]
    fn names_of_keys_flags_and_variables_are_unique() {
        let unique = |mut names: Vec<String>| {
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "{names:?}");
        };
        unique(ALL.iter().map(|it| it.name.to_owned()).collect());
        unique(ALL.iter().map(|it| it.linn_variable()).collect());
        unique(
            ALL.iter().flat_map(|it| [it.client.flag, it.client.opposite_flag]).flatten().map(str::to_owned).collect(),
        );
        unique(ALL.iter().filter_map(|it| it.client.variable).map(str::to_owned).collect());
        unique(ALL.iter().flat_map(|it| it.client.keys).map(|&it| it.to_owned()).collect());
    }

    #[test]
    fn no_key_is_a_table_of_others() {
        for it in ALL {
            let below = format!("{}.", it.name);
            assert!(ALL.iter().all(|other| !other.name.starts_with(&below)), "{}", it.name);
        }
    }

    #[test]
    fn every_key_says_what_it_is_for() {
        for it in ALL {
            assert!(it.doc.trim().ends_with('.'), "{}", it.name);
        }
    }
}
