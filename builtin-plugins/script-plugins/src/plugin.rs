//! The plugin that runs script plugins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use linn_bus::{BusError, Context, Demand, EffectHandle, Fault, Inject, Lookup, NeedList, Plugin, Svc};
use linn_services::agent::Agents;
use linn_services::events::{AgentDisposed, AgentSessionStart};
use linn_services::llm::Llm;
use linn_services::memory_provider::MemoryProvider;
use linn_services::oauth::OAuth;
use linn_services::plugin_admin::PluginAdmin;
use linn_services::prompt::{AssembleContext, Section, SystemPrompt, TextOf, Variable};
use linn_services::providers::Providers;
use linn_services::tools::Tools;

use crate::admin::{Admin, AdminProvider};
use crate::config::{ScriptPluginsConfig, Setting};
use crate::exchange::Scripts;
use crate::fleet::{Fleet, is_main};
use crate::hooks::{Life, RequestHooks, ToolHooks};
use crate::memory::{Memory, MemoryService};
use crate::oauth::{Logins, OAuthService};

linn_bus::plugin!(ScriptPluginsPlugin);

/// Runs script plugins: each is a fiber below this one, and provides [`PluginAdmin`], [`OAuth`] and [`MemoryProvider`].
///
/// When it goes, all scripts and everything they started are gone.
#[derive(Debug)]
pub struct ScriptPluginsPlugin;

/// What [`ScriptPluginsPlugin`] looks up.
#[derive(Inject)]
pub struct ScriptPluginsNeeds {
    tools: Lookup<dyn Tools>,
    llm: Lookup<dyn Llm>,
    providers: Lookup<dyn Providers>,
    agents: Lookup<dyn Agents>,
}

impl std::fmt::Debug for ScriptPluginsNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptPluginsNeeds").finish_non_exhaustive()
    }
}

impl Plugin for ScriptPluginsPlugin {
    const NAME: &'static str = "script-plugins";
    type Config = ScriptPluginsConfig;
    type Needs = ScriptPluginsNeeds;

    fn validate(config: &ScriptPluginsConfig) -> Result<(), Fault> {
        if let Some(workspace) = config.workspace.as_ref().filter(|it| !it.is_absolute()) {
            let workspace = workspace.display();
            return Err(Fault::msg(format!(
                "workspace: {workspace} is no absolute path; name the folder from the root"
            )));
        }
        Ok(())
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn PluginAdmin>(Demand::Required);
        list.add::<dyn OAuth>(Demand::Required);
        list.add::<dyn MemoryProvider>(Demand::Required);
    }

    async fn start(ctx: &Context, config: ScriptPluginsConfig, needs: ScriptPluginsNeeds) -> Result<(), Fault> {
        let setting = Arc::new(Setting::new(config));
        let scripts = Arc::new(Scripts::new(ctx, setting.clone())?);
        let ScriptPluginsNeeds { tools, llm, providers, agents } = needs;
        let fleet = Arc::new(Fleet {
            ctx: ctx.clone(),
            scripts,
            setting,
            tools,
            llm,
            providers,
            agents,
            sessions: Mutex::default(),
            is_shut_down: AtomicBool::new(false),
        });
        fleet.find_sessions().await;
        let life = Arc::new(Life::new(fleet.clone()));
        let requests = Arc::new(RequestHooks::new(fleet.clone()));
        listen(ctx, &fleet, &life, &requests)?;
        ctx.mount_with("script-plugins/prompt", &fleet, bring_prompt)?;

        let memory = Memory::new(fleet.clone());
        memory.listen(ctx)?;
        ctx.mount_with("script-plugins/memory", &memory, Memory::bring_prompt)?;
        let farewell = Farewell { ctx: ctx.clone(), life: life.clone(), last: Mutex::default() };
        let admin = Admin::new(fleet.clone(), life, farewell, memory.clone());
        admin.begin().await?;
        ctx.provide::<dyn PluginAdmin>(Arc::new(AdminProvider(admin)))?;
        ctx.provide::<dyn MemoryProvider>(Arc::new(MemoryService(memory)))?;
        ctx.provide::<dyn OAuth>(Arc::new(OAuthService(Logins::new(fleet))))?;
        Ok(())
    }
}

fn listen(ctx: &Context, fleet: &Arc<Fleet>, life: &Arc<Life>, requests: &Arc<RequestHooks>) -> Result<(), BusError> {
    let tools = Arc::new(ToolHooks::new(fleet.clone()));
    ctx.on_with(&tools, ToolHooks::amend)?;
    ctx.on_with(&tools, ToolHooks::post)?;
    ctx.on_with(&tools, ToolHooks::over)?;
    ctx.on_with(requests, RequestHooks::prompt)?;
    ctx.on_with(requests, RequestHooks::model)?;
    ctx.on_with(requests, RequestHooks::overlay)?;
    let (starts, ends, gone) = (life.clone(), life.clone(), requests.clone());
    ctx.on(move |it: &AgentSessionStart| starts.session_starts(it))?;
    ctx.on(move |it: &AgentDisposed| {
        gone.forget(it.agent.id());
        ends.session_ends(it);
    })?;
    ctx.on_with(life, Life::logged)?;
    ctx.on_with(life, Life::compacting)?;
    ctx.on_with(life, Life::turn_starts)?;
    ctx.on_with(life, Life::program_ends)?;
    Ok(())
}

/// The name of the section and of the variable that holds its text: so braces in it stay what they are.
const PROMPT_SECTION: &str = "script-plugins";
const PROMPT_VARIABLE: &str = "script_plugins";

async fn bring_prompt(fleet: Arc<Fleet>, ctx: Context, prompt: Svc<dyn SystemPrompt>) -> Result<(), Fault> {
    let (of_section, of_variable) = (fleet.clone(), fleet);
    let text = TextOf::new(move |it: &AssembleContext| {
        let is_shown = system_prompts(&of_section, it).is_some();
        if is_shown { format!("{{{{{PROMPT_VARIABLE}}}}}") } else { String::new() }
    });
    prompt.variable(&ctx, PROMPT_VARIABLE, Variable::new(move |it| system_prompts(&of_variable, it)))?;
    prompt.section(&ctx, Section { name: PROMPT_SECTION.to_owned(), order: 900, text })?;
    Ok(())
}

/// What plugins add to the prompt of an agent that a human speaks to.
fn system_prompts(fleet: &Fleet, context: &AssembleContext) -> Option<String> {
    if context.agent.as_ref().is_some_and(|it| !is_main(it)) {
        return None;
    }
    let active = fleet.active();
    let blocks: Vec<String> = active
        .iter()
        .map(|it| &it.manifest)
        .filter(|it| !it.system_prompt.trim().is_empty())
        .map(|it| format!("# Plugin: {} (v{})\n{}", it.name, it.version, it.system_prompt.trim()))
        .collect();
    (!blocks.is_empty()).then(|| format!("## Plugin-injected context\n\n{}", blocks.join("\n\n")))
}

/// Tells plugins the end when the plugin that runs them goes without having been told so: before any of them is gone.
pub(crate) struct Farewell {
    ctx: Context,
    life: Arc<Life>,
    last: Mutex<Option<(EffectHandle, Arc<AtomicBool>)>>,
}

impl std::fmt::Debug for Farewell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Farewell").finish_non_exhaustive()
    }
}

impl Farewell {
    /// Has the end told before what was mounted up to now is gone: what is registered last is undone first.
    pub(crate) fn renew(&self) -> Result<(), BusError> {
        let is_wanted = Arc::new(AtomicBool::new(true));
        let (life, wanted) = (self.life.clone(), is_wanted.clone());
        let handle = self.ctx.effect("end of script plugins", |fx| {
            fx.defer_async(async move {
                if wanted.load(Ordering::Relaxed) {
                    life.shut_down().await;
                }
            });
        })?;
        let before = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace((handle, is_wanted));
        if let Some((handle, was_wanted)) = before {
            was_wanted.store(false, Ordering::Relaxed);
            // Nothing of it waits.
            drop(handle.dispose());
        }
        Ok(())
    }
}
