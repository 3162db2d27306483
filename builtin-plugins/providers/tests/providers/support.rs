//! A harness with providers, a network that answers from a table, and settings that are kept in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::StreamExt as _;
use linn_bus::{BoxFuture, Context, Demand, Fault, Mounted, NeedList, Plugin, Root, ServiceError, Svc, provider};
use linn_plugin_providers::{Fetch, FetchError, Fetched, Get, ProvidersConfig, ProvidersPlugin};
use linn_services::llm::wire::Endpoint;
use linn_services::llm::{ChunkStream, Llm, LlmError, LlmPlugin, Wire};
use linn_services::model::{FinishReason, GenerateRequest, LlmCallConfig, StreamChunk};
use linn_services::providers::{ModelInfo, ProviderSpec, Providers};
use linn_services::settings::{ProviderChange, ProviderMemory, Settings, SettingsError};
use linn_services_test::Gate;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// How an address answers.
#[derive(Clone)]
pub(crate) enum Answer {
    Json(u16, Value),
    Text(String),
    Silent,
    Held(Gate, Value),
}

/// A network that answers from a table; addresses that are not in it refuse connections. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Net(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    answers: BTreeMap<String, Answer>,
    asked: Vec<Get>,
}

impl Net {
    pub(crate) fn new<const N: usize>(answers: [(&str, Value); N]) -> Self {
        let net = Self::default();
        for (url, answer) in answers {
            net.put(url, Answer::Json(200, answer));
        }
        net
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap()
    }

    pub(crate) fn put(&self, url: &str, answer: Answer) {
        self.table().answers.insert(url.to_owned(), answer);
    }

    pub(crate) fn take(&self, url: &str) {
        self.table().answers.remove(url);
    }

    /// The addresses asked since the last call of this, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.table().asked).into_iter().map(|it| it.url).collect()
    }

    /// The headers of the last request.
    pub(crate) fn headers(&self) -> Vec<String> {
        let table = self.table();
        let headers = &table.asked.last().unwrap().headers;
        headers.iter().map(|(name, value)| format!("{name}: {}", value.expose_secret())).collect()
    }
}

impl Fetch for Net {
    fn get(&self, request: Get) -> BoxFuture<'static, Result<Fetched, FetchError>> {
        let answer = self.table().answers.get(&request.url).cloned();
        self.table().asked.push(request);
        Box::pin(async move {
            let json = |status, body: &Value| {
                Ok(Fetched { status, reason: String::new(), body: serde_json::to_vec(body).unwrap() })
            };
            match answer {
                None => Err(FetchError::Connection("refused".to_owned())),
                Some(Answer::Silent) => std::future::pending().await,
                Some(Answer::Json(status, body)) => json(status, &body),
                Some(Answer::Text(body)) => Ok(Fetched { status: 200, reason: String::new(), body: body.into() }),
                Some(Answer::Held(gate, body)) => {
                    gate.pass().await;
                    json(200, &body)
                }
            }
        })
    }
}

/// Settings in memory. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<KeptState>>);

#[derive(Default)]
struct KeptState {
    variables: BTreeMap<String, String>,
    changes: Vec<ProviderChange>,
    failure: Option<String>,
    memory: ProviderMemory,
}

impl Kept {
    pub(crate) fn variable(self, name: &str, value: &str) -> Self {
        self.0.lock().unwrap().variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn fail(&self, why: &str) {
        self.0.lock().unwrap().failure = Some(why.to_owned());
    }

    /// The last change that was kept: what was put, what was taken away, and who is active.
    pub(crate) fn last(&self) -> (Vec<String>, Vec<String>, Option<String>) {
        let state = self.0.lock().unwrap();
        let change = state.changes.last().unwrap();
        let put = |it: &ProviderSpec| {
            let key = it.key().map(|key| key.expose_secret().to_owned());
            format!("{} {} {}", it.name, it.kind, key.unwrap_or_default())
        };
        (change.put.iter().map(put).collect(), change.remove.clone(), change.active.clone())
    }
}

#[provider]
impl Settings for Kept {
    fn get(&self, _: &str) -> Result<Option<Value>, ServiceError> {
        Ok(None)
    }
    fn set(&self, name: &str, _: &Value) -> Result<Value, SettingsError> {
        Err(SettingsError::Unknown { name: name.to_owned(), nearest: None })
    }
    fn variable(&self, name: &str) -> Result<Option<SecretString>, ServiceError> {
        Ok(self.0.lock().unwrap().variables.get(name).map(|it| it.as_str().into()))
    }
    async fn save_providers(&self, change: ProviderChange) -> Result<(), SettingsError> {
        let mut state = self.0.lock().unwrap();
        state.changes.push(change);
        state.failure.clone().map_or(Ok(()), |why| Err(SettingsError::Store(why)))
    }
    fn provider_memory(&self) -> Result<ProviderMemory, ServiceError> {
        Ok(self.0.lock().unwrap().memory.clone())
    }
    fn remember_providers(&self, memory: ProviderMemory) -> Result<(), ServiceError> {
        self.0.lock().unwrap().memory = memory;
        Ok(())
    }
    fn search_key(&self, _: &str) -> Result<Option<SecretString>, ServiceError> {
        Ok(None)
    }
    async fn save_search_key(&self, service: &str, _: Option<SecretString>) -> Result<(), SettingsError> {
        Err(SettingsError::Unknown { name: service.to_owned(), nearest: None })
    }
}

pub(crate) struct KeptPlugin;

impl Plugin for KeptPlugin {
    const NAME: &'static str = "kept";
    type Config = Kept;
    type Needs = ();
    fn provides(list: &mut NeedList) {
        list.add::<dyn Settings>(Demand::Required);
    }
    async fn start(ctx: &Context, kept: Kept, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Settings>(Arc::new(kept))?;
        Ok(())
    }
}

/// A wire that answers with nothing and keeps where it was asked. Clones are the same.
#[derive(Clone)]
pub(crate) struct Asked {
    kind: &'static str,
    endpoints: Arc<Mutex<Vec<Arc<Endpoint>>>>,
}

impl Asked {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, endpoints: Arc::default() }
    }

    /// The last endpoint, in short: name, prefix and id of the model, and the key.
    pub(crate) fn last(&self) -> String {
        let endpoints = self.endpoints.lock().unwrap();
        let it = endpoints.last().unwrap();
        let key = it.key().map_or("no key", |it| it.expose_secret());
        format!("{} {}{} {key}", it.name, it.prefix, it.models[0].id)
    }

    pub(crate) fn endpoint(&self) -> Arc<Endpoint> {
        self.endpoints.lock().unwrap().last().unwrap().clone()
    }
}

impl Wire for Asked {
    fn kind(&self) -> &str {
        self.kind
    }
    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        _: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        self.endpoints.lock().unwrap().push(endpoint);
        let finish = StreamChunk::Finish { reason: FinishReason::Stop };
        Box::pin(async move { Ok(ChunkStream::new(futures_util::stream::iter([Ok(finish)]))) })
    }
}

/// Providers that run.
pub(crate) struct Harness {
    pub(crate) llm: Svc<dyn Llm>,
    pub(crate) providers: Svc<dyn Providers>,
    pub(crate) mounted: Mounted<ProvidersPlugin>,
}

/// Mounts the registry of models, settings, and the providers.
pub(crate) async fn harness(root: &Root, config: ProvidersConfig, kept: &Kept) -> Harness {
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<KeptPlugin>(kept.clone()).unwrap().running().await.unwrap();
    let mounted = root.mount::<ProvidersPlugin>(config).unwrap();
    mounted.running().await.unwrap();
    Harness { llm: root.get().unwrap(), providers: root.get().unwrap(), mounted }
}

impl Harness {
    /// Mounts the providers anew.
    pub(crate) async fn update(&mut self, root: &Root, config: ProvidersConfig) {
        self.mounted.update(config).await.unwrap();
        self.mounted.running().await.unwrap();
        self.providers = root.get().unwrap();
    }

    /// Asks a model; what went wrong, as its code and words.
    pub(crate) async fn ask(&self, model: &str) -> Result<(), String> {
        let request = GenerateRequest { config: LlmCallConfig::of_model(model), ..GenerateRequest::default() };
        let stream = self.llm.stream(Arc::new(request), None).await;
        let mut stream = stream.map_err(|it| format!("{}: {}", it.code.unwrap_or_default(), it.message))?;
        while stream.next().await.is_some() {}
        Ok(())
    }

    /// The models there are, as `<provider>:<id>`.
    pub(crate) async fn models(&self) -> Vec<String> {
        self.providers.settled().await.unwrap();
        self.providers.models().unwrap().iter().map(ModelInfo::qualified).collect()
    }
}

/// A config that asks the table alone.
pub(crate) fn config(net: &Net, providers: Vec<ProviderSpec>) -> ProvidersConfig {
    ProvidersConfig {
        providers,
        catalogue_url: String::new(),
        fetch: Some(Arc::new(net.clone())),
        ..ProvidersConfig::default()
    }
}

/// A provider with a key, at `https://<name>.example`.
pub(crate) fn spec(name: &str) -> ProviderSpec {
    ProviderSpec {
        name: name.to_owned(),
        base_url: format!("https://{name}.example"),
        api_key: Some(format!("key-{name}").into()),
        ..ProviderSpec::default()
    }
}

/// A list of models in the manner of `models`.
pub(crate) fn listed(ids: &[&str]) -> Value {
    json!({ "data": ids.iter().map(|id| json!({ "id": id, "max_tokens": 10 })).collect::<Vec<_>>() })
}
