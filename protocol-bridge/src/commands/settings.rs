//! Settings that a front end changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use linn_services::approval::{ApprovalMode, ApprovalModes};
use linn_services::settings::{Settings, SettingsError};
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::system::PLATFORM;
use crate::wire::commands::{
    GetSandboxStatus, GetVisionConfig, PrepareSandbox, ResetSandbox, Run, SetApproval, SetConfig, SetVisionConfig,
};
use crate::wire::events::{ConfigChanged, SandboxError, SandboxStatus, VisionConfig};

impl Run for SetApproval {
    async fn run(self, bridge: &Arc<Bridge>) {
        let mode = match self.mode.trim().to_lowercase().as_str() {
            "never" | "off" | "none" | "auto" => ApprovalMode::Never,
            "always" | "all" | "y" => ApprovalMode::Always,
            _ => ApprovalMode::Destructive,
        };
        let Some(modes) = bridge.service::<dyn ApprovalModes>() else {
            return bridge.missing("set_approval", "a gate before tool calls");
        };
        // What it comes to is told by who listens to the gate.
        if let Err(error) = modes.set_mode(mode) {
            bridge.error(format!("set_approval failed: {error}"));
        }
    }
}

impl Run for SetConfig {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { key, value } = self;
        let Some(settings) = bridge.service::<dyn Settings>() else {
            return bridge.missing("set_config", "settings");
        };
        bridge.is_setting.store(true, Ordering::Release);
        let set = settings.set(&key, &value);
        bridge.is_setting.store(false, Ordering::Release);
        match set {
            Ok(value) => bridge.say(&ConfigChanged { key: &key, value: &value }),
            // The setting is as it was, and existing clients expect to be told what they sent.
            Err(SettingsError::WrongValue(why)) => {
                bridge.info(format!("{key} stays as it is: {why}"));
                bridge.say(&ConfigChanged { key: &key, value: &value });
            }
            Err(SettingsError::Unknown { .. }) => bridge.error(format!("unknown config key: {key}")),
            Err(error) => bridge.error(format!("set_config failed: {error}")),
        }
    }
}

impl Run for GetVisionConfig {
    async fn run(self, bridge: &Arc<Bridge>) {
        let models = bridge.models();
        let shown = |(rank, it): (usize, &linn_services::providers::ModelInfo)| json!({ "id": it.id, "vision": it.vision, "provider": it.provider, "cost_rank": rank });
        let models: Vec<Value> = models.iter().enumerate().map(shown).collect();
        bridge.say(&VisionConfig { enabled: false, vision_models: &[], vision_model: None, models: &models });
    }
}

impl Run for SetVisionConfig {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.missing("set_vision_config", "models that see for others");
    }
}

impl Run for GetSandboxStatus {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&SandboxStatus { mode: "none", report: &no_sandbox(), reset: None });
    }
}

impl Run for ResetSandbox {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&SandboxStatus { mode: "none", report: &no_sandbox(), reset: Some(true) });
    }
}

impl Run for PrepareSandbox {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&SandboxError {
            error: "prepare_sandbox needs a sandbox, and no plugin that is mounted provides one",
        });
    }
}

/// What there is to say of a sandbox that is not there.
fn no_sandbox() -> Value {
    json!({
        "requested": false,
        "supported": false,
        "ready": false,
        "platform": PLATFORM.0,
        "architecture": PLATFORM.1,
        "checks": [{
            "code": "no_sandbox",
            "title": "Sandbox",
            "status": "info",
            "detail": "No plugin that is mounted provides a sandbox; commands run on this machine.",
        }],
        "actions": [],
    })
}
