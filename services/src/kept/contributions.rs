//! Commands and providers of skills.

use std::sync::Arc;

use linn_bus::{BoxFuture, Context, EffectHandle, Fault};

use super::{Keeps, Kept, future};
use crate::commands::{CommandBody, CommandCall, CommandOutput};
use crate::skills::{SkillCandidate, SkillDefinition, SkillError, SkillLookup, SkillProvider, Skills};

impl From<Arc<dyn CommandBody>> for Kept<dyn CommandBody> {
    fn from(body: Arc<dyn CommandBody>) -> Self {
        Self(Arc::new(Keeps::new(body)))
    }
}

impl CommandBody for Keeps<dyn CommandBody> {
    fn run<'a>(&'a self, call: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>> {
        Box::pin(async move { future(|| self.0.run(call)).await? })
    }
}

impl dyn Skills {
    /// Registers a provider. The name `runtime` is reserved.
    ///
    /// # Errors
    ///
    /// The name is taken or reserved, who heard of it failed, and those of the context.
    pub fn register(&self, ctx: &Context, provider: Arc<dyn SkillProvider>) -> Result<EffectHandle, SkillError> {
        self.admit(ctx, provider.into())
    }
}

impl From<Arc<dyn SkillProvider>> for Kept<dyn SkillProvider> {
    fn from(provider: Arc<dyn SkillProvider>) -> Self {
        Self(Arc::new(Keeps::new(provider)))
    }
}

impl SkillProvider for Keeps<dyn SkillProvider> {
    fn name(&self) -> &str {
        self.name(|it| it.name())
    }

    fn list<'a>(&'a self, lookup: &'a SkillLookup) -> BoxFuture<'a, Result<Vec<SkillCandidate>, Fault>> {
        Box::pin(async move { future(|| self.0.list(lookup)).await? })
    }

    fn get<'a>(
        &'a self,
        candidate: &'a SkillCandidate,
        lookup: &'a SkillLookup,
    ) -> BoxFuture<'a, Result<Option<SkillDefinition>, Fault>> {
        Box::pin(async move { future(|| self.0.get(candidate, lookup)).await? })
    }
}
