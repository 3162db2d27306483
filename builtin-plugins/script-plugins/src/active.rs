//! A plugin that runs: a fiber of its own, and what it brings to the registries.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Context, Event, Fault, Plugin, Svc, listener};
use linn_services::commands::{Command, Commands};
use linn_services::model::ToolSchema;
use linn_services::tools::{Tool, ToolClaim, ToolClass, Tools};

use crate::command::RunsCommand;
use crate::exchange::{Failure, Question, Scripts};
use crate::manifest::Manifest;
use crate::memory::memory_tool;
use crate::order::Turnstile;
use crate::system::{Digest, Snapshot, blocking, digest};
use crate::tool::ScriptTool;

/// Names of tools that belong to the harness, whether or not it has them at the moment.
const RESERVED_TOOLS: &[&str] = &["contact_supervisor", "intercom"];

/// A plugin that is loaded, and may run.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) manifest: Manifest,
    /// Its folder, free of links.
    pub(crate) folder: PathBuf,
    /// What it may be, if a repository brings it.
    pub(crate) seal: Option<Seal>,
    /// What happens to sessions is told one after the other.
    pub(crate) life: Turnstile,
    /// Passed once the sessions that began have been told.
    pub(crate) opening: Turnstile,
    pub(crate) scripts: Arc<Scripts>,
}

impl Active {
    pub(crate) fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Asks a script of it, in a call of its plugin; from elsewhere use [`ask`].
    pub(crate) async fn ask_inside(&self, question: Question) -> Result<String, Failure> {
        if let Some(seal) = &self.seal
            && !seal.holds(&self.folder).await
        {
            return Err(Failure::Changed);
        }
        self.scripts.ask(question, &self.folder).await
    }
}

/// What the folder of a plugin has to hold for its scripts to run.
#[derive(Debug)]
pub(crate) struct Seal {
    digest: Digest,
    /// How it looked when the digest was true.
    seen: Mutex<Option<Snapshot>>,
}

impl Seal {
    pub(crate) fn new(digest: Digest) -> Self {
        Self { digest, seen: Mutex::new(None) }
    }

    /// Whether the folder holds what it did. The files are read only when one was touched.
    async fn holds(&self, folder: &std::path::Path) -> bool {
        let before = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let folder = folder.to_owned();
        let looked = blocking(move || {
            // First the look: what changes after it is seen by the next one.
            let now = Snapshot::of(&folder).ok()?;
            let is_same = before.as_ref() == Some(&now);
            let found = if is_same { None } else { Some(digest(&folder).ok()?) };
            Some((now, found))
        });
        let Some((now, found)) = looked.await else { return false };
        if found.is_some_and(|it| it != self.digest) {
            return false;
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        true
    }
}

/// Collects the plugins that run.
#[derive(Event)]
#[event(name = "internal/script-plugins/active", mode = Emit)]
pub(crate) struct CollectActive {
    pub(crate) found: Mutex<Vec<Arc<Active>>>,
}

/// Asks a script. The listener is of the plugin it belongs to, which therefore does not end under it.
#[derive(Event)]
#[event(name = "internal/script-plugins/run", mode = Serial, output = Result<String, Failure>)]
pub(crate) struct RunScript {
    pub(crate) active: Arc<Active>,
    pub(crate) question: Question,
}

/// Asks a script of a plugin, as a call of that plugin: it does not end under it.
///
/// Dropping the future kills the script and all it started.
pub(crate) async fn ask(active: &Arc<Active>, question: Question) -> Result<String, Failure> {
    let run = RunScript { active: active.clone(), question };
    match active.scripts.ctx.serial(&run).await {
        Ok(Some(outcome)) => outcome,
        Ok(None) => Err(Failure::Gone),
        Err(error) => Err(Failure::Wait(format!("{error:#}"))),
    }
}

/// The fiber of a plugin.
#[derive(Debug)]
pub(crate) struct ScriptPlugin;

impl Plugin for ScriptPlugin {
    const NAME: &'static str = "script-plugin";
    type Config = Arc<Active>;
    type Needs = ();

    async fn start(ctx: &Context, active: Arc<Active>, (): ()) -> Result<(), Fault> {
        let name = active.name().to_owned();
        let scripts = ctx.mount_with(&name, &active, run_scripts)?;
        let mut others = Vec::new();
        if !active.manifest.tools.is_empty() || !active.manifest.disable_tools.is_empty() {
            others.push(ctx.mount_with(&name, &active, bring_tools)?);
        }
        if active.manifest.memory_provider.is_some() {
            others.push(ctx.mount_with(&name, &active, bring_memory_tool)?);
        }
        if !active.manifest.commands.is_empty() {
            others.push(ctx.mount_with(&name, &active, bring_commands)?);
        }
        scripts.running().await?;
        for it in others {
            // A registry that is not there is waited for by what would register with it, not by the plugin.
            it.settled().await?;
        }
        Ok(())
    }
}

async fn run_scripts(active: Arc<Active>, ctx: Context, (): ()) -> Result<(), BusError> {
    let listed = active.clone();
    ctx.on(move |it: &CollectActive| {
        it.found.lock().unwrap_or_else(PoisonError::into_inner).push(listed.clone());
    })?;
    ctx.on(listener!(async move |it: &RunScript| {
        if !Arc::ptr_eq(&it.active, &active) {
            return None;
        }
        Some(active.ask_inside(it.question.clone()).await)
    }))?;
    Ok(())
}

async fn bring_tools(active: Arc<Active>, ctx: Context, tools: Svc<dyn Tools>) -> Result<(), Fault> {
    for entry in &active.manifest.tools {
        let name = entry.name.as_str();
        if RESERVED_TOOLS.contains(&name) {
            ctx.logger().warn(format_args!("tool '{name}' has a name that belongs to the harness; skipping"));
            continue;
        }
        let schema = ToolSchema {
            name: name.into(),
            description: entry.description.clone(),
            parameters: entry.parameters.clone(),
        };
        let tool = Tool::from_body(schema, Arc::new(ScriptTool { active: active.clone(), entry: entry.clone() }));
        let tool = if entry.class == ToolClass::ReadOnly { tool.read_only() } else { tool };
        let claim = if entry.is_override {
            ToolClaim::InPlace
        } else {
            if tools.get(None, &name.into())?.is_some() {
                let what = "collides with a built-in or already-registered tool; skipping";
                ctx.logger().warn(format_args!("tool '{name}' {what}"));
            }
            ToolClaim::FreeName
        };
        if let Err(error) = tools.contribute(&ctx, tool, claim) {
            ctx.logger().warn(format_args!("tool '{name}' is not offered: {error}"));
        }
    }
    if !active.manifest.disable_tools.is_empty() {
        tools.withhold(&ctx, active.manifest.disable_tools.iter().map(|it| it.as_str().into()).collect())?;
    }
    Ok(())
}

async fn bring_memory_tool(active: Arc<Active>, ctx: Context, tools: Svc<dyn Tools>) -> Result<(), Fault> {
    tools.contribute(&ctx, memory_tool(&active.scripts.ctx), ToolClaim::FreeName)?;
    Ok(())
}

async fn bring_commands(active: Arc<Active>, ctx: Context, commands: Svc<dyn Commands>) -> Result<(), Fault> {
    for entry in &active.manifest.commands {
        let body = Arc::new(RunsCommand { active: active.clone(), entry: entry.clone() });
        let command = Command::new(&entry.name, &entry.description, body);
        // Another plugin has it: that one is called, and both are listed.
        if let Err(error) = commands.register(&ctx, command) {
            ctx.logger().warn(format_args!("command '{}' is not offered: {error}", entry.name));
        }
    }
    Ok(())
}
