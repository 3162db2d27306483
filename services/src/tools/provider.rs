//! Provides the registry of tools.

use std::sync::Arc;

use linn_bus::{Context, Demand, EffectHandle, Fault, Lookup, NeedList, Plugin, ScopeKey, ServiceError, Svc, provider};

use crate::approval::Approval;
use crate::ids::ToolName;
use crate::model::ToolSchema;
use crate::prompt::{AssembleContext, SystemPrompt, ToolSource};
use crate::tools::entries::Entries;
use crate::tools::execution::Mint;
use crate::tools::pipeline::Pipeline;
use crate::tools::{
    Tool, ToolClaim, ToolExecutionInput, ToolExecutionResult, ToolGuard, ToolRestriction, Tools, ToolsError,
};

/// Provides [`Tools`].
///
/// Questions to a human go to [`Approval`], which is looked up when there is one to ask. Where there is a
/// [`SystemPrompt`], the schemas of the visible tools are a source of tools for it.
#[derive(Debug)]
pub struct ToolsPlugin;

linn_bus::register_plugin!(ToolsPlugin);

impl Plugin for ToolsPlugin {
    const NAME: &'static str = "tools";
    type Config = ();
    type Needs = Lookup<dyn Approval>;

    fn provides(list: &mut NeedList) {
        list.add::<dyn Tools>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), approval: Self::Needs) -> Result<(), Fault> {
        let entries = Arc::new(Entries { ctx: ctx.clone() });
        let pipeline = Arc::new(Pipeline { entries: entries.clone(), approval, mint: Mint::new() });
        ctx.provide::<dyn Tools>(Arc::new(Provider { entries: entries.clone(), pipeline }))?;
        ctx.mount_fn("tools/prompt", move |ctx: Context, prompt: Svc<dyn SystemPrompt>| {
            let entries = entries.clone();
            async move {
                let source = ToolSource::new(move |it: &AssembleContext| schemas(&entries, it.scope.as_ref()));
                prompt.tools(&ctx, source).map(drop)
            }
        })?;
        Ok(())
    }
}

struct Provider {
    entries: Arc<Entries>,
    pipeline: Arc<Pipeline>,
}

fn schemas(entries: &Entries, scope: Option<&ScopeKey>) -> Vec<ToolSchema> {
    entries.visible(scope).into_values().map(|it| it.tool.schema.clone()).collect()
}

#[provider]
impl Tools for Provider {
    fn register(&self, ctx: &Context, tool: Tool) -> Result<EffectHandle, ToolsError> {
        self.entries.register(ctx, tool)
    }

    fn contribute(&self, ctx: &Context, tool: Tool, claim: ToolClaim) -> Result<EffectHandle, ToolsError> {
        self.entries.contribute(ctx, tool, claim)
    }

    fn withhold(&self, ctx: &Context, names: Vec<ToolName>) -> Result<EffectHandle, ToolsError> {
        self.entries.withhold(ctx, names)
    }

    fn guard(&self, ctx: &Context, guard: ToolGuard) -> Result<EffectHandle, ToolsError> {
        self.entries.guard(ctx, guard)
    }

    fn restrict(&self, ctx: &Context, restriction: ToolRestriction) -> Result<EffectHandle, ToolsError> {
        self.entries.restrict(ctx, restriction)
    }

    fn visible(&self, scope: Option<&ScopeKey>) -> Result<Vec<Arc<Tool>>, ServiceError> {
        Ok(self.entries.visible(scope).into_values().map(|it| it.tool.clone()).collect())
    }

    fn get(&self, scope: Option<&ScopeKey>, name: &ToolName) -> Result<Option<Arc<Tool>>, ServiceError> {
        Ok(self.entries.visible(scope).remove(name).map(|it| it.tool.clone()))
    }

    fn schemas(&self, scope: Option<&ScopeKey>) -> Result<Vec<ToolSchema>, ServiceError> {
        Ok(schemas(&self.entries, scope))
    }

    async fn execute(&self, input: ToolExecutionInput) -> Result<ToolExecutionResult, ServiceError> {
        Ok(self.pipeline.run(&input).await)
    }
}
