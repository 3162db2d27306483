//! The plugins that put the parts of this crate together.

use std::sync::Arc;

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, provider};
use linn_services::shell::{Shell, ShellCommand, ShellError, ShellOutput};

use crate::bash::BashPlugin;
use crate::config::ShellConfig;
use crate::deny::DenyList;
use crate::system::{House, run};

/// Commands: [`ShellServicePlugin`] and [`BashPlugin`].
#[derive(Debug)]
pub struct ShellPlugin;

linn_bus::plugin!(ShellPlugin, ShellServicePlugin, BashPlugin);

impl Plugin for ShellPlugin {
    const NAME: &'static str = "shell";
    type Config = ShellConfig;
    type Needs = ();

    fn validate(config: &ShellConfig) -> Result<(), Fault> {
        ShellServicePlugin::validate(config)?;
        BashPlugin::validate(config)
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Shell>(Demand::Required);
    }

    async fn start(ctx: &Context, config: ShellConfig, (): ()) -> Result<(), Fault> {
        let service = ctx.mount::<ShellServicePlugin>(config.clone())?;
        ctx.mount::<BashPlugin>(config)?;
        // The tool waits for the registry by itself; commands that cannot run are the fault of this config.
        service.running().await?;
        Ok(())
    }
}

/// Provides [`Shell`].
///
/// When it goes, everything that was started through it goes as well, also what commands left behind.
#[derive(Debug)]
pub struct ShellServicePlugin;

impl Plugin for ShellServicePlugin {
    const NAME: &'static str = "shell-service";
    type Config = ShellConfig;
    type Needs = ();

    fn validate(config: &ShellConfig) -> Result<(), Fault> {
        if let Some(workspace) = config.workspace.as_ref().filter(|it| !it.is_absolute()) {
            let workspace = workspace.display();
            return Err(Fault::msg(format!(
                "workspace: {workspace} is no absolute path; name the folder from the root"
            )));
        }
        DenyList::new(&config.bash)?;
        if config.shell.as_ref().is_some_and(|it| it.trim().is_empty()) {
            return Err(Fault::msg("shell: the name of the program is empty; leave it out for the default"));
        }
        Ok(())
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Shell>(Demand::Required);
    }

    async fn start(ctx: &Context, config: ShellConfig, (): ()) -> Result<(), Fault> {
        let deny = DenyList::new(&config.bash)?;
        let house = House::open(ctx, config)?;
        ctx.provide::<dyn Shell>(Arc::new(Provider { house, deny }))?;
        Ok(())
    }
}

struct Provider {
    house: Arc<House>,
    deny: DenyList,
}

#[provider]
impl Shell for Provider {
    async fn run(&self, command: ShellCommand) -> Result<ShellOutput, ShellError> {
        run(&self.house, command).await
    }

    fn refusal(&self, line: &str) -> Result<Option<String>, ShellError> {
        Ok(self.deny.refuses(line))
    }
}

/// What is wrong with the config of the tool.
pub(crate) fn check_bash(config: &ShellConfig) -> Result<(), Fault> {
    let bash = &config.bash;
    if bash.timeout_s == 0 || bash.timeout_s > bash.max_timeout_s {
        let (timeout, max) = (bash.timeout_s, bash.max_timeout_s);
        return Err(Fault::msg(format!(
            "bash.timeout-s: {timeout} is not between 1 and bash.max-timeout-s, which is {max}"
        )));
    }
    if bash.limit_bytes < 1024 {
        return Err(Fault::msg(format!("bash.limit-bytes: {} is less than 1024", bash.limit_bytes)));
    }
    DenyList::new(bash).map(drop)
}
