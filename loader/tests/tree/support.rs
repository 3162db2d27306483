//! Plugins that tell what becomes of them, and a loader with a config in memory.

use std::sync::{Arc, Mutex};

use linn_bus::{
    Context, Demand, Event, Fault, Fiber, FiberState, NeedList, Plugin, Root, ServiceError, Svc, TokioRuntime,
    provider, service,
};
use linn_config::{BuiltIn, Config, MemoryFiles, Sources, Tree};
use linn_loader::{Applied, Loader, LoaderSettings};
use serde_json::{Value, json};

#[derive(Event)]
#[event(name = "loader-test/told", mode = Emit)]
pub(crate) struct Told {
    what: String,
}

/// Asks everybody, who answer in order.
#[derive(Event)]
#[event(name = "loader-test/ask", mode = Emit)]
pub(crate) struct Ask {
    pub(crate) heard: Mutex<Vec<String>>,
}

#[service("loader-test.store")]
pub(crate) trait Store {
    fn get(&self) -> Result<String, ServiceError>;
}

struct Text(String);

#[provider]
impl Store for Text {
    fn get(&self) -> Result<String, ServiceError> {
        Ok(self.0.clone())
    }
}

#[service("loader-test.other")]
pub(crate) trait Other {
    fn nothing(&self) -> Result<(), ServiceError>;
}

#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProbeConfig {
    /// What it tells of itself as.
    tag: String,
    /// Whether its start fails.
    fails: bool,
    /// A part of its config.
    limits: Limits,
}

#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub(crate) struct Limits {
    seconds: u32,
}

fn tell(ctx: &Context, config: &ProbeConfig, more: &str) -> Result<(), Fault> {
    let tag = config.tag.clone();
    ctx.emit(&Told { what: format!("+{tag}{more}") });
    let (told, heard) = (ctx.clone(), config.tag.clone());
    ctx.effect("tell", |fx| {
        fx.defer(move || told.emit(&Told { what: format!("-{tag}") }));
        Ok::<(), Fault>(())
    })?;
    ctx.on(move |it: &Ask| it.heard.lock().unwrap().push(heard.clone()))?;
    Ok(())
}

struct Probe;
struct Source;
struct User;

linn_bus::plugin!(Probe, Source, User);

impl Plugin for Probe {
    const NAME: &'static str = "probe";
    type Config = ProbeConfig;
    type Needs = ();
    async fn start(ctx: &Context, config: ProbeConfig, (): ()) -> Result<(), Fault> {
        if config.fails {
            return Err(Fault::msg("asked to fail"));
        }
        tell(ctx, &config, "")
    }
}

impl Plugin for Source {
    const NAME: &'static str = "source";
    type Config = ProbeConfig;
    type Needs = ();
    fn provides(list: &mut NeedList) {
        list.add::<dyn Store>(Demand::Required);
    }
    async fn start(ctx: &Context, config: ProbeConfig, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Store>(Arc::new(Text(config.tag.clone())))?;
        tell(ctx, &config, "")
    }
}

impl Plugin for User {
    const NAME: &'static str = "user";
    type Config = ProbeConfig;
    type Needs = Svc<dyn Store>;
    async fn start(ctx: &Context, config: ProbeConfig, store: Svc<dyn Store>) -> Result<(), Fault> {
        let given: Vec<Value> = ctx.intercepts_json::<dyn Store, Value>();
        let given: String = given.iter().map(|it| format!(" {it}")).collect();
        tell(ctx, &config, &format!("({}{given})", store.get()?))
    }
}

/// A loader on a bus of its own, and what was told on it.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) loader: Loader,
    told: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(LoaderSettings::default()).await
    }

    pub(crate) async fn with(settings: LoaderSettings) -> Self {
        let root = Root::new(TokioRuntime::seams());
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        root.on(move |it: &Told| log.lock().unwrap().push(it.what.clone())).unwrap();
        let loader = Loader::start(&root, settings).await.unwrap();
        Self { root, loader, told }
    }

    /// Applies the tree of a user file.
    pub(crate) async fn apply(&self, plugins: &str) -> Applied {
        self.loader.apply(&tree(plugins)).await
    }

    /// Applies a tree that has nothing wrong.
    pub(crate) async fn apply_all(&self, plugins: &str) -> Applied {
        let applied = self.apply(plugins).await;
        assert!(applied.problems.is_empty(), "{:?}", applied.problems);
        applied
    }

    /// What was told since the last look, in order.
    pub(crate) fn told(&self) -> String {
        self.told.lock().unwrap().drain(..).collect::<Vec<_>>().join(" ")
    }

    /// Who is there, in the order of listeners.
    pub(crate) fn order(&self) -> String {
        let ask = Ask { heard: Mutex::default() };
        self.root.emit(&ask);
        ask.heard.into_inner().unwrap().join(" ")
    }

    pub(crate) async fn fiber(&self, id: &str) -> Fiber {
        self.loader.entry(id).await.unwrap()
    }

    pub(crate) async fn state(&self, id: &str) -> FiberState {
        let fiber = self.fiber(id).await;
        // One that failed has settled, too.
        drop(fiber.settled().await);
        fiber.state()
    }

    pub(crate) async fn end(self) {
        self.root.fiber().dispose().await.unwrap();
    }
}

/// The tree of a user file, and nothing built in but the plugin `base`, which is disabled.
pub(crate) fn tree(plugins: &str) -> Tree {
    tree_of("/u/ada/.config/linn/linn.toml", plugins)
}

/// The tree of a workspace file.
pub(crate) fn workspace_tree(plugins: &str) -> Tree {
    tree_of("/src/engine/.linn/linn.toml", plugins)
}

fn tree_of(path: &str, plugins: &str) -> Tree {
    let files = MemoryFiles::new([(path, plugins)]);
    let sources = Sources { home: Some("/u/ada".into()), ..Sources::in_memory("/src/engine", files) };
    let base = BuiltIn { id: "base".into(), is_disabled: true, ..BuiltIn::plugin("probe") };
    let config = Config::load(sources, &[BuiltIn { config: json!({ "tag": "base" }), ..base }]);
    assert!(config.problems().is_empty(), "{:?}", config.problems());
    config.tree().clone()
}

/// Entries of `probe`, each with its id as its tag; `id@group` puts one into a group, and `id=` makes a group.
pub(crate) fn probes(list: &str) -> String {
    let entry = |it: &str| {
        if let Some(group) = it.strip_suffix('=') {
            let (group, parent) = group.split_once('@').unwrap_or((group, ""));
            return format!("[[plugins]]\nid = '{group}'\ngroup = true\nparent = '{parent}'\n");
        }
        let (it, is_off) = it.strip_prefix('!').map_or((it, false), |it| (it, true));
        let (id, parent) = it.split_once('@').unwrap_or((it, ""));
        format!(
            "[[plugins]]\nid = '{id}'\nplugin = 'probe'\nparent = '{parent}'\ndisabled = {is_off}\nconfig = {{ tag = '{id}' }}\n"
        )
    };
    list.split_whitespace().map(entry).collect()
}
