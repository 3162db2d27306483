//! The `settings` service: the configuration, as plugins and front ends see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, ServiceError, provider};
use linn_config::{
    ClientFiles, Config, ExposeSecret as _, ModelOverride, Problem, Provider, ProviderKind, SearchService,
    SecretString, keys,
};
use linn_services::events::SettingsChanged;
use linn_services::providers::ProviderSpec;
use linn_services::secrets::secrets_of;
use linn_services::settings::{ProviderChange, ProviderMemory, Settings, SettingsError};
use serde_json::Value;

/// The configuration while the program runs: what was read, and what commands changed since.
#[derive(Debug)]
pub struct LiveConfig(Mutex<Config>);

impl LiveConfig {
    /// Goes on from what was read.
    pub fn new(config: Config) -> Self {
        Self(Mutex::new(config))
    }

    /// The configuration of this moment.
    pub fn lock(&self) -> MutexGuard<'_, Config> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Provides [`Settings`] from the configuration.
#[derive(Debug)]
pub struct SettingsPlugin;

impl Plugin for SettingsPlugin {
    const NAME: &'static str = "settings";
    type Config = Arc<LiveConfig>;
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Settings>(Demand::Required);
    }

    async fn start(ctx: &Context, live: Arc<LiveConfig>, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Settings>(Arc::new(FromConfig { ctx: ctx.clone(), live, memory: Mutex::default() }))?;
        Ok(())
    }
}

struct FromConfig {
    ctx: Context,
    live: Arc<LiveConfig>,
    memory: Mutex<ProviderMemory>,
}

/// The name of a setting in Linn, by that name or by the one that existing clients have for it.
fn own_name(name: &str) -> Option<&'static str> {
    let known = keys::all().iter();
    let is_named = |it: &&&'static linn_config::Declaration| {
        it.name == name || it.client.command == Some(name) || it.client.keys.contains(&name)
    };
    known.clone().find(|it| it.name == name).or_else(|| known.clone().find(is_named)).map(|it| it.name)
}

fn refused(problem: Problem) -> SettingsError {
    match problem {
        Problem::UnknownKey { key, similar, .. } => SettingsError::Unknown { name: key, nearest: similar },
        other => SettingsError::WrongValue(other.to_string()),
    }
}

impl FromConfig {
    fn memory(&self) -> MutexGuard<'_, ProviderMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to a file of existing clients, on a thread that may wait.
    #[expect(clippy::disallowed_methods, reason = "files are written where a thread may wait")]
    async fn write(
        &self,
        write: impl FnOnce(&ClientFiles<'_>) -> Result<std::path::PathBuf, Problem> + Send + 'static,
    ) -> Result<(), SettingsError> {
        let sources = self.live.lock().sources().clone();
        let written = tokio::task::spawn_blocking(move || write(&ClientFiles::new(&sources)).map(drop));
        match written.await {
            Ok(written) => written.map_err(|it| SettingsError::Store(it.to_string())),
            Err(error) => Err(SettingsError::Store(error.to_string())),
        }
    }
}

#[provider]
impl Settings for FromConfig {
    fn get(&self, name: &str) -> Result<Option<Value>, ServiceError> {
        let value = own_name(name).and_then(|it| self.live.lock().get_json(it));
        Ok(value.filter(|it| !it.is_null()))
    }

    fn set(&self, name: &str, value: &Value) -> Result<Value, SettingsError> {
        let own = own_name(name).unwrap_or(name);
        let (before, after) = {
            let mut config = self.live.lock();
            let before = config.get_json(own);
            (before, config.set(own, value, "set_config").map_err(refused)?)
        };
        if before.as_ref() != Some(&after) {
            self.ctx.emit(&SettingsChanged { name: own.to_owned(), value: after.clone() });
        }
        Ok(after)
    }

    fn variable(&self, name: &str) -> Result<Option<SecretString>, ServiceError> {
        let config = self.live.lock();
        let value = config.sources().variables.get(name).filter(|it| !it.trim().is_empty());
        Ok(value.map(SecretString::from))
    }

    async fn save_providers(&self, change: ProviderChange) -> Result<(), SettingsError> {
        let ProviderChange { put, remove, active } = change;
        let secrets = secrets_of(&self.ctx);
        for spec in &put {
            spec.api_key.iter().for_each(|it| secrets.keep(it.expose_secret()));
            spec.headers.iter().for_each(|(name, value)| secrets.keep_header(name, value.expose_secret()));
        }
        let put: Vec<_> = put.into_iter().map(stored).collect();
        let stored = linn_config::ProviderChange { put: put.clone(), remove: remove.clone(), active };
        self.write(move |files| files.change_providers(&stored)).await?;
        let mut config = self.live.lock();
        put.into_iter().for_each(|it| config.put_provider(it));
        for name in remove {
            config.remove_provider(&name);
        }
        Ok(())
    }

    fn provider_memory(&self) -> Result<ProviderMemory, ServiceError> {
        Ok(self.memory().clone())
    }

    fn remember_providers(&self, memory: ProviderMemory) -> Result<(), ServiceError> {
        *self.memory() = memory;
        Ok(())
    }

    fn search_key(&self, service: &str) -> Result<Option<SecretString>, ServiceError> {
        let config = self.live.lock();
        let key = match SearchService::from_name(service) {
            Some(SearchService::Exa) => config.get(&keys::SEARCH_EXA_KEY),
            Some(SearchService::Tavily) => config.get(&keys::SEARCH_TAVILY_KEY),
            None => None,
        };
        Ok(key.filter(|it| !it.expose_secret().is_empty()))
    }

    async fn save_search_key(&self, service: &str, key: Option<SecretString>) -> Result<(), SettingsError> {
        let Some(which) = SearchService::from_name(service) else {
            return Err(SettingsError::Unknown { name: service.to_owned(), nearest: None });
        };
        let name = match which {
            SearchService::Exa => keys::SEARCH_EXA_KEY.declaration().name,
            SearchService::Tavily => keys::SEARCH_TAVILY_KEY.declaration().name,
        };
        key.iter().for_each(|it| secrets_of(&self.ctx).keep(it.expose_secret()));
        let value = key.as_ref().map_or(Value::Null, |it| Value::from(it.expose_secret()));
        self.write(move |files| files.set_search_key(which, key.as_ref())).await?;
        self.live.lock().set(name, &value, "set_search_key").map(drop).map_err(refused)
    }
}

/// A provider as files keep it.
fn stored(spec: ProviderSpec) -> Provider {
    let ProviderSpec {
        name,
        base_url,
        kind,
        api_key,
        api_key_env,
        headers,
        context_window,
        models_override,
        models_endpoint,
    } = spec;
    let models = models_override.into_iter().map(|(id, facts)| ModelOverride { id, facts });
    Provider {
        api_key,
        api_key_env,
        headers,
        context_window,
        models: models.collect(),
        models_endpoint,
        ..Provider::new(name, base_url, ProviderKind::from_name(&kind))
    }
}

/// A provider as plugins see it.
pub(crate) fn spec(provider: &Provider) -> ProviderSpec {
    ProviderSpec {
        name: provider.name.clone(),
        base_url: provider.base_url.clone(),
        kind: provider.kind.name().to_owned(),
        api_key: provider.api_key.clone(),
        api_key_env: provider.api_key_env.clone(),
        headers: provider.headers.clone(),
        context_window: provider.context_window,
        models_override: provider.models.iter().map(|it| (it.id.clone(), it.facts.clone())).collect(),
        models_endpoint: provider.models_endpoint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use linn_bus::{Root, TokioRuntime};
    use linn_bus_test::Recorder;
    use linn_config::{Files as _, MemoryFiles, Sources};
    use serde_json::json;

    use super::*;

    const STORED: &str = "/u/ada/.config/catalyst-code/config.json";

    async fn settings(files: &MemoryFiles) -> (Root, linn_bus::Svc<dyn Settings>) {
        let variables = [("SOME_KEY", "s3cret"), ("BLANK", " ")].into_iter().collect();
        let sources =
            Sources { home: Some("/u/ada".into()), variables, ..Sources::in_memory("/src/engine", files.clone()) };
        let root = Root::new(TokioRuntime::seams());
        let live = Arc::new(LiveConfig::new(Config::load(sources, &[])));
        root.mount::<SettingsPlugin>(live).unwrap().running().await.unwrap();
        let settings = root.require::<dyn Settings>().unwrap();
        (root, settings)
    }

    #[tokio::test]
    async fn a_setting_is_found_by_both_its_names_and_its_change_is_told_once() {
        let (root, settings) = settings(&MemoryFiles::default()).await;
        assert_eq!(settings.get("shell.timeout_secs").unwrap(), Some(json!(30)));
        assert_eq!(settings.get("bash_timeout_secs").unwrap(), Some(json!(30)));
        assert_eq!(settings.get("no_such").unwrap(), None);
        assert_eq!(settings.get("api_key").unwrap(), None);

        let changes = Recorder::new();
        changes.note(&root, |it: &SettingsChanged| (it.name.clone(), it.value.clone())).unwrap();
        assert_eq!(settings.set("bash_timeout_secs", &json!("45")).unwrap(), json!(45));
        assert_eq!(settings.set("shell.timeout_secs", &json!(45)).unwrap(), json!(45));
        assert_eq!(changes.heard::<(String, Value)>(), [("shell.timeout_secs".to_owned(), json!(45))]);
        assert_eq!(settings.get("bash_timeout_secs").unwrap(), Some(json!(45)));
    }

    #[tokio::test]
    async fn what_cannot_be_set_is_refused_by_name() {
        let (_root, settings) = settings(&MemoryFiles::default()).await;
        let error = settings.set("aproval", &json!("always")).unwrap_err();
        assert_eq!(error.code(), "UNKNOWN_SETTING");
        assert_eq!(error.to_string(), "there is no setting `aproval`; did you mean `approval`?");
        let error = settings.set("context.auto_compact", &json!("perhaps")).unwrap_err();
        assert_eq!(error.code(), "WRONG_SETTING_VALUE");
        assert_eq!(settings.get("auto_compact").unwrap(), Some(json!(true)));
    }

    #[tokio::test]
    async fn variables_are_given_by_name_and_blank_ones_count_as_unset() {
        let (_root, settings) = settings(&MemoryFiles::default()).await;
        assert_eq!(settings.variable("SOME_KEY").unwrap().unwrap().expose_secret(), "s3cret");
        assert!(settings.variable("BLANK").unwrap().is_none());
        assert!(settings.variable("OTHER").unwrap().is_none());
    }

    #[tokio::test]
    async fn providers_and_search_keys_are_kept_where_clients_look_and_other_fields_stay() {
        let files =
            MemoryFiles::new([(STORED, r#"{"theme": "dark", "providers": [{"name": "a", "base_url": "http://a"}]}"#)]);
        let (_root, settings) = settings(&files).await;
        let put = ProviderSpec {
            name: "local".to_owned(),
            base_url: "http://localhost:1/v1".to_owned(),
            api_key_env: Some(String::new()),
            ..ProviderSpec::default()
        };
        let change = ProviderChange { put: vec![put], remove: vec!["a".to_owned()], active: Some("local".to_owned()) };
        settings.save_providers(change).await.unwrap();
        settings.save_search_key(" EXA ", Some("k".into())).await.unwrap();
        assert_eq!(settings.search_key("exa").unwrap().unwrap().expose_secret(), "k");
        let kept: Value = serde_json::from_str(&files.read(Path::new(STORED)).unwrap()).unwrap();
        assert_eq!(kept["theme"], "dark");
        assert_eq!(kept["activeProvider"], "local");
        assert_eq!(kept["providers"][0]["name"], "local");
        assert_eq!(kept["providers"].as_array().unwrap().len(), 1);
        assert_eq!(kept["search_keys"]["exa"], "k");

        settings.save_search_key("exa", None).await.unwrap();
        assert!(settings.search_key("exa").unwrap().is_none());
        assert_eq!(settings.save_search_key("bing", None).await.unwrap_err().code(), "UNKNOWN_SETTING");
    }

    #[tokio::test]
    async fn a_file_that_is_no_json_is_left_alone_and_the_change_is_refused() {
        let files = MemoryFiles::new([(STORED, "{ not json")]);
        let (_root, settings) = settings(&files).await;
        let error = settings.save_providers(ProviderChange::default()).await.unwrap_err();
        assert_eq!(error.code(), "SETTINGS_NOT_KEPT");
        assert!(error.to_string().contains(STORED), "{error}");
        assert_eq!(files.read(Path::new(STORED)).unwrap(), "{ not json");
    }
}
