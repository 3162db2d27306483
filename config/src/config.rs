//! The merged configuration: for each key the value that won, and all that it won against.

use std::fmt;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value as Json;

use crate::check::{Form, check, shown};
use crate::gather::{Candidate, Gathered, absolute, base_folder};
use crate::key::{Declaration, Key, Kind};
use crate::keys;
use crate::node::{NOT_SHOWN, Node};
use crate::origin::{Layer, Origin, Place};
use crate::paths;
use crate::problem::{Problem, nearest};
use crate::provider::{Provider, ProviderKind};
use crate::sources::Sources;
use crate::tree::{BuiltIn, Patch, Tree};
use crate::value::{NetworkMode, Typed, Value};

/// A configuration, read once. What commands change while the program runs is its topmost layer.
///
/// It is a plain value: whoever shares it puts a lock around it, and reads it anew when a file changed.
/// `Debug` shows what [`listing`](Self::listing) does.
#[derive(Clone)]
pub struct Config {
    sources: Sources,
    /// For each key in the order of [`keys::all`], the built-in value first and what is changed at run time last.
    candidates: Vec<Vec<Candidate>>,
    /// For each key what came out.
    merged: Vec<Value>,
    runtime: Runtime,
    tree: Tree,
    problems: Vec<Problem>,
}

/// What commands changed.
#[derive(Clone, Default)]
struct Runtime {
    /// By index of the key.
    values: IndexMap<usize, Candidate>,
    keys: IndexMap<String, SecretString>,
    providers: IndexMap<String, Provider>,
    removed_providers: Vec<String>,
}

/// A key of the [`listing`](Config::listing).
#[derive(Debug, Clone)]
pub struct Listed {
    /// The key.
    pub key: &'static Declaration,
    /// Its value as text, as it is written: secrets and variables are not filled in.
    pub shown: String,
    /// Who set it.
    pub origin: Origin,
    /// What was set by layers, or by parts of a layer, that lost; the nearest first.
    pub shadowed: Vec<(Origin, String)>,
}

/// What there is of a key for a provider.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ProviderKey {
    /// A key.
    Key(SecretString),
    /// The provider is declared to need none.
    Keyless,
    /// There is none; a plugin may still have a token.
    Missing,
}

impl Config {
    /// Reads all layers. Nothing that is wrong with them stops it: see [`problems`](Self::problems).
    ///
    /// It reads files, so call it from a thread that may wait.
    pub fn load(sources: Sources, built_in: &[BuiltIn]) -> Self {
        Self::merge(sources, built_in, Runtime::default())
    }

    /// Reads all layers anew, from `sources`, and keeps what commands changed.
    #[must_use]
    pub fn reloaded(&self, sources: Sources, built_in: &[BuiltIn]) -> Self {
        Self::merge(sources, built_in, self.runtime.clone())
    }

    fn merge(sources: Sources, built_in: &[BuiltIn], runtime: Runtime) -> Self {
        let gathered = Gathered::read(&sources);
        let mut problems = gathered.problems;
        let patches = built_in.iter().map(Patch::from).chain(gathered.patches);
        let (tree, faults) = Tree::merge(patches);
        problems.extend(faults);
        let mut config = Self { sources, candidates: gathered.candidates, merged: Vec::new(), runtime, tree, problems };
        config.add_initial_values();
        config.order_thresholds();
        config.candidates.iter_mut().zip(0..).for_each(|(candidates, at)| {
            candidates.extend(config.runtime.values.get(&at).cloned());
        });
        config.merged = config.candidates.iter().map(|it| merged(it)).collect();
        config.finish_merged();
        if let Some(problem) = config.unknown_active_provider() {
            config.problems.push(problem);
        }
        config
    }

    fn add_initial_values(&mut self) {
        // The workspace is the one path that others may begin in, and begins in none of them.
        let workspace = match self.candidates[index(&keys::WORKSPACE.declaration)].last() {
            Some(Candidate { value: Value::Path(path), .. }) => path.clone(),
            _ => self.sources.folder.components().collect(),
        };
        for (key, candidates) in keys::all().iter().zip(&mut self.candidates) {
            let value = match (key.initial_value(), key.kind) {
                (Value::Path(path), Kind::Path { base }) => {
                    Value::Path(absolute(&self.sources, base_folder(&self.sources, &workspace, base), &path))
                }
                (value, _) => value,
            };
            let shown = match &value {
                Value::Absent => "not set".to_owned(),
                value => value.to_json().to_string(),
            };
            candidates.insert(0, Candidate { origin: Origin::built_in(), value, shown });
        }
    }

    /// Leaves out thresholds for shortening that are not below the one for summarising.
    fn order_thresholds(&mut self) {
        let number = |it: &Candidate| match it.value {
            Value::Number(it) => it,
            _ => 0.0,
        };
        let (compact, digest) = (&keys::CONTEXT_COMPACT_AT.declaration, &keys::CONTEXT_DIGEST_AT.declaration);
        let limit = self.candidates[index(compact)].last().map_or(0.0, number);
        let candidates = &mut self.candidates[index(digest)];
        while let Some(last) = candidates.last().filter(|it| number(it) >= limit) {
            if last.origin.layer == Layer::BuiltIn {
                // Nobody asked for this one, so it steps aside without a word.
                break;
            }
            self.problems.push(Problem::Conflict {
                place: last.origin.place.clone(),
                key: digest.name,
                value: last.shown.clone(),
                other: compact.name,
                limit: limit.to_string(),
            });
            candidates.pop();
        }
    }

    /// What the merged value of one key owes to others.
    fn finish_merged(&mut self) {
        let digest = index(&keys::CONTEXT_DIGEST_AT.declaration);
        self.merged[digest] = merged(&self.candidates[digest]);
        if self.get(&keys::CONTEXT_DIGEST_AT) >= self.get(&keys::CONTEXT_COMPACT_AT) {
            // There would be nothing left to shorten by then.
            self.merged[digest] = Value::Number(0.0);
        }
        self.merge_runtime_providers();
    }

    fn merge_runtime_providers(&mut self) {
        let runtime = &self.runtime;
        if let Value::Secrets(keys) = &mut self.merged[index(&keys::PROVIDER_KEYS.declaration)] {
            keys.extend(runtime.keys.clone());
        }
        if let Value::Providers(providers) = &mut self.merged[index(&keys::PROVIDERS.declaration)] {
            providers.retain(|it| !runtime.removed_providers.contains(&it.name));
            runtime.providers.values().for_each(|it| put_provider(providers, it));
        }
    }

    /// The value of a key.
    pub fn get<T: Typed>(&self, key: &Key<T>) -> T {
        let value = &self.merged[index(&key.declaration)];
        T::from_value(value).expect("a value has the type of its key, for it was checked against the declaration")
    }

    /// The value of the key of this name as JSON, for clients; secrets are `null`.
    pub fn get_json(&self, name: &str) -> Option<Json> {
        keys::index_of(name).map(|at| self.merged[at].to_json())
    }

    /// Who set a key.
    pub fn origin(&self, key: &Declaration) -> &Origin {
        &self.winner(index(key)).origin
    }

    /// All keys with who set them.
    pub fn listing(&self) -> Vec<Listed> {
        let listed = |(at, key): (usize, &&'static Declaration)| {
            let winner = self.winner(at);
            let lost = self.candidates[at].iter().rev().skip(1);
            Listed {
                key,
                shown: self.shown(at).unwrap_or_else(|| winner.shown.clone()),
                origin: winner.origin.clone(),
                shadowed: lost.map(|it| (it.origin.clone(), it.shown.clone())).collect(),
            }
        };
        keys::all().iter().enumerate().map(listed).collect()
    }

    /// What is shown of a value that is made of several.
    fn shown(&self, at: usize) -> Option<String> {
        match &self.merged[at] {
            Value::Providers(providers) => Some(Value::Providers(providers.clone()).to_json().to_string()),
            Value::Secrets(secrets) => {
                let names: Vec<String> = secrets.keys().map(|name| format!("{name} = {NOT_SHOWN}")).collect();
                Some(format!("{{{}}}", names.join(", ")))
            }
            _ => None,
        }
    }

    fn winner(&self, at: usize) -> &Candidate {
        self.candidates[at].last().expect("each key has its built-in value")
    }

    /// What is wrong, in the order it was found. All else is in force.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The merged plugin tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What the configuration was read from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What a sandbox reaches on the network, `sandbox.no_network` taken into account.
    pub fn network_mode(&self) -> NetworkMode {
        if self.get(&keys::SANDBOX_NO_NETWORK) { NetworkMode::None } else { self.get(&keys::SANDBOX_NETWORK_MODE) }
    }

    /// The file that the traffic with models is logged to, if it is to be.
    pub fn debug_log(&self) -> Option<PathBuf> {
        let in_home = || Some(paths::client_folder(self.sources.home.as_ref()?).join("debug.jsonl"));
        let is_enabled = self.get(&keys::DEBUG_ENABLED);
        self.get(&keys::DEBUG_LOG).or_else(|| in_home().filter(|_| is_enabled))
    }

    /// The folder the work is in.
    pub fn workspace(&self) -> &Path {
        match &self.merged[index(&keys::WORKSPACE.declaration)] {
            Value::Path(path) => path,
            _ => &self.sources.folder,
        }
    }

    /// The provider that is asked first. With none configured it is `default`, made of `base_url` and `api_key`.
    pub fn active_provider(&self) -> Provider {
        let name = self.get(&keys::PROVIDER);
        let providers = self.get(&keys::PROVIDERS);
        let named = providers.iter().find(|it| Some(&it.name) == name.as_ref());
        if let Some(provider) = named.or(providers.first()) {
            return provider.clone();
        }
        Provider {
            api_key: self.get(&keys::API_KEY),
            origin: self.origin(&keys::BASE_URL.declaration).clone(),
            ..Provider::new(DEFAULT_PROVIDER, self.get(&keys::BASE_URL), ProviderKind::OpenAi)
        }
    }

    fn unknown_active_provider(&self) -> Option<Problem> {
        let name = self.get(&keys::PROVIDER)?;
        let origin = self.origin(&keys::PROVIDER.declaration);
        let problem = self.unknown_provider(&name, origin);
        // Before the first login clients name the provider that they would like.
        problem.filter(|_| !self.get(&keys::PROVIDERS).is_empty())
    }

    fn unknown_provider(&self, name: &str, origin: &Origin) -> Option<Problem> {
        let known: Vec<String> = self.get(&keys::PROVIDERS).into_iter().map(|it| it.name).collect();
        if known.iter().any(|it| it == name) {
            return None;
        }
        let similar = nearest(name, known.iter().map(String::as_str));
        Some(Problem::UnknownProvider { origin: origin.clone(), name: name.to_owned(), known, similar })
    }

    /// The key for requests to `provider`: one set by a command or in `provider_keys`, else its own, else its variable.
    pub fn provider_key(&self, provider: &Provider) -> ProviderKey {
        let filled = |it: &SecretString| !it.expose_secret().trim().is_empty();
        let keys = self.get(&keys::PROVIDER_KEYS);
        let literal = [keys.get(&provider.name), provider.api_key.as_ref()].into_iter().flatten().find(|it| filled(it));
        if let Some(key) = literal {
            return ProviderKey::Key(key.clone());
        }
        match provider.api_key_env.as_deref() {
            Some("") => ProviderKey::Keyless,
            Some(variable) => match self.sources.variables.get(variable).filter(|it| !it.trim().is_empty()) {
                Some(key) => ProviderKey::Key(SecretString::from(key)),
                None => ProviderKey::Missing,
            },
            None => ProviderKey::Missing,
        }
    }

    /// Whether requests to `provider` can be made without a plugin's token: it has a key, needs none, or is on this
    /// machine and names no variable.
    pub fn is_logged_in(&self, provider: &Provider) -> bool {
        match self.provider_key(provider) {
            ProviderKey::Key(_) | ProviderKey::Keyless => true,
            ProviderKey::Missing => provider.is_loopback() && provider.api_key_env.is_none(),
        }
    }

    /// Sets a key until the program ends, on behalf of a command such as `set_approval`, and gives the value it has
    /// now.
    /// Values may be written as existing clients write them: a number out of range is moved into it, and `null` and
    /// blank
    /// text unset a key that may be absent.
    ///
    /// # Errors
    ///
    /// If there is no such key, or the value is none of its; then nothing changes.
    pub fn set(&mut self, name: &str, value: &Json, command: &str) -> Result<Json, Problem> {
        let place = Place::Command(command.into());
        match keys::index_of(name) {
            Some(at) => self.set_at(at, value, place),
            None => {
                let similar = nearest(name, keys::all().iter().map(|it| it.name));
                Err(Problem::UnknownKey { place, key: name.to_owned(), similar })
            }
        }
    }

    /// As [`set`](Self::set), by a name that the command `set_config` has: `bash_timeout_secs`, `advisor.model`, ...
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
    pub fn set_by_client_name(&mut self, name: &str, value: &Json) -> Result<Json, Problem> {
        let place = Place::Command("set_config".into());
        match keys::all().iter().position(|it| it.client.command == Some(name)) {
            Some(at) => self.set_at(at, value, place),
            None => {
                let similar = nearest(name, keys::all().iter().filter_map(|it| it.client.command));
                Err(Problem::UnknownKey { place, key: name.to_owned(), similar })
            }
        }
    }

    fn set_at(&mut self, at: usize, value: &Json, place: Place) -> Result<Json, Problem> {
        let key = keys::all()[at];
        let origin = Origin::new(Layer::Runtime, place);
        let node = Node::from_json(value, &origin.place);
        let is_blank = value.is_null() || value.as_str().is_some_and(|it| it.trim().is_empty());
        let (value, shown) = if is_blank && matches!(key.initial_value(), Value::Absent) {
            (Value::Absent, "not set".to_owned())
        } else {
            let checked = check(key, &node, &origin, Form::Client);
            match (checked.value, checked.problems.into_iter().next()) {
                (Some(value), _) => (value, shown(key, &node)),
                (None, Some(problem)) => return Err(problem),
                (None, None) => return Ok(self.merged[at].to_json()),
            }
        };
        let value = match (value, key.kind) {
            (Value::Path(path), Kind::Path { base }) => {
                Value::Path(absolute(&self.sources, base_folder(&self.sources, self.workspace(), base), &path))
            }
            (value, _) => value,
        };
        if key.name == keys::PROVIDER.declaration.name
            && let Value::Text(name) = &value
            && let Some(problem) = self.unknown_provider(name, &origin)
        {
            return Err(problem);
        }
        let candidate = Candidate { origin, value, shown };
        self.candidates[at].retain(|it| it.origin.layer != Layer::Runtime);
        self.candidates[at].push(candidate.clone());
        self.runtime.values.insert(at, candidate);
        self.merged[at] = merged(&self.candidates[at]);
        self.finish_merged();
        Ok(self.merged[at].to_json())
    }

    /// Sets the key of a provider until the program ends. Blank, it goes back to what the files say.
    pub fn set_provider_key(&mut self, provider: &str, key: SecretString) {
        let at = index(&keys::PROVIDER_KEYS.declaration);
        self.runtime.keys.shift_remove(provider);
        if !key.expose_secret().trim().is_empty() {
            self.runtime.keys.insert(provider.to_owned(), key);
        }
        self.merged[at] = merged(&self.candidates[at]);
        self.merge_runtime_providers();
    }

    /// Adds a provider until the program ends, or puts it in the place of the one of its name.
    pub fn put_provider(&mut self, provider: Provider) {
        self.runtime.removed_providers.retain(|it| *it != provider.name);
        let origin = Origin::new(Layer::Runtime, Place::Command("provider".into()));
        self.runtime.providers.insert(provider.name.clone(), Provider { origin, ..provider });
        self.merge_runtime_providers();
    }

    /// Takes a provider and its key away until the program ends; whether it was there.
    pub fn remove_provider(&mut self, name: &str) -> bool {
        let was_there = self.get(&keys::PROVIDERS).iter().any(|it| it.name == name);
        self.runtime.providers.shift_remove(name);
        if !self.runtime.removed_providers.iter().any(|it| it == name) {
            self.runtime.removed_providers.push(name.to_owned());
        }
        self.merge_runtime_providers();
        self.set_provider_key(name, SecretString::from(""));
        was_there
    }

    /// Who overrules what `layer` would say of a key from the next start on. Whoever writes to the file of a layer
    /// tells
    /// the user.
    pub fn overruled_by(&self, key: &Declaration, layer: Layer) -> Option<&Origin> {
        let origins = self.candidates[index(key)].iter().rev().map(|it| &it.origin);
        origins.into_iter().find(|it| it.layer > layer && it.layer != Layer::Runtime)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listing = self.listing();
        let shown = listing.iter().map(|it| (it.key.name, format!("{} from {}", it.shown, it.origin)));
        f.debug_map().entries(shown).finish()
    }
}

/// The name of the provider that stands for none.
const DEFAULT_PROVIDER: &str = "default";

fn index(key: &Declaration) -> usize {
    keys::index_of(key.name).expect("every declared key is in the list")
}

/// What comes out of the candidates of one key, lowest first.
fn merged(candidates: &[Candidate]) -> Value {
    let last = candidates.last().map_or(Value::Absent, |it| it.value.clone());
    match last {
        Value::Secrets(_) => {
            let mut secrets = IndexMap::new();
            for candidate in candidates {
                if let Value::Secrets(more) = &candidate.value {
                    secrets.extend(more.clone());
                }
            }
            Value::Secrets(secrets)
        }
        Value::Providers(_) => {
            let mut providers: Vec<Provider> = Vec::new();
            for candidate in candidates {
                let Value::Providers(more) = &candidate.value else {
                    continue;
                };
                for provider in more {
                    // Among the files of existing clients the first of a name is the one.
                    let is_later =
                        candidate.origin.layer == Layer::Client && providers.iter().any(|it| it.name == provider.name);
                    if !is_later {
                        put_provider(&mut providers, provider);
                    }
                }
            }
            Value::Providers(providers)
        }
        other => other,
    }
}

/// Puts a provider in the place of the one of its name, or at the end.
fn put_provider(providers: &mut Vec<Provider>, provider: &Provider) {
    match providers.iter_mut().find(|it| it.name == provider.name) {
        Some(it) => *it = provider.clone(),
        None => providers.push(provider.clone()),
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}  # {}", self.key.name, self.shown, self.origin)
    }
}
