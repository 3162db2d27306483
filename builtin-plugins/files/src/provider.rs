//! The provider of `dyn Fs`.

use std::sync::Arc;

use linn_bus::{Context, Fault, Ids, Inject, Lookup, NeedList, Plugin, provider};
use linn_services::approval::{ApprovalMode, ApprovalModes};
use linn_services::fs::{
    Fs, FsEntry, FsError, FsFile, FsFind, FsFound, FsKind, FsMetadata, FsSearch, FsSearchResult, FsTarget,
    FsWriteIntent,
};
use linn_services::ids::FsVersion;

use crate::config::{Confinement, FsConfig};
use crate::system::{Stop, Tree, Workers};

/// Provides [`Fs`] for one folder.
#[derive(Debug)]
pub struct FsPlugin;

/// What [`FsPlugin`] looks up where its config says so.
#[derive(Inject)]
pub struct FsNeeds {
    modes: Lookup<dyn ApprovalModes>,
}

impl Plugin for FsPlugin {
    const NAME: &'static str = "fs";
    type Config = FsConfig;
    type Needs = FsNeeds;

    fn validate(config: &FsConfig) -> Result<(), Fault> {
        let FsConfig { workspace, .. } = config;
        if !workspace.is_absolute() {
            return Err(Fault::msg(format!(
                "`workspace` is an absolute path to a folder, and {workspace:?} is not absolute"
            )));
        }
        Ok(())
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Fs>(linn_bus::Demand::Required);
    }

    async fn start(ctx: &Context, config: FsConfig, needs: FsNeeds) -> Result<(), Fault> {
        let FsConfig { workspace, confinement, n_threads } = config;
        let open = |confinement| match Tree::open(&workspace, confinement) {
            Ok(tree) => Ok(Arc::new(tree)),
            Err(error) => Err(Fault::msg(format!("the workspace {workspace:?} cannot be opened: {error}"))),
        };
        let (tree, unconfined) = match confinement {
            Confinement::ByApproval => (open(Confinement::Workspace)?, Some(open(Confinement::None)?)),
            fixed => (open(fixed)?, None),
        };
        let workers = Workers::start(ctx, n_threads)?;
        let unconfined = unconfined.map(|tree| Unconfined { tree, modes: needs.modes });
        ctx.provide::<dyn Fs>(Arc::new(Provider { tree, unconfined, workers, ids: ctx.ids().clone() }))?;
        Ok(())
    }
}

/// All files, for as long as nothing is asked about.
struct Unconfined {
    tree: Arc<Tree>,
    modes: Lookup<dyn ApprovalModes>,
}

struct Provider {
    tree: Arc<Tree>,
    unconfined: Option<Unconfined>,
    workers: Workers,
    ids: Arc<dyn Ids>,
}

impl Provider {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Tree, &Stop) -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let unconfined = match &self.unconfined {
            Some(it) => is_off(&it.modes).await.then(|| it.tree.clone()),
            None => None,
        };
        let tree = unconfined.unwrap_or_else(|| self.tree.clone());
        self.workers.run(move |stop| job(&tree, stop)).await
    }
}

/// Whether nothing is asked about. Nobody who could say means no.
async fn is_off(modes: &Lookup<dyn ApprovalModes>) -> bool {
    let mode = match modes.get().await {
        Ok(modes) => modes.and_then(|it| it.mode().ok()),
        Err(_) => None,
    };
    mode == Some(ApprovalMode::Never)
}

#[provider]
impl Fs for Provider {
    async fn resolve(&self, path: &str) -> Result<FsTarget, FsError> {
        let path = path.to_owned();
        self.run(move |tree, _| tree.resolve(&path)).await
    }

    async fn read(&self, path: &str, limit_bytes: u64) -> Result<FsFile, FsError> {
        let path = path.to_owned();
        self.run(move |tree, _| tree.read(&path, limit_bytes)).await
    }

    async fn write(&self, path: &str, content: &[u8], intent: FsWriteIntent) -> Result<FsVersion, FsError> {
        let (path, content, number) = (path.to_owned(), content.to_vec(), self.ids.next_u64());
        self.run(move |tree, _| tree.write(&path, &content, &intent, number)).await
    }

    async fn list(&self, path: &str) -> Result<Vec<FsEntry>, FsError> {
        let path = path.to_owned();
        self.run(move |tree, _| tree.list(&path)).await
    }

    async fn metadata(&self, path: &str) -> Result<Option<FsMetadata>, FsError> {
        let path = path.to_owned();
        self.run(move |tree, _| tree.metadata(&path)).await
    }

    async fn create_folder(&self, path: &str) -> Result<(), FsError> {
        let path = path.to_owned();
        self.run(move |tree, _| tree.create_folder(&path)).await
    }

    async fn delete(&self, path: &str) -> Result<FsKind, FsError> {
        let path = path.to_owned();
        self.run(move |tree, _| tree.delete(&path)).await
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), FsError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.run(move |tree, _| tree.rename(&from, &to)).await
    }

    async fn find(&self, query: FsFind) -> Result<FsFound, FsError> {
        self.run(move |tree, stop| tree.find(&query, stop)).await
    }

    async fn search(&self, query: FsSearch) -> Result<FsSearchResult, FsError> {
        self.run(move |tree, stop| tree.search(&query, stop)).await
    }
}
