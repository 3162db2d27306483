//! What is known of providers: how they are configured, their keys, and their models. Nothing here waits or asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use linn_bus::Fault;
use linn_services::providers::{ModelInfo, ProviderInfo, ProviderPreset, ProviderSpec};
use linn_services::settings::ProviderMemory;
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::ProvidersConfig;
use crate::endpoint::{canonical, is_web, needs_key};
use crate::presets::{OPENAI, PRESETS};

/// The name of what stands in while no provider is configured.
pub(crate) const DEFAULT: &str = "default";

/// Reads a variable of the environment.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<SecretString>;

/// A provider and how often it was changed: what was asked of an earlier state of it counts no more.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) spec: Arc<ProviderSpec>,
    pub(crate) epoch: u64,
}

/// Everything that is known. A copy is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    entries: Vec<Entry>,
    default: Entry,
    /// Keys that win over those of the providers.
    keys: BTreeMap<String, SecretString>,
    active: Option<String>,
    models: BTreeMap<String, Arc<[ModelInfo]>>,
    epoch: u64,
    /// The provider and the model that were asked last.
    pub(crate) last_asked: Option<(String, String)>,
}

/// Whom to ask for a model, and by which name the provider knows it.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) entry: Entry,
    /// What stands before the name in Linn alone.
    pub(crate) prefix: String,
    pub(crate) model: String,
    /// What is known of the model.
    pub(crate) info: Option<ModelInfo>,
}

impl Book {
    /// What a config says, with what is wrong with it in words.
    pub(crate) fn new(config: &ProvidersConfig) -> (Self, Vec<String>) {
        let mut complaints = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        for spec in &config.providers {
            let spec = canonical(spec.clone());
            if spec.name.is_empty() || !is_web(&spec.base_url) {
                let name = &spec.name;
                complaints.push(format!("provider `{name}` is left out: it needs a name, and a `base_url` of the web"));
            } else if entries.iter().any(|it| it.spec.name == spec.name) {
                complaints.push(format!("provider `{}` is configured twice; the first one counts", spec.name));
            } else {
                entries.push(Entry { spec: Arc::new(spec), epoch: 0 });
            }
        }
        let default = canonical(ProviderSpec {
            name: DEFAULT.to_owned(),
            base_url: config.default.base_url.clone(),
            kind: OPENAI.to_owned(),
            api_key: config.default.api_key.clone(),
            ..ProviderSpec::default()
        });
        let active = config.active.clone().filter(|it| !it.is_empty());
        let book = Self {
            entries,
            default: Entry { spec: Arc::new(default), epoch: 0 },
            keys: config.provider_keys.iter().map(|(name, key)| (name.clone(), key.clone())).collect(),
            active: active.clone(),
            models: BTreeMap::new(),
            epoch: 0,
            last_asked: None,
        };
        if let Some(name) = active.filter(|it| book.entry(it).is_none()) {
            let (known, used) = (book.names().join(", "), &book.active().spec.name);
            complaints
                .push(format!("there is no provider `{name}` to be active; there are: {known}; `{used}` is used"));
        }
        (book, complaints)
    }

    /// Whether a config can be used at all.
    pub(crate) fn check(config: &ProvidersConfig) -> Result<(), Fault> {
        if !is_web(config.default.base_url.trim()) {
            let why = "`default.base_url` has to begin with `https://` or `http://` and to name a host";
            return Err(Fault::msg(why).with_code("PROVIDERS_CONFIG"));
        }
        let url = &config.catalogue_url;
        if !url.is_empty() && !is_web(url) {
            let why = "`catalogue_url` has to begin with `https://` or `http://`, or to be empty";
            return Err(Fault::msg(why).with_code("PROVIDERS_CONFIG"));
        }
        Ok(())
    }

    /// The providers in order; `default` while none is configured.
    pub(crate) fn entries(&self) -> &[Entry] {
        if self.entries.is_empty() { std::slice::from_ref(&self.default) } else { &self.entries }
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries().iter().find(|it| it.spec.name == name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.entries().iter().map(|it| it.spec.name.clone()).collect()
    }

    pub(crate) fn is_configured(&self, name: &str) -> bool {
        self.entries.iter().any(|it| it.spec.name == name)
    }

    pub(crate) fn active(&self) -> &Entry {
        let named = self.active.as_ref().and_then(|name| self.entry(name));
        named.unwrap_or_else(|| &self.entries()[0])
    }

    /// The key of a provider: set while the program runs, else written down, else of its variable.
    pub(crate) fn key(&self, spec: &ProviderSpec, variables: Variables<'_>) -> Option<SecretString> {
        let written = self.written_key(spec).cloned();
        let variable = || spec.api_key_env.as_deref().filter(|it| !it.is_empty()).and_then(variables);
        written.or_else(variable).filter(|it| !it.expose_secret().is_empty())
    }

    fn written_key<'a>(&'a self, spec: &'a ProviderSpec) -> Option<&'a SecretString> {
        let is_there = |it: &&SecretString| !it.expose_secret().is_empty();
        self.keys.get(&spec.name).filter(is_there).or_else(|| spec.key())
    }

    /// A provider as others see it; `has_login` says whether a login in a browser stands for a key.
    pub(crate) fn info(&self, spec: &ProviderSpec, variables: Variables<'_>, has_login: bool) -> ProviderInfo {
        let has_key = has_login || self.key(spec, variables).is_some();
        ProviderInfo {
            name: spec.name.clone(),
            kind: spec.kind.clone(),
            base_url: spec.base_url.clone(),
            has_key,
            is_logged_in: has_key || !needs_key(spec),
        }
    }

    /// The providers whose models are looked for: those that can be asked, or the active one if none can.
    pub(crate) fn askable(&self, can_be_asked: impl Fn(&ProviderSpec) -> bool) -> Vec<Entry> {
        let entries: Vec<Entry> = self.entries().iter().filter(|it| can_be_asked(&it.spec)).cloned().collect();
        if entries.is_empty() { vec![self.active().clone()] } else { entries }
    }

    pub(crate) fn presets(&self) -> Vec<ProviderPreset> {
        let of = |preset: &crate::presets::Preset| {
            let configured = self.entries.iter().find(|it| it.spec.name == preset.id);
            let has_key = configured
                .is_some_and(|it| self.written_key(&it.spec).is_some() || it.spec.api_key_env.as_deref() == Some(""));
            ProviderPreset {
                id: preset.id.to_owned(),
                label: preset.label.to_owned(),
                kind: OPENAI.to_owned(),
                base_url: preset.base_url.to_owned(),
                env_var: Some(preset.env.to_owned()),
                alt_envs: Vec::new(),
                description: preset.description.to_owned(),
                has_key,
                configured: configured.is_some(),
                logged_in: has_key,
                supports_oauth: false,
            }
        };
        PRESETS.iter().map(of).collect()
    }

    /// All models, by provider in order.
    pub(crate) fn models(&self) -> Vec<ModelInfo> {
        self.entries().iter().flat_map(|it| self.models_of(&it.spec.name)).cloned().collect()
    }

    pub(crate) fn models_of(&self, provider: &str) -> &[ModelInfo] {
        self.models.get(provider).map_or(&[], |it| it)
    }

    /// Takes in what was found for a provider as it was; whether that changes anything.
    pub(crate) fn found(&mut self, asked: &Entry, models: Vec<ModelInfo>) -> bool {
        let name = &asked.spec.name;
        let is_current = self.entry(name).is_some_and(|it| it.epoch == asked.epoch);
        if !is_current || *self.models_of(name) == *models {
            return false;
        }
        self.models.insert(name.clone(), models.into());
        true
    }

    /// Whom to ask for a model that is named by its id or by `<provider>:<id>`; `provider` says whose it shall be.
    pub(crate) fn route(&self, asked: &str, provider: Option<&str>) -> Route {
        // An id may have a colon as well, and one that is known as it is means itself.
        let is_known = self.owners(asked).next().is_some();
        let qualified = self.entries().iter().find_map(|it| {
            let id = asked.strip_prefix(&*it.spec.name)?.strip_prefix(':').filter(|id| !id.is_empty())?;
            (!is_known || self.owns(&it.spec.name, id)).then_some((it, id))
        });
        if let Some((entry, id)) = qualified {
            return self.route_to(entry, format!("{}:", entry.spec.name), id);
        }
        let named = provider.and_then(|it| self.entry(it)).filter(|it| self.owns(&it.spec.name, asked));
        let mut owners = self.owners(asked);
        let only = match (owners.next(), owners.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        };
        self.route_to(named.or(only).unwrap_or_else(|| self.active()), String::new(), asked)
    }

    fn route_to(&self, entry: &Entry, prefix: String, model: &str) -> Route {
        let name = &entry.spec.name;
        let own = self.models_of(name).iter().find(|it| it.id == model).cloned();
        // Where only others are known to have it, what they say of it is the best there is.
        let others = || self.models().into_iter().find(|it| it.id == model);
        let info = own.or_else(others).map(|it| ModelInfo { provider: name.clone(), ..it });
        Route { entry: entry.clone(), prefix, model: model.to_owned(), info }
    }

    fn owners(&self, model: &str) -> impl Iterator<Item = &Entry> {
        self.entries().iter().filter(move |it| self.owns(&it.spec.name, model))
    }

    fn owns(&self, provider: &str, model: &str) -> bool {
        self.models_of(provider).iter().any(|it| it.id == model)
    }

    fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Sets a key until the program ends.
    pub(crate) fn set_key(&mut self, provider: &str, key: SecretString) {
        self.keys.insert(provider.to_owned(), key);
        let epoch = self.next_epoch();
        let entries = self.entries.iter_mut().chain([&mut self.default]);
        for entry in entries.filter(|it| it.spec.name == provider) {
            entry.epoch = epoch;
        }
    }

    pub(crate) fn set_active(&mut self, name: &str) {
        self.active = Some(name.to_owned());
    }

    /// Adds a provider, or puts it in the place of the one of its name, with its own key or none; whether one was there.
    pub(crate) fn put(&mut self, spec: ProviderSpec) -> bool {
        self.keys.remove(&spec.name);
        self.models.remove(&spec.name);
        let entry = Entry { spec: Arc::new(spec), epoch: self.next_epoch() };
        match self.entries.iter_mut().find(|it| it.spec.name == entry.spec.name) {
            Some(old) => {
                *old = entry;
                true
            }
            None => {
                self.entries.push(entry);
                false
            }
        }
    }

    /// Does again what front ends changed before.
    pub(crate) fn recall(&mut self, memory: &ProviderMemory) {
        for name in &memory.removed {
            if self.is_configured(name) || name == DEFAULT {
                self.remove(name);
            }
        }
        for spec in &memory.put {
            self.put(canonical(spec.clone()));
        }
        for (name, key) in &memory.keys {
            self.set_key(name, key.clone());
        }
        if let Some(active) = memory.active.as_ref().filter(|it| self.entry(it).is_some()) {
            self.set_active(active);
        }
    }

    /// Takes a provider and its key away; the first that is left becomes the active one.
    pub(crate) fn remove(&mut self, name: &str) {
        self.keys.remove(name);
        self.models.remove(name);
        self.entries.retain(|it| it.spec.name != name);
        if name == DEFAULT {
            let spec = ProviderSpec { api_key: None, ..(*self.default.spec).clone() };
            self.default = Entry { spec: Arc::new(spec), epoch: self.next_epoch() };
        }
        self.active = self.entries.first().map(|it| it.spec.name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_VARIABLES: Variables<'static> = &|_| None;

    fn spec(name: &str) -> ProviderSpec {
        ProviderSpec { name: name.to_owned(), base_url: format!("https://{name}.example"), ..ProviderSpec::default() }
    }

    fn model(id: &str) -> ModelInfo {
        ModelInfo {
            id: id.to_owned(),
            name: id.to_owned(),
            reasoning: false,
            context_window: 1000,
            max_tokens: 100,
            thinking_levels: Vec::new(),
            vision: false,
            provider: "?".to_owned(),
        }
    }

    fn book(providers: &[(&str, &[&str])], active: Option<&str>) -> Book {
        let config = ProvidersConfig {
            providers: providers.iter().map(|(name, _)| spec(name)).collect(),
            active: active.map(str::to_owned),
            ..ProvidersConfig::default()
        };
        let (mut book, complaints) = Book::new(&config);
        assert_eq!(complaints, [""; 0]);
        for (name, models) in providers {
            let entry = book.entry(name).unwrap().clone();
            book.found(&entry, models.iter().map(|it| model(it)).collect());
        }
        book
    }

    #[test]
    fn wp_3_5_a_model_of_several_providers_is_routed() {
        let three = book(&[("a", &["m", "only-a"]), ("b", &["m", "x"]), ("c", &["x"])], Some("c"));
        for (asked, provider, expected) in [
            ("m", Some("b"), "b/m"),
            ("only-a", None, "a/only-a"),
            // Named, but it does not own it.
            ("only-a", Some("b"), "a/only-a"),
            ("x", None, "c/x"),
            // Several own it, the active one does not.
            ("m", None, "c/m"),
            ("nobody-has-it", None, "c/nobody-has-it"),
            ("nobody-has-it", Some("a"), "c/nobody-has-it"),
            ("a:m", None, "a/m"),
            ("a:m", Some("b"), "a/m"),
            ("a:unknown", None, "a/unknown"),
            ("nobody:m", None, "c/nobody:m"),
            ("a:", None, "c/a:"),
        ] {
            let route = three.route(asked, provider);
            assert_eq!(format!("{}/{}", route.entry.spec.name, route.model), expected, "{asked} of {provider:?}");
        }
        assert!(three.route("nobody-has-it", None).info.is_none());
        assert_eq!(three.route("m", None).info.unwrap().provider, "c");
    }

    #[test]
    fn an_id_with_a_colon_is_no_provider() {
        let book = book(&[("llama3", &["other"]), ("local", &["llama3:8b"])], Some("llama3"));
        let route = book.route("llama3:8b", None);
        assert_eq!((&*route.entry.spec.name, &*route.model, &*route.prefix), ("local", "llama3:8b", ""));
        let route = book.route("local:llama3:8b", None);
        assert_eq!((&*route.entry.spec.name, &*route.model, &*route.prefix), ("local", "llama3:8b", "local:"));
    }

    #[test]
    fn wp_3_5_keys_are_found_in_their_order() {
        let named = ProviderSpec { api_key: Some("written".into()), api_key_env: Some("KEY".into()), ..spec("a") };
        let variables: Variables<'_> = &|name| (name == "KEY").then(|| "of the variable".into());
        let config = ProvidersConfig {
            providers: vec![named, ProviderSpec { api_key_env: Some("KEY".into()), ..spec("b") }],
            provider_keys: [("a".to_owned(), SecretString::from("seeded"))].into(),
            ..ProvidersConfig::default()
        };
        let (mut book, _) = Book::new(&config);
        let key = |book: &Book, name: &str| {
            let spec = &book.entry(name).unwrap().spec;
            book.key(spec, variables).map(|it| it.expose_secret().to_owned())
        };
        assert_eq!(key(&book, "a").as_deref(), Some("seeded"));
        book.set_key("a", "".into());
        assert_eq!(key(&book, "a").as_deref(), Some("written"), "an empty key is none");
        book.set_key("a", "set".into());
        assert_eq!(key(&book, "a").as_deref(), Some("set"));
        assert_eq!(key(&book, "b").as_deref(), Some("of the variable"));
        assert!(book.key(&book.entry("b").unwrap().spec, NO_VARIABLES).is_none());
    }

    #[test]
    fn what_was_asked_of_an_earlier_state_does_not_count() {
        let mut book = book(&[("a", &["m"])], None);
        let before = book.entry("a").unwrap().clone();
        book.set_key("a", "k".into());
        assert!(!book.found(&before, vec![model("late")]));
        let now = book.entry("a").unwrap().clone();
        assert!(book.found(&now, vec![model("new")]));
        assert!(!book.found(&now, vec![model("new")]), "nothing changed");
        book.put(spec("a"));
        assert!(book.models().is_empty(), "the endpoint may be another one");
        assert!(!book.found(&now, vec![model("late")]));
    }

    #[test]
    fn what_is_wrong_in_a_config_is_told_and_the_rest_counts() {
        let providers = vec![spec("a"), spec("a"), spec(""), ProviderSpec { base_url: "ftp://x".into(), ..spec("b") }];
        let config = ProvidersConfig { providers, active: Some("z".into()), ..ProvidersConfig::default() };
        let (book, complaints) = Book::new(&config);
        assert_eq!((book.names(), complaints.len()), (vec!["a".to_owned()], 4));
        assert!(complaints[3].contains("there are: a; `a` is used"), "{complaints:?}");
        let config = ProvidersConfig { active: Some(DEFAULT.into()), ..ProvidersConfig::default() };
        assert!(Book::new(&config).1.is_empty());
    }

    #[test]
    fn wp_2_4_presets_say_whether_a_key_is_written_down() {
        let shown = |book: &Book| {
            let preset = book.presets().into_iter().find(|it| it.id == "deepseek").unwrap();
            (preset.configured, preset.has_key, preset.logged_in)
        };
        let (mut book, _) = Book::new(&ProvidersConfig::default());
        assert_eq!(shown(&book), (false, false, false));
        book.put(ProviderSpec { api_key_env: Some("DEEPSEEK_API_KEY".into()), ..spec("deepseek") });
        assert_eq!(shown(&book), (true, false, false), "a variable does not count");
        book.put(ProviderSpec { api_key_env: Some(String::new()), ..spec("deepseek") });
        assert_eq!(shown(&book), (true, true, true));
        book.put(ProviderSpec { api_key: Some("k".into()), ..spec("deepseek") });
        assert_eq!(shown(&book), (true, true, true));
        let ids: Vec<String> = book.presets().into_iter().map(|it| it.id).collect();
        assert_eq!(ids, ["umans", "opencode-go", "openrouter", "deepseek"]);
    }
}
