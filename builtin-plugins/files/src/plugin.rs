//! The plugins that put the parts of this crate together.

use std::sync::Arc;

use linn_bus::{Context, Fault, Inject, NeedList, Plugin, Svc};
use linn_services::fs::Fs;
use linn_services::tools::Tools;

use crate::config::FilesConfig;
use crate::policy::FsPolicyPlugin;
use crate::provider::FsPlugin;
use crate::tools::{Files, all};

/// The files of a workspace: [`FsPlugin`], [`FileToolsPlugin`], and [`FsPolicyPlugin`] if the config wants it.
#[derive(Debug)]
pub struct FilesPlugin;

linn_bus::plugin!(FilesPlugin, FileToolsPlugin, FsPlugin, FsPolicyPlugin);

impl Plugin for FilesPlugin {
    const NAME: &'static str = "files";
    type Config = FilesConfig;
    type Needs = ();

    fn validate(config: &FilesConfig) -> Result<(), Fault> {
        FsPlugin::validate(&config.fs())
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Fs>(linn_bus::Demand::Required);
    }

    async fn start(ctx: &Context, config: FilesConfig, (): ()) -> Result<(), Fault> {
        // A workspace that cannot be opened is the fault of this config.
        ctx.mount::<FsPlugin>(config.fs())?.running().await?;
        if config.read_before_write {
            ctx.mount::<FsPolicyPlugin>(())?.running().await?;
        }
        // The tools wait for their registry by themselves.
        ctx.mount::<FileToolsPlugin>(())?.settled().await?;
        Ok(())
    }
}

/// The model's tools for files, for whichever files [`Fs`] reaches.
#[derive(Debug)]
pub struct FileToolsPlugin;

/// What the tools need.
#[derive(Inject)]
pub struct FileToolsNeeds {
    fs: Svc<dyn Fs>,
    tools: Svc<dyn Tools>,
}

impl Plugin for FileToolsPlugin {
    const NAME: &'static str = "file-tools";
    type Config = ();
    type Needs = FileToolsNeeds;

    async fn start(ctx: &Context, (): (), needs: FileToolsNeeds) -> Result<(), Fault> {
        let FileToolsNeeds { fs, tools } = needs;
        for tool in all(&Arc::new(Files { ctx: ctx.clone(), fs })) {
            tools.register(ctx, tool)?;
        }
        Ok(())
    }
}
