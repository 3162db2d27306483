//! The plugin.

use std::sync::{Arc, Mutex};

use linn_bus::{Context, Demand, Fault, Inject, Lookup, NeedList, Plugin};
use linn_services::approval::ApprovalModes;
use linn_services::fs::Fs;
use linn_services::tools::Tools;

use crate::config::ApprovalGateConfig;
use crate::gate::{Gate, Modes};
use crate::permissions::Permissions;
use crate::rule::Rules;

/// The gate before tool calls; provides [`ApprovalModes`].
///
/// Mode and permissions are state of this instance: they are those of the config again after a restart, and what was
/// permitted has to be restored.
#[derive(Debug)]
pub struct ApprovalGatePlugin;

/// What [`ApprovalGatePlugin`] looks up when it judges.
#[derive(Inject)]
pub struct ApprovalGateNeeds {
    tools: Lookup<dyn Tools>,
    fs: Lookup<dyn Fs>,
}

impl std::fmt::Debug for ApprovalGateNeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalGateNeeds").finish_non_exhaustive()
    }
}

linn_bus::plugin!(ApprovalGatePlugin);

impl Plugin for ApprovalGatePlugin {
    const NAME: &'static str = "approval";
    type Config = ApprovalGateConfig;
    type Needs = ApprovalGateNeeds;

    fn provides(list: &mut NeedList) {
        list.add::<dyn ApprovalModes>(Demand::Required);
    }

    async fn start(ctx: &Context, config: ApprovalGateConfig, needs: ApprovalGateNeeds) -> Result<(), Fault> {
        let rules = Rules::read(&config);
        for report in &rules.reports {
            if let Some(problem) = &report.problem {
                ctx.logger().warn(format_args!("rule `{}`: {problem}", report.rule));
            }
        }
        let gate = Arc::new(Gate {
            ctx: ctx.clone(),
            rules,
            mode: Mutex::new(config.mode),
            permissions: Permissions::default(),
            shown: Mutex::default(),
            tools: needs.tools,
            fs: needs.fs,
        });
        ctx.on_with(&gate, Gate::pre_execute)?;
        // Ahead of whoever asks the human.
        ctx.first().on_with(&gate, Gate::answer)?;
        ctx.on_with(&gate, Gate::result)?;
        ctx.provide::<dyn ApprovalModes>(Arc::new(Modes(gate)))?;
        Ok(())
    }
}
