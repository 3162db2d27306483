//! Commands for providers, keys, models and settings, with services that a test provides.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linn_bus::{Root, ServiceError, provider};
use linn_bus_test::{run, run_with};
use linn_services::llm::Llm;
use linn_services::providers::{
    EndpointDraft, Kept, LoggedIn, ModelInfo, ProviderInfo, ProviderPreset, ProviderSpec, ProviderUsage, Providers,
    ProvidersError, Put, Refreshed, UsageWindow,
};
use linn_services::settings::{ProviderChange, ProviderMemory, Settings, SettingsError};
use linn_services_test::{Gate, Reply, ScriptedModel};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::kit::{World, all, first, text_of, types};

/// Two providers, `one` and `two`, that both have `shared`; nothing of it goes anywhere.
#[derive(Clone)]
struct Fake {
    active: Arc<Mutex<String>>,
    keys: Arc<Mutex<Vec<(String, String)>>>,
    looked: Gate,
    /// The models were looked for.
    knows: Arc<AtomicBool>,
    refreshed: Gate,
    /// There is a third provider, `umans`, which counts sessions.
    counts: Arc<AtomicBool>,
}

impl Fake {
    fn new() -> Self {
        let (looked, refreshed) = (Gate::new(), Gate::new());
        looked.open();
        refreshed.open();
        Self {
            active: Arc::new(Mutex::new("one".to_owned())),
            keys: Arc::default(),
            looked,
            knows: Arc::default(),
            refreshed,
            counts: Arc::default(),
        }
    }

    fn info(name: &str) -> ProviderInfo {
        ProviderInfo {
            name: name.to_owned(),
            kind: "openai".to_owned(),
            base_url: format!("http://{name}.invalid/v1"),
            has_key: name == "one",
            is_logged_in: name == "one",
        }
    }

    fn model(id: &str, provider: &str) -> ModelInfo {
        ModelInfo {
            id: id.to_owned(),
            name: id.to_owned(),
            reasoning: true,
            context_window: 8_192,
            max_tokens: 1_024,
            thinking_levels: vec!["low".to_owned(), "high".to_owned()],
            vision: false,
            provider: provider.to_owned(),
        }
    }
}

#[provider]
impl Providers for Fake {
    fn list(&self) -> Result<Vec<ProviderInfo>, ServiceError> {
        let counted = || ProviderInfo {
            base_url: "https://api.code.umans.ai/v1".to_owned(),
            has_key: true,
            ..Self::info("umans")
        };
        let counted = self.counts.load(Relaxed).then(counted);
        Ok([Self::info("one"), Self::info("two")].into_iter().chain(counted).collect())
    }
    fn active(&self) -> Result<ProviderInfo, ServiceError> {
        Ok(Self::info(&self.active.lock().unwrap()))
    }
    fn presets(&self) -> Result<Vec<ProviderPreset>, ServiceError> {
        Ok(vec![ProviderPreset {
            id: "one".to_owned(),
            label: "One".to_owned(),
            kind: "openai".to_owned(),
            base_url: "http://one.invalid/v1".to_owned(),
            env_var: Some("ONE_KEY".to_owned()),
            alt_envs: Vec::new(),
            description: "The first.".to_owned(),
            has_key: true,
            configured: true,
            logged_in: true,
            supports_oauth: false,
        }])
    }
    fn models(&self) -> Result<Vec<ModelInfo>, ServiceError> {
        if !self.knows.load(Relaxed) {
            return Ok(Vec::new());
        }
        Ok(vec![Self::model("shared", "one"), Self::model("shared", "two"), Self::model("own", "two")])
    }
    fn route(&self, model: &str, provider: Option<&str>) -> Result<Option<ModelInfo>, ServiceError> {
        let mut fitting: Vec<_> = self.models()?.into_iter().filter(|it| it.id == model).collect();
        if let Some(provider) = provider {
            fitting.retain(|it| it.provider == provider);
        }
        Ok(fitting.into_iter().next())
    }
    async fn settled(&self) -> Result<(), ServiceError> {
        self.looked.pass().await;
        self.knows.store(true, Relaxed);
        Ok(())
    }
    async fn refresh(&self) -> Result<Refreshed, ProvidersError> {
        self.refreshed.pass().await;
        Ok(Refreshed::new(self.models()?))
    }
    async fn preview(&self, endpoint: EndpointDraft) -> Result<Vec<ModelInfo>, ProvidersError> {
        if endpoint.base_url.contains("empty") {
            return Err(ProvidersError::NoModels { base_url: endpoint.base_url, why: "nobody is there".to_owned() });
        }
        Ok(vec![Self::model("found", "somebody")])
    }
    async fn log_in(&self, preset: &str, key: Option<SecretString>) -> Result<LoggedIn, ProvidersError> {
        let known = vec!["one".to_owned(), "local".to_owned()];
        let label = match preset {
            "one" if key.is_none() => return Err(ProvidersError::NoKey { label: "One".to_owned() }),
            "one" => "One".to_owned(),
            "local" => "Local".to_owned(),
            _ => return Err(ProvidersError::UnknownPreset { preset: preset.to_owned(), known }),
        };
        let failure = (preset == "local").then(|| "the disk is full".to_owned());
        Ok(LoggedIn { label, provider: Self::info(preset), with_key: key.is_some(), kept: Kept { failure } })
    }
    async fn log_out(&self, provider: &str) -> Result<Kept, ProvidersError> {
        match provider {
            "one" => Ok(Kept::default()),
            _ => Err(ProvidersError::NotLoggedIn(provider.to_owned())),
        }
    }
    async fn set_key(&self, provider: Option<&str>, key: SecretString) -> Result<String, ProvidersError> {
        let provider = provider.unwrap_or("one").to_owned();
        self.keys.lock().unwrap().push((provider.clone(), key.expose_secret().to_owned()));
        Ok(provider)
    }
    async fn set_active(&self, provider: &str) -> Result<ProviderInfo, ProvidersError> {
        let known = vec!["one".to_owned(), "two".to_owned()];
        if !known.iter().any(|it| it == provider) {
            return Err(ProvidersError::UnknownProvider { name: provider.to_owned(), known });
        }
        *self.active.lock().unwrap() = provider.to_owned();
        Ok(Self::info(provider))
    }
    async fn put(&self, provider: ProviderSpec) -> Result<Put, ProvidersError> {
        let provider = ProviderInfo { has_key: provider.key().is_some(), ..Self::info(&provider.name) };
        Ok(Put { replaced: provider.name == "two", provider, kept: Kept::default() })
    }
    async fn usage(&self, model: Option<&str>) -> Result<ProviderUsage, ServiceError> {
        if model.is_some_and(|it| it.starts_with("umans:")) {
            let used = |id: &str, used| UsageWindow {
                id: id.to_owned(),
                label: String::new(),
                unit: "sessions".to_owned(),
                used: Some(used),
                limit: Some(4.0),
                resets_at: None,
                detail: None,
            };
            let windows = vec![used("requests", 9.0), used("concurrency", 2.0)];
            return Ok(ProviderUsage { provider: "umans".to_owned(), available: true, windows, ..Default::default() });
        }
        let message = Some("Provider `one` does not publish usage stats for /usage.".to_owned());
        Ok(ProviderUsage {
            provider: "one".to_owned(),
            model: model.unwrap_or_default().to_owned(),
            message,
            ..Default::default()
        })
    }
}

/// Settings in memory.
#[derive(Default)]
struct FakeSettings(Mutex<BTreeMap<String, Value>>);

#[provider]
impl Settings for FakeSettings {
    fn get(&self, name: &str) -> Result<Option<Value>, ServiceError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }
    fn set(&self, name: &str, value: &Value) -> Result<Value, SettingsError> {
        match (name, value) {
            ("bash_timeout_secs", Value::Number(_)) => {
                self.0.lock().unwrap().insert(name.to_owned(), value.clone());
                Ok(value.clone())
            }
            ("bash_timeout_secs", _) => Err(SettingsError::WrongValue("it is a number of seconds".to_owned())),
            _ => Err(SettingsError::Unknown { name: name.to_owned(), nearest: None }),
        }
    }
    fn variable(&self, _: &str) -> Result<Option<SecretString>, ServiceError> {
        Ok(None)
    }
    async fn save_providers(&self, _: ProviderChange) -> Result<(), SettingsError> {
        Ok(())
    }
    fn provider_memory(&self) -> Result<ProviderMemory, ServiceError> {
        Ok(ProviderMemory::default())
    }
    fn remember_providers(&self, _: ProviderMemory) -> Result<(), ServiceError> {
        Ok(())
    }
    fn search_key(&self, _: &str) -> Result<Option<SecretString>, ServiceError> {
        Ok(None)
    }
    async fn save_search_key(&self, service: &str, _: Option<SecretString>) -> Result<(), SettingsError> {
        match service {
            "exa" => Ok(()),
            "tavily" => Err(SettingsError::Store("the disk is full".to_owned())),
            _ => Err(SettingsError::Unknown { name: service.to_owned(), nearest: None }),
        }
    }
}

/// A world with providers and settings, and a model behind `one:shared`, `two:shared` and `two:own`.
async fn world(root: Root, fake: &Fake, script: impl IntoIterator<Item = Reply>) -> World {
    root.provide::<dyn Providers>(Arc::new(fake.clone())).unwrap();
    root.provide::<dyn Settings>(Arc::new(FakeSettings::default())).unwrap();
    let mut world = World::new(root, []).await;
    let model = ScriptedModel::new(script);
    let llm = world.root.get::<dyn Llm>().unwrap();
    let models = ["one:shared", "two:shared", "two:own"].map(Into::into).to_vec();
    llm.register(&world.root, models, Arc::new(model.clone())).unwrap();
    world.model = model;
    world
}

#[test]
fn ready_waits_for_the_models_and_other_commands_do_not_2_1() {
    run(async |root| {
        let fake = Fake { looked: Gate::new(), ..Fake::new() };
        let mut world = world(root, &fake, []).await;
        world.send(json!({ "type": "init" })).await;
        fake.looked.reached().await;
        let status = world.status().await;
        assert_eq!(status["type"], "runtime_status");
        fake.looked.open();
        let ready = world.next().await;
        assert_eq!((&ready["type"], ready["models"].as_array().unwrap().len()), (&json!("ready"), 3));
        assert_eq!((&ready["provider"], &ready["providers"]), (&json!("one"), &json!(["one", "two"])));
        assert_eq!((&ready["authed"], &ready["anyLoggedIn"]), (&json!(true), &json!(true)));
        let preset = &ready["providerPresets"][0];
        for name in [
            "id",
            "label",
            "kind",
            "base_url",
            "envVar",
            "altEnvs",
            "description",
            "hasKey",
            "configured",
            "loggedIn",
            "supportsOauth",
        ] {
            assert!(!preset[name].is_null(), "{name}");
        }
    });
}

#[test]
fn a_prompt_before_the_models_are_known_waits_for_them_and_abort_ends_the_wait() {
    run(async |root| {
        let fake = Fake { looked: Gate::new(), ..Fake::new() };
        let mut world = world(root, &fake, [Reply::text("hi")]).await;
        let prompt = json!({ "type": "send", "prompt": "x", "model": "own" });
        // Nothing is known before somebody has asked for it.
        world.send(prompt.clone()).await;
        fake.looked.reached().await;
        world.send(json!({ "type": "abort" })).await;
        world.until("aborted").await;
        world.send(prompt).await;
        fake.looked.open();
        assert_eq!(text_of(&world.until("done").await), "hi");
        assert_eq!(world.model.requests().len(), 1);
    });
}

#[test]
fn the_provider_of_a_prompt_decides_3_5() {
    run(async |root| {
        let fake = Fake::new();
        let mut world = world(root, &fake, [Reply::text("a"), Reply::text("b")]).await;
        world.send(json!({ "type": "init" })).await;
        world.until("agents").await;
        world.send(json!({ "type": "send", "prompt": "x", "model": "shared", "provider": "two" })).await;
        let events = world.until("done").await;
        assert_eq!(first(&events, "metrics")["model"], "shared");
        world.send(json!({ "type": "send", "prompt": "x", "model": "shared" })).await;
        world.until("done").await;
        let asked: Vec<_> = world.model.requests().iter().map(|it| it.config.model.clone()).collect();
        assert_eq!(asked, ["two:shared", "one:shared"]);
    });
}

#[test]
fn keys_and_providers_4_4() {
    run(async |root| {
        let fake = Fake::new();
        let mut world = world(root, &fake, []).await;
        world.send(json!({ "type": "set_key", "api_key": "sk-1", "provider": "two" })).await;
        let events = world.until("provider_presets").await;
        assert_eq!(types(&events), ["authed", "models", "provider_presets"]);
        assert_eq!((&events[0]["ok"], &events[0]["provider"]), (&json!(true), &json!("two")));
        assert_eq!(*fake.keys.lock().unwrap(), [("two".to_owned(), "sk-1".to_owned())]);

        world.send(json!({ "type": "set_provider", "name": "two" })).await;
        let events = world.until("provider_presets").await;
        assert_eq!(types(&events), ["provider_changed", "models", "provider_presets"]);
        let changed = &events[0];
        assert_eq!(
            (&changed["provider"], &changed["kind"], &changed["has_key"]),
            (&json!("two"), &json!("openai"), &json!(false))
        );
        assert_eq!(changed["base_url"], "http://two.invalid/v1");
        world.send(json!({ "type": "set_provider", "name": "nobody" })).await;
        assert_eq!(world.event("error").await["message"], "unknown provider 'nobody'; not switching");
    });
}

#[test]
fn logins_and_logouts_4_4() {
    run(async |root| {
        let mut world = world(root, &Fake::new(), []).await;
        world.send(json!({ "type": "login", "preset": "one", "api_key": "sk-1" })).await;
        let events = world.until("provider_presets").await;
        assert_eq!(types(&events), ["info", "provider_changed", "authed", "models", "provider_presets"]);
        assert_eq!(events[0]["message"], "logged into One.");
        assert!(events.iter().all(|it| !it.to_string().contains("sk-1")));

        world.send(json!({ "type": "login", "preset": "local" })).await;
        let events = world.until("provider_presets").await;
        let infos: Vec<_> = all(&events, "info").iter().map(|it| it["message"].as_str().unwrap()).collect();
        let unkept = "logged into 'Local' for this session (could not persist to config.json: the disk is full)";
        assert_eq!(infos, [unkept, "logged into Local (no API key required)."]);
        assert_eq!(first(&events, "authed")["ok"], false);

        let errors = [
            (
                json!({ "type": "login", "preset": "one", "api_key": "" }),
                "no API key provided for 'One' — paste a key via /login (subscription OAuth is available via plugins)",
            ),
            (json!({ "type": "login", "preset": "x" }), "unknown provider preset 'x'; available: one, local"),
            (json!({ "type": "logout", "provider": "x" }), "not logged into 'x'"),
            (
                json!({ "type": "add_custom_provider", "name": " ", "base_url": "u" }),
                "add_custom_provider: name and base_url are required",
            ),
            (
                json!({ "type": "oauth_code", "code": "x" }),
                "No pending OAuth login. Run /login first — the no-browser flow prints a URL; paste its code here with /oauth-code <code>.",
            ),
        ];
        for (command, message) in errors {
            world.send(command).await;
            assert_eq!(world.event("error").await["message"], message);
        }
        world.send(json!({ "type": "logout", "provider": "one" })).await;
        let events = world.until("provider_presets").await;
        assert_eq!(types(&events), ["info", "provider_changed", "authed", "models", "provider_presets"]);
        assert_eq!(events[0]["message"], "logged out of 'one'");
    });
}

#[test]
fn custom_providers_and_discovery_4_4() {
    run(async |root| {
        let mut world = world(root, &Fake::new(), []).await;
        let headers = json!([["x-a", "b"]]);
        world
            .send(json!({ "type": "add_custom_provider", "name": "new", "base_url": "http://l", "headers": headers }))
            .await;
        let events = world.until("provider_presets").await;
        assert_eq!(types(&events), ["info", "provider_changed", "models", "provider_presets"]);
        assert_eq!(events[0]["message"], "added provider 'new'.");
        world
            .send(json!({ "type": "add_custom_provider", "name": "two", "base_url": "http://l", "api_key": "k" }))
            .await;
        let events = world.until("provider_presets").await;
        assert_eq!((&events[0]["message"], types(&events)[2]), (&json!("updated provider 'two'."), "authed"));

        world
            .send(json!({ "type": "discover_provider_models", "base_url": "http://l", "headers": { "a": "b" } }))
            .await;
        let events = world.until("provider_models_preview").await;
        assert_eq!(events[0]["message"], "discovering models from http://l…");
        let preview = &events[1];
        assert_eq!((&preview["models"][0]["provider"], &preview["count"]), (&json!("__preview__"), &json!(1)));
        for (base_url, error) in [
            ("", "discover_provider_models: base_url is required"),
            (
                "http://empty",
                "no models discovered from http://empty — check base URL, API key, wire kind, and that the endpoint serves /models",
            ),
        ] {
            world.send(json!({ "type": "discover_provider_models", "base_url": base_url })).await;
            let preview = world.event("provider_models_preview").await;
            assert_eq!((&preview["error"], &preview["models"]), (&json!(error), &json!([])));
        }
    });
}

#[test]
fn models_are_refreshed_and_abort_works_meanwhile_4_4() {
    run(async |root| {
        let fake = Fake { refreshed: Gate::new(), ..Fake::new() };
        let mut world = world(root, &fake, []).await;
        world.send(json!({ "type": "init" })).await;
        world.until("agents").await;
        world.send(json!({ "type": "refresh_models" })).await;
        fake.refreshed.reached().await;
        world.send(json!({ "type": "set_provider", "name": "two" })).await;
        assert_eq!(world.status().await["resources"][0]["label"], "refresh_models");
        fake.refreshed.open();
        let events = world.until("provider_changed").await;
        assert_eq!(types(&events), ["models", "provider_presets", "models_refreshed", "provider_changed"]);
        let refreshed = &events[2];
        assert_eq!(
            (&refreshed["count"], &refreshed["providers"]),
            (&json!(3), &json!({ "one": ["shared"], "two": ["shared", "own"] }))
        );
        world.until("provider_presets").await;

        world.send(json!({ "type": "abort" })).await;
        assert_eq!(world.next().await["type"], "aborted");
    });
}

#[test]
fn settings_4_5() {
    run(async |root| {
        let mut world = world(root, &Fake::new(), []).await;
        world.send(json!({ "type": "set_config", "key": "bash_timeout_secs", "value": 60 })).await;
        let changed = world.next().await;
        assert_eq!(
            (&changed["type"], &changed["key"], &changed["value"]),
            (&json!("config_changed"), &json!("bash_timeout_secs"), &json!(60))
        );
        world.send(json!({ "type": "set_config", "key": "bash_timeout_secs", "value": "x" })).await;
        let events = world.until("config_changed").await;
        assert_eq!((types(&events), &events[1]["value"]), (vec!["info", "config_changed"], &json!("x")));
        world.send(json!({ "type": "set_config", "key": "color", "value": 1 })).await;
        assert_eq!(world.event("error").await["message"], "unknown config key: color");
        world.send(json!({ "type": "init" })).await;
        assert_eq!(world.event("ready").await["bash_timeout_secs"], 60);

        world.send(json!({ "type": "set_search_key", "provider": " Exa ", "api_key": "k" })).await;
        let set = world.event("search_key_set").await;
        assert_eq!((&set["provider"], &set["has_key"]), (&json!("exa"), &json!(true)));
        world.send(json!({ "type": "set_search_key", "provider": "exa", "api_key": "" })).await;
        assert_eq!(world.event("search_key_set").await["has_key"], false);
        for (provider, message) in [
            ("bing", "set_search_key: unknown provider 'bing' (expected 'exa' or 'tavily')"),
            ("tavily", "set_search_key: failed to persist: the disk is full"),
        ] {
            world.send(json!({ "type": "set_search_key", "provider": provider, "api_key": "k" })).await;
            assert_eq!(world.event("error").await["message"], message);
        }
    });
}

#[test]
fn usage_is_never_an_error_4_3() {
    run(async |root| {
        let mut world = world(root, &Fake::new(), []).await;
        world.send(json!({ "type": "init" })).await;
        world.until("agents").await;
        world.send(json!({ "type": "usage" })).await;
        let usage = world.event("usage").await;
        assert_eq!(
            (&usage["available"], &usage["model"], &usage["windows"]),
            (&json!(false), &json!("shared"), &json!([]))
        );
        assert!(usage["message"].is_string());
    });
}

#[test]
fn sessions_in_use_are_told_while_a_provider_counts_them_5_4() {
    run_with(async |root, time| {
        let fake = Fake::new();
        fake.counts.store(true, Relaxed);
        let mut world = world(root, &fake, []).await;
        time.hold_clock();
        world.send(json!({ "type": "init" })).await;
        let told = world.event("umans_conc").await;
        assert_eq!((&told["used"], &told["limit"], &told["provider"]), (&json!(2), &json!(4), &json!("umans")));
        time.advance(Duration::from_secs(5)).await;
        assert_eq!(world.event("umans_conc").await["used"], 2);
        fake.counts.store(false, Relaxed);
        time.advance(Duration::from_secs(5)).await;
        let told = world.event("umans_conc").await;
        assert_eq!((&told["used"], &told["limit"], told.get("provider")), (&Value::Null, &Value::Null, None));
        time.release_clock();
    });
}
