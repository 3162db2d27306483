//! The providers of skills, and what they have together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Demand, EffectHandle, Event, Fault, NeedList, Plugin, provider};

use crate::events::{SkillProviderAdded, SkillProviderRemoved};
use crate::kept::Kept;
use crate::skills::catalogue::{Ranked, check, winners};
use crate::skills::{
    RUNTIME_PROVIDER, RUNTIME_RANK, RuntimeSkill, SkillCandidate, SkillDefinition, SkillError, SkillLookup,
    SkillProvider, SkillSummary, Skills,
};

/// Provides [`Skills`].
#[derive(Debug)]
pub struct SkillsPlugin;

linn_bus::register_plugin!(SkillsPlugin);

impl Plugin for SkillsPlugin {
    const NAME: &'static str = "skills";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Skills>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let registry = Registry { ctx: ctx.clone(), generation: Arc::default(), known: Mutex::default() };
        ctx.provide::<dyn Skills>(Arc::new(registry))?;
        Ok(())
    }
}

/// Asks for the providers, in the order of their plugins.
#[derive(Event)]
#[event(name = "internal/skills/providers", mode = Emit)]
struct CollectProviders {
    found: Mutex<Vec<Arc<dyn SkillProvider>>>,
}

/// Asks for the skills defined at run time, in the order of their plugins.
#[derive(Event)]
#[event(name = "internal/skills/runtime", mode = Emit)]
struct CollectRuntime {
    found: Mutex<Vec<Arc<SkillDefinition>>>,
}

struct Registry {
    ctx: Context,
    /// Counts what came and went.
    generation: Arc<AtomicU64>,
    /// What the last complete look-up found, by folder.
    known: Mutex<Option<Known>>,
}

#[derive(Clone)]
struct Known {
    generation: u64,
    cwd: Option<String>,
    skills: Arc<Vec<SkillCandidate>>,
}

fn taken<T>(found: Mutex<Vec<T>>) -> Vec<T> {
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn providers(&self) -> Vec<Arc<dyn SkillProvider>> {
        let collect = CollectProviders { found: Mutex::default() };
        self.ctx.emit(&collect);
        taken(collect.found)
    }

    fn runtime(&self) -> Vec<Arc<SkillDefinition>> {
        let collect = CollectRuntime { found: Mutex::default() };
        self.ctx.emit(&collect);
        taken(collect.found)
    }

    /// The skills there are, one a name; from memory if nothing changed since.
    async fn candidates(&self, lookup: &SkillLookup) -> Result<Arc<Vec<SkillCandidate>>, SkillError> {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(known) = known.filter(|it| it.generation == generation && it.cwd == lookup.cwd) {
                return Ok(known.skills);
            }
            let (found, is_complete) = self.collect(lookup).await?;
            if self.generation.load(Ordering::Acquire) != generation {
                continue;
            }
            let skills = Arc::new(found);
            if is_complete {
                let known = Known { generation, cwd: lookup.cwd.clone(), skills: skills.clone() };
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
            }
            return Ok(skills);
        }
    }

    /// Asks every provider; says whether all of them answered.
    async fn collect(&self, lookup: &SkillLookup) -> Result<(Vec<SkillCandidate>, bool), SkillError> {
        let mut all = Vec::new();
        let mut is_complete = true;
        for (local_order, skill) in self.runtime().into_iter().enumerate() {
            all.push(Ranked { candidate: candidate_of(&skill), provider_order: 0, local_order });
        }
        for (provider_order, provider) in self.providers().into_iter().enumerate() {
            let listed = tokio_util::future::FutureExt::with_cancellation_token(provider.list(lookup), &lookup.signal);
            match listed.await {
                None => return Err(SkillError::Aborted),
                Some(Err(cause)) => {
                    is_complete = false;
                    let name = provider.name();
                    self.ctx.logger().warn(format_args!("skill provider `{name}` is left out: {cause:#}"));
                }
                Some(Ok(listed)) => {
                    for (local_order, candidate) in listed.into_iter().enumerate() {
                        check(&candidate, provider.name())?;
                        all.push(Ranked { candidate, provider_order: provider_order + 1, local_order });
                    }
                }
            }
        }
        Ok((winners(all), is_complete))
    }
}

/// A skill defined at run time, among those of providers.
fn candidate_of(skill: &SkillDefinition) -> SkillCandidate {
    let summary = skill.summary.clone();
    let locator = summary.name.clone();
    SkillCandidate { summary, rank: RUNTIME_RANK, locator, path: None, metadata: None }
}

#[provider]
impl Skills for Registry {
    fn admit(&self, ctx: &Context, provider: Kept<dyn SkillProvider>) -> Result<EffectHandle, SkillError> {
        let provider = provider.into_inner();
        let name = provider.name().to_owned();
        let is_taken = ctx.fiber().is_visible() && self.providers().iter().any(|it| it.name() == name);
        if is_taken || name == RUNTIME_PROVIDER {
            return Err(SkillError::DuplicateProvider(name));
        }
        let (generation, registry) = (self.generation.clone(), self.ctx.clone());
        let (entry, gone) = (provider.clone(), name.clone());
        let handle = ctx.effect(&format!("skill provider {name}"), |fx| -> Result<(), linn_bus::BusError> {
            fx.defer(move || {
                generation.fetch_add(1, Ordering::AcqRel);
                registry.emit(&SkillProviderRemoved { name: gone });
            });
            fx.own(ctx.on(move |it: &CollectProviders| {
                it.found.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
            })?);
            Ok(())
        })?;
        self.generation.fetch_add(1, Ordering::AcqRel);
        match self.ctx.try_emit(&SkillProviderAdded { provider }) {
            Ok(()) => Ok(handle),
            Err(errors) => {
                // Nothing of it waits: it is undone when this returns.
                drop(handle.dispose());
                Err(SkillError::Refused(errors))
            }
        }
    }

    fn define(&self, ctx: &Context, skill: RuntimeSkill) -> Result<EffectHandle, SkillError> {
        let summary = SkillSummary {
            name: skill.name,
            description: skill.description,
            when_to_use: skill.when_to_use,
            disable_model_invocation: false,
            source: ctx.plugin().to_owned(),
            provider: RUNTIME_PROVIDER.to_owned(),
            resource_base: None,
        };
        let skill = Arc::new(SkillDefinition { summary, content: skill.content, path: None, metadata: None });
        check(&candidate_of(&skill), RUNTIME_PROVIDER)?;
        let generation = self.generation.clone();
        let handle = ctx.effect(&format!("skill {}", skill.summary.name), |fx| -> Result<(), linn_bus::BusError> {
            fx.defer(move || {
                generation.fetch_add(1, Ordering::AcqRel);
            });
            fx.own(ctx.on(move |it: &CollectRuntime| {
                it.found.lock().unwrap_or_else(PoisonError::into_inner).push(skill.clone());
            })?);
            Ok(())
        })?;
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(handle)
    }

    async fn list(&self, lookup: SkillLookup) -> Result<Vec<SkillSummary>, SkillError> {
        let skills = self.candidates(&lookup).await?;
        let shown = skills.iter().filter(|it| !it.summary.disable_model_invocation);
        Ok(shown.map(|it| it.summary.clone()).collect())
    }

    async fn get(&self, name: &str, lookup: SkillLookup) -> Result<Option<SkillDefinition>, SkillError> {
        let skills = self.candidates(&lookup).await?;
        let Some(candidate) = skills.iter().find(|it| it.summary.name == name) else { return Ok(None) };
        let from = &candidate.summary.provider;
        if from == RUNTIME_PROVIDER {
            return Ok(self.runtime().iter().find(|it| it.summary.name == name).map(|it| (**it).clone()));
        }
        let Some(provider) = self.providers().into_iter().find(|it| it.name() == from) else { return Ok(None) };
        let asked =
            tokio_util::future::FutureExt::with_cancellation_token(provider.get(candidate, &lookup), &lookup.signal);
        match asked.await {
            None => Err(SkillError::Aborted),
            Some(Ok(found)) => Ok(found),
            Some(Err(cause)) => Err(SkillError::Provider { provider: from.clone(), name: name.to_owned(), cause }),
        }
    }
}
