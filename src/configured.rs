//! What the configuration says, in the words of the built-in plugins.

use linn_config::{Approval, Config, ExposeSecret as _, ProviderKey, SecretString, keys};
use linn_plugin_approval::ApprovalGateConfig;
use linn_plugin_compaction::CompactionConfig;
use linn_plugin_diagnostics::DiagnosticsConfig;
use linn_plugin_insight::InsightConfig;
use linn_plugin_providers::{DefaultProvider, ProvidersConfig};
use linn_plugin_script_plugins::ScriptPluginsConfig;
use linn_plugin_shell::{BashConfig, ShellConfig};
use linn_plugin_web::WebConfig;
use linn_services::approval::ApprovalMode;
use linn_services::secrets::SecretKeeper;

use crate::settings::spec;

/// Tells a keeper every key that the configuration holds, and those that it names a variable of.
pub(crate) fn keep_secrets(config: &Config, keeper: &SecretKeeper) {
    let keep = |it: &SecretString| keeper.keep(it.expose_secret());
    config.get(&keys::API_KEY).iter().for_each(keep);
    config.get(&keys::SEARCH_EXA_KEY).iter().for_each(keep);
    config.get(&keys::SEARCH_TAVILY_KEY).iter().for_each(keep);
    config.get(&keys::PROVIDER_KEYS).values().for_each(keep);
    for provider in config.get(&keys::PROVIDERS) {
        provider.headers.iter().for_each(|(name, value)| keeper.keep_header(name, value.expose_secret()));
        if let ProviderKey::Key(key) = config.provider_key(&provider) {
            keep(&key);
        }
        provider.api_key.iter().for_each(keep);
    }
}

/// Which calls wait for an answer.
pub(crate) fn approval(config: &Config) -> ApprovalGateConfig {
    let mode = match config.get(&keys::APPROVAL) {
        Approval::Never => ApprovalMode::Never,
        Approval::Destructive => ApprovalMode::Destructive,
        Approval::Always => ApprovalMode::Always,
    };
    ApprovalGateConfig {
        mode,
        allow: config.get(&keys::PERMISSIONS_ALLOW),
        deny: config.get(&keys::PERMISSIONS_DENY),
        ask: config.get(&keys::PERMISSIONS_ASK),
    }
}

/// How commands run.
pub(crate) fn shell(config: &Config) -> ShellConfig {
    let bash = BashConfig {
        timeout_s: config.get(&keys::SHELL_TIMEOUT_SECS),
        max_timeout_s: config.get(&keys::SHELL_MAX_TIMEOUT_SECS),
        deny: config.get(&keys::SHELL_DENY),
        deny_regex: config.get(&keys::SHELL_DENY_REGEX),
        ..BashConfig::default()
    };
    let mut shell = ShellConfig { shell: config.get(&keys::SHELL_PROGRAM), bash, ..ShellConfig::default() };
    // A variable that holds a key of a provider is none of a command's business, whatever its name.
    let variables = config.get(&keys::PROVIDERS).into_iter().filter_map(|it| it.api_key_env);
    shell.environment.secret.extend(variables.filter(|it| !it.is_empty()));
    shell
}

/// Who answers for models.
pub(crate) fn providers(config: &Config) -> ProvidersConfig {
    let home = config.sources().home.as_deref();
    let known = config.get(&keys::PROVIDERS);
    // A name that nobody is configured by is what a client would like once it has logged in.
    let active = config.get(&keys::PROVIDER).filter(|it| known.iter().any(|provider| provider.name == *it));
    ProvidersConfig {
        providers: known.iter().map(spec).collect(),
        provider_keys: config.get(&keys::PROVIDER_KEYS).into_iter().collect(),
        active,
        default: DefaultProvider { base_url: config.get(&keys::BASE_URL), api_key: config.get(&keys::API_KEY) },
        cache_folder: home.map(linn_config::client_folder),
        idle_timeout_ms: config.get(&keys::STREAM_IDLE_TIMEOUT_SECS).saturating_mul(1000),
        ..ProvidersConfig::default()
    }
}

/// Which scripts of users and repositories run.
pub(crate) fn script_plugins(config: &Config) -> ScriptPluginsConfig {
    ScriptPluginsConfig {
        dir: config.get(&keys::SCRIPT_PLUGINS_DIR),
        disabled: config.get(&keys::SCRIPT_PLUGINS_DISABLED),
        trust_project: Some(config.get(&keys::SCRIPT_PLUGINS_TRUST_PROJECT)),
        ..ScriptPluginsConfig::default()
    }
}

/// What sessions may cost.
pub(crate) fn insight(config: &Config) -> InsightConfig {
    InsightConfig { max_session_tokens: config.get(&keys::SESSION_MAX_TOKENS) }
}

/// How pages are fetched.
pub(crate) fn web(config: &Config) -> WebConfig {
    let limits = [
        ("exa", config.get(&keys::SEARCH_EXA_MONTHLY_LIMIT)),
        ("tavily", config.get(&keys::SEARCH_TAVILY_MONTHLY_LIMIT)),
    ];
    let home = config.sources().home.as_deref();
    WebConfig {
        monthly_limits: limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect(),
        counts_file: home.map(|it| linn_config::client_folder(it).join("searches.json")),
        timeout_s: config.get(&keys::FETCH_TIMEOUT_SECS),
        max_bytes: usize::try_from(config.get(&keys::FETCH_MAX_BYTES)).unwrap_or(usize::MAX),
        allowlist: config.get(&keys::FETCH_ALLOWLIST),
        ..WebConfig::default()
    }
}

/// How a workspace is diagnosed.
pub(crate) fn diagnostics(config: &Config) -> DiagnosticsConfig {
    DiagnosticsConfig { timeout_s: config.get(&keys::DIAGNOSTICS_TIMEOUT_SECS), ..DiagnosticsConfig::default() }
}

/// When histories are made smaller.
pub(crate) fn compaction(config: &Config) -> CompactionConfig {
    let default = CompactionConfig::default();
    let percent = |it: f64| (it * 100.0).round().clamp(1.0, 100.0) as u64;
    let threshold_percent = percent(config.get(&keys::CONTEXT_COMPACT_AT));
    // Zero is never: the history is compacted long before it fills the window.
    let digest_percent = match config.get(&keys::CONTEXT_DIGEST_AT) {
        0.0 => 100,
        part => percent(part),
    };
    CompactionConfig {
        auto: config.get(&keys::CONTEXT_AUTO_COMPACT),
        threshold_percent,
        digest_percent,
        digest_target_percent: default.digest_target_percent.min(digest_percent.saturating_sub(10).max(1)),
        instructions: config.get(&keys::CONTEXT_COMPACT_INSTRUCTIONS),
        ..default
    }
}
