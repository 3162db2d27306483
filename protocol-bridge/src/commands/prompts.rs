//! Prompts, and how they are taken back.

use std::sync::Arc;

use futures_util::FutureExt as _;
use linn_services::model::ContentBlock;
use linn_services::providers::Providers;
use linn_services::skills::{SkillLookup, Skills};

use crate::bridge::Bridge;
use crate::models::Choice;
use crate::run::{Offer, Reason, Wanted};
use crate::wire::commands::{Abort, ApplySkill, ClearQueue, Run, Send, Steer};
use crate::wire::events::{Aborted, Done, Steer as SteerEvent};

/// A prompt with the model it is for, as a front end named it.
pub(crate) struct Asked {
    pub(crate) text: String,
    pub(crate) images: Vec<String>,
    pub(crate) model: String,
    pub(crate) provider: Option<String>,
    pub(crate) effort: Option<String>,
}

impl Run for Send {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { prompt: text, model, provider, reasoning_effort: effort, images } = self;
        let asked = Asked { text, images: images.unwrap_or_default(), model, provider, effort };
        bridge.with_model(asked, |bridge, wanted| bridge.take_prompt(wanted));
    }
}

impl Run for Steer {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { prompt: text, model, provider, reasoning_effort: effort } = self;
        let asked = Asked { text, images: Vec::new(), model, provider, effort };
        bridge.with_model(asked, |bridge, wanted| {
            bridge.say(&SteerEvent { prompt: &wanted.text() });
            if bridge.is_busy() {
                bridge.steer_away(wanted);
            } else {
                bridge.take_prompt(wanted);
            }
        });
    }
}

impl Run for Abort {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.end_jobs();
        bridge.cancel(Reason::Abort).await;
        bridge.say(&Aborted {});
    }
}

impl Run for ClearQueue {
    async fn run(self, bridge: &Arc<Bridge>) {
        let queued = bridge.state().queued.take();
        bridge.info(if queued.is_some() { "queue cleared" } else { "queue already empty" });
    }
}

impl Run for ApplySkill {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { name, task, model, reasoning_effort: effort } = self;
        let Some(text) = bridge.skill_prompt(&name, task.as_deref()).await else {
            bridge.error(format!("unknown skill '{name}' — use /skill:<name> with a name from the autocomplete"));
            return bridge.say(&Done {});
        };
        let asked = Asked { text, images: Vec::new(), model, provider: None, effort };
        bridge.with_model(asked, |bridge, wanted| bridge.take_prompt(wanted));
    }
}

impl Bridge {
    /// Goes on with the model of a prompt. Before the models were looked for none is unknown: then it waits for that.
    pub(crate) fn with_model(
        self: &Arc<Self>,
        asked: Asked,
        go_on: impl FnOnce(&Arc<Self>, Wanted) + std::marker::Send + 'static,
    ) {
        let route = |bridge: &Self, asked: &Asked| {
            bridge.route(&asked.model, asked.provider.as_deref(), asked.effort.as_deref())
        };
        if let Some(choice) = route(self, &asked) {
            return go_on(self, wanted(asked, choice));
        }
        let Some(providers) = self.service::<dyn Providers>() else { return self.refuse_model(&asked.model) };
        if providers.settled().now_or_never().is_some() {
            // They may have been found between the two questions.
            return match route(self, &asked) {
                Some(choice) => go_on(self, wanted(asked, choice)),
                None => self.refuse_model(&asked.model),
            };
        }
        self.spawn_job("task", "model_discovery", move |bridge, signal| async move {
            if signal.run_until_cancelled(providers.settled()).await.is_none() {
                return;
            }
            match route(&bridge, &asked) {
                Some(choice) => go_on(&bridge, wanted(asked, choice)),
                None => bridge.refuse_model(&asked.model),
            }
        });
    }

    /// Says that nobody has a model. While a run goes on there is no `done`: the front end would take it for that of the run.
    pub(crate) fn refuse_model(&self, model: &str) {
        self.error(format!("unknown model: {model}"));
        if !self.is_busy() {
            self.say(&Done {});
        }
    }

    /// Whether a prompt would have to wait.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state();
        state.run.is_some() || (state.unsettled.is_some() && state.queued.is_some())
    }

    /// Has a prompt answered, now or when the run that goes on has ended.
    pub(crate) fn take_prompt(&self, wanted: Wanted) {
        if self.offer(wanted) == Offer::Full {
            self.error("a prompt is already queued; send abort first or wait");
        }
    }

    async fn skill_prompt(&self, name: &str, task: Option<&str>) -> Option<String> {
        let skills = self.service::<dyn Skills>()?;
        let lookup =
            || SkillLookup { cwd: Some(self.config.workspace.to_string_lossy().into_owned()), ..Default::default() };
        let known = skills.list(lookup()).await.ok()?;
        let named = known.into_iter().find(|it| it.name.eq_ignore_ascii_case(name))?;
        let skill = skills.get(&named.name, lookup()).await.ok()??;
        let task = task.filter(|it| !it.trim().is_empty()).map(|it| format!("\n\nTask: {it}")).unwrap_or_default();
        Some(format!("Follow the instructions of the skill `{}`.\n\n{}{task}", skill.summary.name, skill.content))
    }
}

/// What is given to the agent.
fn wanted(asked: Asked, choice: Choice) -> Wanted {
    let mut content = vec![ContentBlock::Text { text: asked.text }];
    content.extend(asked.images.into_iter().map(|url| ContentBlock::Image { url }));
    Wanted { content, choice: Some(choice) }
}
