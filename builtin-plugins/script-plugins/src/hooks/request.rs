//! Hooks around what a human says and what a model is shown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linn_bus::{ListenerError, Next};
use linn_services::agent::{Agent, PromptDecision};
use linn_services::events::{AgentOverlay, AgentPromptSubmit, AgentRequest, PluginNoticeLevel};
use linn_services::ids::AgentId;
use linn_services::model::{ContentBlock, LlmCallConfig, Message, Role, text_of};
use linn_services::session::Fact;
use serde_json::{Value, json};

use crate::exchange::LIMIT_BYTES;
use crate::fleet::{Fleet, HookCall, HookOutcome, is_main};
use crate::hooks::HookPoint;
use crate::hooks::messages::Shown;

/// How much a script may add to one request.
const ADDED_LIMIT_BYTES: usize = 100 * 1024;

/// Hooks around what a human says and what a model is shown.
#[derive(Debug)]
pub(crate) struct RequestHooks {
    fleet: Arc<Fleet>,
    /// Turns that go with another model than their agent.
    borrowed: Mutex<HashMap<AgentId, Borrowed>>,
}

/// A turn that goes with another model.
#[derive(Debug, Clone)]
struct Borrowed {
    turn: u32,
    own: String,
    model: String,
}

impl RequestHooks {
    pub(crate) fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, borrowed: Mutex::default() }
    }

    fn borrowed(&self) -> MutexGuard<'_, HashMap<AgentId, Borrowed>> {
        self.borrowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets an agent.
    pub(crate) fn forget(&self, agent: &AgentId) {
        self.borrowed().remove(agent);
    }

    /// `pre_input`: each script sees the text as those before it left it.
    pub(crate) async fn prompt(
        &self,
        it: &AgentPromptSubmit,
        next: Next<'_, AgentPromptSubmit>,
    ) -> Result<PromptDecision, ListenerError> {
        let decision = next.run().await?;
        let PromptDecision::Allow { content, additional_context } = decision else { return Ok(decision) };
        if !is_main(&it.agent) {
            return Ok(PromptDecision::Allow { content, additional_context });
        }
        let standing = content.as_ref().unwrap_or(&it.content);
        let mut text = text_of(standing);
        let mut is_changed = false;
        for active in self.fleet.hooked(HookPoint::PreInput) {
            // A plugin hears of what is said after it has heard of the session.
            active.opening.passed().await;
            let mut call = HookCall::new(HookPoint::PreInput, Some(&it.agent));
            call.args = Some(json!({ "text": text }));
            let (plugin, refusal) = (active.name(), |why: &str| PromptDecision::Block {
                reason: format!("input denied by plugin '{}' pre_input: {why}", active.name()),
            });
            match self.fleet.hook(&active, &call).await {
                HookOutcome::Gone => {}
                HookOutcome::Failed(why) => return Ok(refusal(&why)),
                HookOutcome::Answered(answer) => {
                    if let Some(why) = answer.refusal() {
                        return Ok(refusal(why));
                    }
                    match answer.modified_text("text") {
                        Some(new) if new.len() > LIMIT_BYTES => {
                            let why = format!("its text has more than {LIMIT_BYTES} bytes");
                            self.ignored(plugin, HookPoint::PreInput, &it.agent, &why);
                        }
                        Some(new) => (text, is_changed) = (new.to_owned(), true),
                        None => {}
                    }
                }
            }
        }
        if !is_changed {
            return Ok(PromptDecision::Allow { content, additional_context });
        }
        let others = standing.iter().filter(|it| it.as_text().is_none()).cloned();
        let content = std::iter::once(ContentBlock::Text { text }).chain(others).collect();
        Ok(PromptDecision::Allow { content: Some(content), additional_context })
    }

    /// `pre_turn`: each script sees the model as those before it left it. What comes out holds for this turn.
    pub(crate) async fn model(
        &self,
        it: &AgentRequest,
        next: Next<'_, AgentRequest>,
    ) -> Result<LlmCallConfig, ListenerError> {
        let mut config = next.run().await?;
        if !is_main(&it.agent) {
            return Ok(config);
        }
        let before = self.borrowed().get(it.agent.id()).cloned();
        if let Some(before) = before {
            if before.turn == it.turn {
                config.model = before.model;
                return Ok(config);
            }
            // The request before was one of the other model; this turn has its own again.
            if config.model == before.model {
                config.model = before.own;
            }
            self.forget(it.agent.id());
        }
        if it.step != 1 {
            return Ok(config);
        }
        let own = config.model.clone();
        let n_images = images_of_turn(&it.agent);
        for active in self.fleet.hooked(HookPoint::PreTurn) {
            let known = self.models().await;
            let mut call = HookCall::new(HookPoint::PreTurn, Some(&it.agent));
            call.args = Some(about_models(&config.model, n_images, &known));
            let HookOutcome::Answered(answer) = self.fleet.hook(&active, &call).await else { continue };
            let Some(model) = answer.modified_text("model").filter(|it| *it != config.model) else { continue };
            if known.iter().any(|it| it.is(model)) {
                let why = answer.note().unwrap_or("vision handoff");
                let message = format!("vision handoff: {} → {model} ({why})", config.model);
                self.tell(active.name(), HookPoint::PreTurn, &it.agent, PluginNoticeLevel::Info, message);
                model.clone_into(&mut config.model);
            } else {
                let message = format!("vision handoff ignored: '{model}' is not a discovered model");
                self.tell(active.name(), HookPoint::PreTurn, &it.agent, PluginNoticeLevel::Warning, message);
            }
        }
        if config.model != own {
            let borrowed = Borrowed { turn: it.turn, own, model: config.model.clone() };
            self.borrowed().insert(it.agent.id().clone(), borrowed);
        }
        Ok(config)
    }

    /// The models there are: those of the providers, and those that adapters registered by themselves.
    async fn models(&self) -> Vec<KnownModel> {
        let mut known = Vec::new();
        if let Ok(Some(providers)) = self.fleet.providers.get().await {
            known.extend(providers.models().unwrap_or_default().into_iter().map(|it| KnownModel {
                id: it.id,
                vision: Some(it.vision),
                provider: Some(it.provider),
            }));
        }
        if let Ok(Some(llm)) = self.fleet.llm.get().await {
            let models = llm.models().unwrap_or_default();
            known.extend(models.iter().map(|it| KnownModel { id: it.to_string(), vision: None, provider: None }));
        }
        known
    }

    /// `pre_agent_start`, then `pre_context`: what one request shows.
    pub(crate) async fn overlay(&self, it: &AgentOverlay) {
        let is_main = is_main(&it.agent);
        if is_main || (it.turn, it.step) == (1, 1) {
            self.add(it).await;
        }
        if is_main {
            self.rewrite(it).await;
        }
    }

    /// Adds what scripts have to say to one request: a replacement clears what was said before it.
    async fn add(&self, it: &AgentOverlay) {
        let point = HookPoint::PreAgentStart;
        let plugins = self.fleet.hooked(point);
        let call = HookCall { signal: it.signal.clone(), ..HookCall::new(point, Some(&it.agent)) };
        // None of them sees what another one says.
        let outcomes = futures_util::future::join_all(plugins.iter().map(|active| self.fleet.hook(active, &call)));
        let mut parts = Vec::new();
        let mut by = String::new();
        for (active, outcome) in plugins.iter().zip(outcomes.await) {
            let HookOutcome::Answered(answer) = outcome else { continue };
            let text_of = |key| {
                let text = answer.modified_text(key)?;
                if text.len() <= ADDED_LIMIT_BYTES {
                    return Some(text);
                }
                let why = format!("its `{key}` has more than {ADDED_LIMIT_BYTES} bytes");
                self.ignored(active.name(), point, &it.agent, &why);
                None
            };
            if let Some(text) = text_of("system_prompt") {
                parts = vec![text.to_owned()];
                active.name().clone_into(&mut by);
            }
            if let Some(text) = text_of("append_system_prompt").filter(|it| !it.is_empty()) {
                parts.push(format!("# Plugin: {}\n{text}", active.name()));
                active.name().clone_into(&mut by);
            }
        }
        let text = parts.join("\n\n");
        if !text.is_empty() {
            it.add(vec![Message { role: Role::System, content: vec![ContentBlock::Text { text }] }], &by);
        }
    }

    /// Lets scripts rewrite what one request shows; the conversation itself stays as it is.
    async fn rewrite(&self, it: &AgentOverlay) {
        let point = HookPoint::PreContext;
        for active in self.fleet.hooked(point) {
            let shown = Shown::of(&it.messages());
            let call = HookCall {
                args: Some(json!({ "messages": shown.values })),
                signal: it.signal.clone(),
                ..HookCall::new(point, Some(&it.agent))
            };
            let HookOutcome::Answered(answer) = self.fleet.hook(&active, &call).await else { continue };
            let Some(given) = answer.modify.as_ref().and_then(|it| it.get("messages")) else { continue };
            match shown.taken_back(given) {
                Ok(_) if given.as_array() == Some(&shown.values) => {}
                Ok(messages) => it.replace(messages, active.name()),
                Err(why) => self.ignored(active.name(), point, &it.agent, &why.to_string()),
            }
        }
    }

    fn ignored(&self, plugin: &str, point: HookPoint, agent: &Agent, why: &str) {
        let message = format!("[{plugin}] hook '{}' changed nothing: {why}", point.as_str());
        self.fleet.ctx.logger().warn(&message);
        self.tell(plugin, point, agent, PluginNoticeLevel::Warning, message);
    }

    fn tell(&self, plugin: &str, point: HookPoint, agent: &Agent, level: PluginNoticeLevel, message: String) {
        self.fleet.notice(plugin, point, Some(agent), level, message);
    }
}

/// A model that can be asked. What is `None` nobody knows.
#[derive(Debug, Clone)]
struct KnownModel {
    id: String,
    vision: Option<bool>,
    provider: Option<String>,
}

impl KnownModel {
    /// Whether this is the model meant, by its id or with its provider in front. What an adapter registered may end with
    /// `*` for all that begin so.
    fn is(&self, model: &str) -> bool {
        let own = self.provider.as_ref().and_then(|it| model.strip_prefix(it.as_str())?.strip_prefix(':'));
        let begins = self.id.strip_suffix('*').is_some_and(|it| !it.is_empty() && model.starts_with(it));
        self.id == model || own == Some(&self.id) || begins
    }
}

/// How many pictures the prompts of the open turn hold.
fn images_of_turn(agent: &Agent) -> usize {
    let records = agent.session().records_from(0);
    let of_turn = records.iter().rev().take_while(|it| !matches!(it.fact, Fact::TurnStart(_)));
    let images = of_turn.map(|it| match &it.fact {
        Fact::UserMessage(it) => it.content.iter().filter(|it| matches!(it, ContentBlock::Image { .. })).count(),
        _ => 0,
    });
    images.sum()
}

/// What `pre_turn` is told; what nobody knows is `null`.
fn about_models(model: &str, n_images: usize, known: &[KnownModel]) -> Value {
    let provider = known.iter().find(|it| it.is(model)).and_then(|it| it.provider.clone());
    // Nobody knows what models cost here, so the first one counts.
    let of_provider = |it: &&KnownModel| it.vision == Some(true) && it.provider == provider;
    let recommended = known.iter().find(of_provider).map(|it| it.id.clone());
    let models: Vec<Value> = known
        .iter()
        .map(|it| json!({ "id": it.id, "vision": it.vision, "provider": it.provider, "cost_rank": null }))
        .collect();
    json!({
        "model": model, "has_images": n_images > 0, "image_count": n_images, "models": models, "vision_model": null,
        "enabled": true, "provider": provider, "recommended_vision_model": recommended,
    })
}
