//! All plugins that run, in their order, and how they are asked.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{Context, Lookup};
use linn_services::agent::{Agent, Agents};
use linn_services::events::PluginNoticeLevel;
use linn_services::ids::SessionId;
use linn_services::llm::Llm;
use linn_services::providers::Providers;
use linn_services::tools::Tools;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::active::{Active, CollectActive, ask};
use crate::config::Setting;
use crate::exchange::{Failure, Question, Scripts};
use crate::hooks::{Answer, HookPoint, Policy};
use crate::record::HookRecord;
use crate::tell::{notice, tell_of_hook};

/// The option of an agent that names the file its session is kept in.
const SESSION_FILE: &str = "sessionFile";

/// All plugins that run.
pub(crate) struct Fleet {
    pub(crate) ctx: Context,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) setting: Arc<Setting>,
    pub(crate) tools: Lookup<dyn Tools>,
    pub(crate) llm: Lookup<dyn Llm>,
    pub(crate) providers: Lookup<dyn Providers>,
    pub(crate) agents: Lookup<dyn Agents>,
    /// The sessions that a human speaks in, with their agents.
    pub(crate) sessions: Mutex<HashMap<SessionId, Agent>>,
    /// The end was told.
    pub(crate) is_shut_down: AtomicBool,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}

/// What a script of a hook is told.
#[derive(Debug, Clone)]
pub(crate) struct HookCall<'a> {
    pub(crate) point: HookPoint,
    pub(crate) tool: &'a str,
    pub(crate) agent: Option<&'a Agent>,
    /// For scripts that want to see it.
    pub(crate) args: Option<Value>,
    pub(crate) result: Option<Value>,
    pub(crate) signal: CancellationToken,
}

impl<'a> HookCall<'a> {
    /// A call about nothing but the point itself.
    pub(crate) fn new(point: HookPoint, agent: Option<&'a Agent>) -> Self {
        Self { point, tool: "", agent, args: None, result: None, signal: CancellationToken::new() }
    }
}

/// What came of a script of a hook.
#[derive(Debug)]
pub(crate) enum HookOutcome {
    Answered(Answer),
    /// It failed; how, in words.
    Failed(String),
    /// Its plugin was disabled meanwhile, and is asked nothing any more.
    Gone,
}

/// Whether a human speaks to this agent.
pub(crate) fn is_main(agent: &Agent) -> bool {
    agent.options().subagent_depth.unwrap_or(0) == 0
}

/// The session as hooks, tools and memory providers are told it: the path of its file, if it is kept in one that has a
/// name, or its id.
pub(crate) fn session_text(agent: Option<&Agent>) -> String {
    let Some(agent) = agent else { return String::new() };
    let file = agent.options().extra.get(SESSION_FILE).and_then(Value::as_str);
    file.map_or_else(|| agent.session().id().to_string(), str::to_owned)
}

/// The session as commands are told it: the name of the file alone.
pub(crate) fn session_name(agent: Option<&Agent>) -> String {
    let text = session_text(agent);
    Path::new(&text).file_name().map_or(text.clone(), |it| it.to_string_lossy().into_owned())
}

impl Fleet {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Agent>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the sessions that live already. Their beginning is not told: it is past.
    pub(crate) async fn find_sessions(&self) {
        let Ok(Some(agents)) = self.agents.get().await else { return };
        let agents = agents.list().unwrap_or_default().into_iter().filter(is_main);
        let found: Vec<_> = agents.map(|it| (it.session().id().clone(), it)).collect();
        self.sessions().extend(found);
    }

    /// The plugins that run, by name.
    pub(crate) fn active(&self) -> Vec<Arc<Active>> {
        let collect = CollectActive { found: Mutex::default() };
        self.ctx.emit(&collect);
        let mut found = collect.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by(|a, b| a.name().cmp(b.name()));
        found
    }

    /// The plugins that have a script for this point, by name.
    pub(crate) fn hooked(&self, point: HookPoint) -> Vec<Arc<Active>> {
        let mut active = self.active();
        active.retain(|it| it.manifest.hooks.contains_key(&point));
        active
    }

    /// What every script is told.
    pub(crate) fn about(&self, agent: Option<&Agent>) -> Value {
        json!({
            "workspace": self.setting.workspace_text(),
            "session_id": session_text(agent),
            "timestamp": self.scripts.now(),
        })
    }

    /// Asks the script of a plugin for a hook, and shows the user what it tells beside its answer, or that it failed.
    pub(crate) async fn hook(&self, active: &Arc<Active>, call: &HookCall<'_>) -> HookOutcome {
        let mut active = active.clone();
        loop {
            let Some(hook) = active.manifest.hooks.get(&call.point) else { return HookOutcome::Gone };
            let mut input = self.about(call.agent);
            input["hook"] = call.point.as_str().into();
            input["tool"] = call.tool.into();
            if let Some(args) = call.args.as_ref().filter(|_| hook.pass_args) {
                input["args"] = args.clone();
            }
            if let Some(result) = &call.result {
                input["result"] = result.clone();
            }
            let question = Question {
                label: "plugin hook",
                script: hook.script.clone(),
                input,
                timeout: hook.timeout,
                environment: Vec::new(),
                signal: call.signal.clone(),
            };
            let (record, began) = (HookRecord::begin(&active, call), self.ctx.clock().monotonic());
            let outcome = match ask(&active, question).await {
                Ok(text) => Answer::read(&text, call.point.policy())
                    .map_err(|why| (None, format!("hook '{}' {why}", call.point.as_str()))),
                // Another version took its place: that is asked.
                Err(Failure::Gone) => match self.active().into_iter().find(|it| it.name() == active.name()) {
                    Some(successor) if !Arc::ptr_eq(&successor, &active) => {
                        active = successor;
                        continue;
                    }
                    _ => return HookOutcome::Gone,
                },
                Err(failure) => {
                    let text = failure.text(&format!("hook '{}'", call.point.as_str()));
                    Err((Some(failure), text))
                }
            };
            if let Some(record) = record {
                record.end(&outcome, self.ctx.clock().monotonic().saturating_sub(began));
            }
            return match outcome {
                Ok(answer) => {
                    tell_of_hook(&self.ctx, active.name(), Some(call.point), call.agent, &answer.told);
                    HookOutcome::Answered(answer)
                }
                Err((_, text)) => {
                    if !call.signal.is_cancelled() {
                        self.tell_failure(active.name(), call, &text);
                    }
                    HookOutcome::Failed(text)
                }
            };
        }
    }

    fn tell_failure(&self, plugin: &str, call: &HookCall<'_>, text: &str) {
        let what = match call.point.policy() {
            Policy::Blocking => "what it was asked about is refused",
            Policy::BestEffort => "the result stays as it is",
            Policy::Advisory => "it is passed over",
        };
        let message = format!("[{plugin}] {text}; {what}");
        self.ctx.logger().warn(&message);
        self.notice(plugin, call.point, call.agent, PluginNoticeLevel::Warning, message);
    }

    /// Shows something about a hook to the user.
    pub(crate) fn notice(
        &self,
        plugin: &str,
        hook: HookPoint,
        agent: Option<&Agent>,
        level: PluginNoticeLevel,
        message: String,
    ) {
        notice(&self.ctx, plugin, Some(hook), agent, level, message);
    }
}
