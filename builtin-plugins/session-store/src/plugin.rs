//! The plugin.

use std::path::PathBuf;
use std::sync::Arc;

use linn_bus::{Context, Fault, NeedList, Plugin};
use linn_services::persistence::{SessionFiles, SessionPersistence};
use linn_services::session::Sessions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::provider::Provider;
use crate::store::Store;
use crate::system::{Disk, SystemDisk};

/// Config of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionStoreConfig {
    /// The folder of sessions that no front end names by a file; an absolute path. It is made if need be.
    pub folder: PathBuf,
    /// Whether only those sessions are kept that a front end names by a file.
    #[serde(default)]
    pub named_only: bool,
}

impl SessionStoreConfig {
    /// Keeps every session; those that nobody names by a file in this folder, an absolute path.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), named_only: false }
    }
}

/// Provides [`SessionPersistence`] and [`SessionFiles`] on the disk of the machine.
#[derive(Debug)]
pub struct SessionStorePlugin;

linn_bus::plugin!(SessionStorePlugin);

impl Plugin for SessionStorePlugin {
    const NAME: &'static str = "session-store";
    type Config = SessionStoreConfig;
    type Needs = ();

    fn validate(config: &SessionStoreConfig) -> Result<(), Fault> {
        match config.folder.is_absolute() {
            true => Ok(()),
            false => Err(Fault::msg(format!("`folder` is {:?}; it has to be an absolute path", config.folder))),
        }
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn SessionPersistence>(linn_bus::Demand::Required);
        list.add::<dyn SessionFiles>(linn_bus::Demand::Required);
    }

    async fn start(ctx: &Context, config: SessionStoreConfig, (): ()) -> Result<(), Fault> {
        start_on(ctx, config, Arc::new(SystemDisk))
    }
}

/// Does what the plugin does when it starts, on a disk of your own.
///
/// # Errors
///
/// When the context is not active, or somebody provides one of the seams already.
pub fn start_on(ctx: &Context, config: SessionStoreConfig, disk: Arc<dyn Disk>) -> Result<(), Fault> {
    let store = Arc::new(Store::new(ctx.clone(), disk, config));
    let closing = store.clone();
    // The first effect is undone last: nobody logs or asks any more.
    ctx.effect("session logs", |fx| fx.defer(move || closing.close()))?;
    ctx.on_with(&store, Store::created)?;
    ctx.on_with(&store, Store::logged)?;
    ctx.on_with(&store, Store::flush)?;
    ctx.on_with(&store, Store::disposed)?;
    ctx.on_with(&store, Store::retry)?;
    if let Some(sessions) = ctx.get::<dyn Sessions>() {
        sessions.list()?.into_iter().for_each(|it| store.adopt(it));
    }
    ctx.provide::<dyn SessionPersistence>(Arc::new(Provider(store.clone())))?;
    ctx.provide::<dyn SessionFiles>(Arc::new(Provider(store)))?;
    Ok(())
}
