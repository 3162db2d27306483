//! A harness with script plugins in folders of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linn_bus::{Context, Fiber, Grace, Root, Svc, TokioRuntime};
use linn_plugin_script_plugins::{ScriptPluginsConfig, ScriptPluginsPlugin};
use linn_services::agent::{Agent, AgentHandle, AgentOptions, Agents, CreateAgent};
use linn_services::commands::CommandsPlugin;
use linn_services::events::{PluginNotice, PluginNoticeLevel, PluginStatus};
use linn_services::model::text_of;
use linn_services::plugin_admin::PluginAdmin;
use linn_services::prompt::{SystemPromptConfig, SystemPromptPlugin};
use linn_services::tools::{Tool, ToolExecutionInput, ToolExecutionResult, ToolFailure, Tools, ToolsPlugin};
use linn_services_test::undriven_agent;
use serde_json::{Map, Value, json};

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(90);

/// A harness with script plugins.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) tools: Svc<dyn Tools>,
    pub(crate) config: ScriptPluginsConfig,
    pub(crate) base: PathBuf,
    told: Arc<Mutex<Vec<String>>>,
}

/// Runs a test in a harness in which no plugin is there yet.
pub(crate) fn run(test: impl AsyncFnOnce(World)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    runtime.block_on(async {
        let grace = Grace { dispose: Duration::from_secs(5), ..Grace::default() };
        let root = Root::with_grace(TokioRuntime::seams(), grace);
        let (ctx, fiber) = (root.context().clone(), root.fiber().clone());
        ctx.within(LIMIT, async { test(World::new(root, base).await).await }).await.expect("the test takes too long");
        fiber.dispose().await.unwrap();
    });
}

impl World {
    async fn new(root: Root, base: PathBuf) -> Self {
        for folder in ["home", "work", "elsewhere"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<CommandsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<SystemPromptPlugin>(SystemPromptConfig::default()).unwrap().running().await.unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let (notices, statuses) = (told.clone(), told.clone());
        root.on(move |it: &PluginNotice| {
            let level = if it.level == PluginNoticeLevel::Info { "info" } else { "warning" };
            notices.lock().unwrap().push(format!("{level} {}", it.message));
        })
        .unwrap();
        root.on(move |it: &PluginStatus| statuses.lock().unwrap().push(format!("status {}: {}", it.plugin, it.text)))
            .unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        let path = std::env::var("PATH").unwrap();
        let home = base.join("home").display().to_string();
        let environment = BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), home)]);
        let config = ScriptPluginsConfig {
            workspace: Some(base.join("work")),
            environment: Some(environment),
            ..ScriptPluginsConfig::default()
        };
        Self { root, tools, config, base, told }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// The folder of a plugin of the user, which may be there or not.
    pub(crate) fn global(&self, name: &str) -> PathBuf {
        self.home().join(".catalyst-code/plugins").join(name)
    }

    /// The folder of a plugin of the workspace, which may be there or not.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        self.work().join(".catalyst-code/plugins").join(name)
    }

    /// Writes a plugin of the user.
    pub(crate) fn plugin(&self, name: &str) -> PluginFolder {
        PluginFolder::new(self.global(name), name)
    }

    /// Mounts the plugin that runs scripts.
    pub(crate) async fn start(&self) -> Running {
        let fiber = self.root.mount::<ScriptPluginsPlugin>(self.config.clone()).unwrap().fiber().clone();
        fiber.running().await.unwrap();
        Running { admin: self.root.get::<dyn PluginAdmin>().unwrap(), fiber }
    }

    /// A tool that answers with its arguments.
    pub(crate) fn echo(&self, name: &str) {
        self.tools.register(&self.root, echo(name)).unwrap();
    }

    /// A call of nobody.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolExecutionResult {
        self.tools.execute(ToolExecutionInput::new("call", name, arguments)).await.unwrap()
    }

    /// What a call comes to, in words.
    pub(crate) async fn says(&self, name: &str, arguments: Value) -> String {
        text(&self.call(name, arguments).await)
    }

    pub(crate) async fn agent(&self, id: &str) -> AgentHandle {
        undriven_agent(&self.root, id).await
    }

    /// An agent that another one made.
    pub(crate) async fn child(&self) -> Agent {
        drop(self.agent("parent").await);
        let agents = self.root.get::<dyn Agents>().unwrap();
        let options = AgentOptions { subagent_depth: Some(1), ..AgentOptions::default() };
        let create = CreateAgent { cwd: Some("/".to_owned()), options, ..CreateAgent::new("child", "child") };
        agents.create(&self.root, create).await.unwrap().agent().clone()
    }

    /// What plugins told the user since the last time this was asked.
    pub(crate) fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// The plugin that runs scripts, while it does.
pub(crate) struct Running {
    pub(crate) admin: Svc<dyn PluginAdmin>,
    pub(crate) fiber: Fiber,
}

impl Running {
    pub(crate) fn names(&self) -> Vec<String> {
        self.admin.list().unwrap().into_iter().map(|it| it.name).collect()
    }
}

/// A tool that answers with its arguments, for agents and for nobody.
pub(crate) fn echo(name: &str) -> Tool {
    Tool::new(name, "Answers with its arguments.", async |arguments: Map<String, Value>, _| {
        Ok::<_, ToolFailure>(Value::Object(arguments).to_string())
    })
}

/// The text of a result.
pub(crate) fn text(result: &ToolExecutionResult) -> String {
    text_of(&result.content)
}

/// A call by an agent.
pub(crate) fn call_of(agent: &Agent, name: &str, arguments: Value) -> ToolExecutionInput {
    ToolExecutionInput { agent: Some(agent.clone()), ..ToolExecutionInput::new("call", name, arguments) }
}

/// A plugin on its way to the disk.
pub(crate) struct PluginFolder {
    pub(crate) path: PathBuf,
    manifest: Map<String, Value>,
}

impl PluginFolder {
    pub(crate) fn new(path: PathBuf, name: &str) -> Self {
        fs::create_dir_all(&path).unwrap();
        let Value::Object(manifest) = json!({ "name": name, "version": "1.0.0" }) else { unreachable!() };
        let this = Self { path, manifest };
        this.write();
        this
    }

    fn write(&self) {
        fs::write(self.path.join("plugin.json"), Value::Object(self.manifest.clone()).to_string()).unwrap();
    }

    /// Sets a field of the manifest.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.manifest.insert(key.to_owned(), value);
        self.write();
        self
    }

    /// Writes a script, which may be executed.
    pub(crate) fn script(self, path: &str, script: &str) -> Self {
        program(&self.path.join(path), script);
        self
    }

    /// A hook of a shell script.
    pub(crate) fn hook(self, point: &str, script: &str) -> Self {
        self.hook_with(point, script, json!({}))
    }

    /// The same with what else is to be in its entry.
    pub(crate) fn hook_with(mut self, point: &str, script: &str, more: Value) -> Self {
        let path = format!("hooks/{point}.sh");
        program(&self.path.join(&path), script);
        let mut entry = json!({ "script": path });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.manifest.entry("hooks").or_insert_with(|| json!({}))[point] = entry;
        self.write();
        self
    }
}

/// Writes a shell script, or what its first line says it is.
pub(crate) fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A script that reads its input and gives an answer.
pub(crate) fn answers(answer: &Value) -> String {
    format!("cat >/dev/null\ncat <<'EOF'\n{answer}\nEOF\n")
}

/// A script that keeps its input in a file, one line for each run, and gives an answer.
pub(crate) fn keeps(file: &Path, answer: &Value) -> String {
    format!("printf '%s\\n' \"$(cat)\" >> '{}'\ncat <<'EOF'\n{answer}\nEOF\n", file.display())
}

/// What a script of [`keeps`] was told.
pub(crate) fn kept(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// Waits until the world is as wanted; the limit of the test ends it.
pub(crate) async fn until(ctx: &Context, mut wanted: impl FnMut() -> bool) {
    while !wanted() {
        ctx.sleep(Duration::from_millis(2)).await.unwrap();
    }
}

/// The first word of a file that is a number, once there is one.
pub(crate) async fn pid_in(ctx: &Context, file: &Path) -> i32 {
    let read = || fs::read_to_string(file).ok()?.trim().parse::<i32>().ok();
    until(ctx, || read().is_some()).await;
    read().unwrap()
}

/// Whether a process runs.
pub(crate) fn runs(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat[stat.rfind(')').unwrap() + 2..].chars().next();
    !matches!(state, Some('Z' | 'X') | None)
}
