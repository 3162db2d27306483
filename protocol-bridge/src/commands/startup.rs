//! `init`: what a front end learns first.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use linn_bus::Svc;
use linn_services::approval::{ApprovalMode, ApprovalModes};
use linn_services::chat::chat_messages;
use linn_services::providers::Providers;
use linn_services::settings::Settings;
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::commands::providers::presets;
use crate::events::{mode_name, unanswered};
use crate::wire::commands::{Client, Init, Run};
use crate::wire::events::{History, ProtocolHello, Ready, SessionRecovered};
use crate::wire::{CAPABILITIES, MIN_CLIENT};

/// A setting as `ready` tells it.
struct Told {
    field: &'static str,
    /// Name of the setting.
    name: &'static str,
    /// What holds without one.
    default: fn() -> Value,
}

const fn told(field: &'static str, name: &'static str, default: fn() -> Value) -> Told {
    Told { field, name, default }
}

const SETTINGS: &[Told] = &[
    told("bash_timeout_secs", "bash_timeout_secs", || json!(30)),
    told("idle_timeout_secs", "idle_timeout_secs", || json!(120)),
    told("auto_compact", "auto_compact", || json!(true)),
    told("context_compact_at", "context_compact_at", || json!(0.9)),
    told("context_digest_at", "context_digest_at", || json!(0.7)),
    told("sandbox", "sandbox", || json!("none")),
    told("shell", "shell", || json!("bash")),
    told("sandboxImage", "sandbox_image", || json!("ghcr.io/catalystctl/catcode-sandbox:0.1")),
    told("sandboxCpus", "sandbox_cpus", || json!(2)),
    told("sandboxMemoryMb", "sandbox_memory_mb", || json!(2048)),
    told("sandboxNetworkMode", "sandbox_network_mode", || json!("restricted")),
];

/// How long the first answer may wait for the models.
const PATIENCE: Duration = Duration::from_secs(8);

impl Run for Init {
    async fn run(self, bridge: &Arc<Bridge>) {
        // Where nobody is logged in there is nothing to wait for; what is found is told when it is.
        let is_worth_it = |it: &Svc<dyn Providers>| it.list().is_ok_and(|all| all.iter().any(|it| it.is_logged_in));
        let Some(providers) = bridge.service::<dyn Providers>().filter(is_worth_it) else {
            return bridge.greet(self).await;
        };
        if providers.settled().now_or_never().is_some() {
            return bridge.greet(self).await;
        }
        // The models belong to the first answer; until they were looked for other commands go on.
        bridge.state().waiting.push(self);
        bridge.spawn(move |bridge| async move {
            let patience = bridge.ctx.clock().sleep(PATIENCE);
            if let Either::Left((Err(error), _)) = select(pin!(providers.settled()), pin!(patience)).await {
                bridge.ctx.logger().warn(format_args!("the models are not known: {error}"));
            }
            bridge.greet_waiting().await;
        });
    }
}

impl Bridge {
    /// Gives the first answer to those who wait for it, with the models that are known by now.
    pub(crate) async fn greet_waiting(self: &Arc<Self>) {
        let waiting = std::mem::take(&mut self.state().waiting);
        for init in waiting {
            self.greet(init).await;
        }
    }

    async fn greet(self: &Arc<Self>, init: Init) {
        self.say(&Ready { fields: &self.ready_fields() });
        self.has_greeted.store(true, Ordering::Release);
        self.watch_concurrency();
        self.say_hello(init.protocol_version, init.client.as_ref());
        self.tell_undecided();
        self.tell_useless_rules();
        let recovery = std::mem::take(&mut self.state().recovery);
        if let Some(error) = &recovery.error {
            self.error(error);
        }
        if !recovery.warnings.is_empty() || !recovery.activities.is_empty() {
            let run_id = |it: &Value| it.get("run_id").and_then(Value::as_str).map(str::to_owned);
            self.say(&SessionRecovered {
                warnings: &recovery.warnings,
                interrupted_runs: &recovery.activities.iter().filter_map(run_id).collect::<Vec<_>>(),
                interrupted_activities: &recovery.activities,
            });
        }
        self.tell_skills().await;
        self.tell_agents();
        let Some(agent) = self.agent() else { return };
        if !chat_messages(agent.session()).is_empty() {
            self.tell_history();
        }
        if unanswered(agent.session()).is_some() {
            self.info(
                "A question from the previous session was interrupted by a restart. Send any message to answer it and \
                 continue.",
            );
        }
    }

    /// Tells which permission rules do not do what they seem to.
    fn tell_useless_rules(&self) {
        let rules = self.service::<dyn ApprovalModes>().and_then(|it| it.rules().ok()).unwrap_or_default();
        for rule in rules {
            if let Some(problem) = &rule.problem {
                self.info(format!("permission rule `{}`: {problem}", rule.rule));
            }
        }
    }

    fn say_hello(&self, client_protocol_version: Option<u64>, client: Option<&Client>) {
        self.say(&ProtocolHello {
            version: &self.config.version,
            min_client: MIN_CLIENT,
            client_protocol_version,
            client,
            capabilities: CAPABILITIES,
        });
    }

    fn ready_fields(&self) -> Value {
        let active = self.active_provider();
        let providers = self.service::<dyn Providers>().and_then(|it| it.list().ok()).unwrap_or_default();
        let mode = self.service::<dyn ApprovalModes>().and_then(|it| it.mode().ok());
        let presets = presets(self);
        let (plugins, plugins_skipped) = self.plugin_names();
        let messages = self.agent().map_or(0, |it| it.session().messages().len());
        let mut fields = json!({
            "models": self.models(),
            "authed": active.is_logged_in,
            "has_key": active.has_key,
            "anyLoggedIn": active.is_logged_in || providers.iter().any(|it| it.is_logged_in),
            "workspace": self.config.workspace.to_string_lossy(),
            "approval": mode_name(mode.unwrap_or(ApprovalMode::Destructive)),
            "base_url": active.base_url,
            "provider": active.name,
            "providerKind": active.kind,
            "provider_kind": active.kind,
            "providers": providers.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
            "providerPresets": presets,
            "has_vision_config": false,
            "sandboxReady": false,
            "resumed_messages": messages,
            "plugins": plugins,
            "plugins_skipped": plugins_skipped,
        });
        for Told { field, name, default } in SETTINGS {
            fields[*field] = self.setting(name).unwrap_or_else(default);
        }
        fields
    }

    /// The value of a setting, if somebody keeps settings and it has one.
    pub(crate) fn setting(&self, name: &str) -> Option<Value> {
        self.service::<dyn Settings>()?.get(name).ok().flatten()
    }

    /// Tells the conversation as it is.
    pub(crate) fn tell_history(&self) {
        let Some(agent) = self.agent() else { return };
        let messages = chat_messages(agent.session());
        self.say(&History { messages: &messages, tokens_in: self.context_tokens(&agent) });
    }
}
