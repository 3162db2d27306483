//! The plugins that are loaded, with the fibers of those that run.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::PathBuf;
use std::sync::Arc;

use linn_bus::Mounted;
use linn_services::plugin_admin::{PluginFailure, PluginInfo, PluginTrust};

use crate::active::{Active, ScriptPlugin, Seal};
use crate::admin::{Done, View};
use crate::discovery::{Loaded, Scan, Skipped};
use crate::fleet::Fleet;
use crate::manifest::CommandEntry;
use crate::order::Turnstile;
use crate::system::{Digest, digest};

/// How far apart the places of plugins are at first: so many more come between two, half of the rest each time.
const APART: u32 = 1 << 16;

/// The plugins that are loaded.
#[derive(Default)]
pub(crate) struct World {
    plugins: BTreeMap<String, Known>,
    skipped: Vec<Skipped>,
    failures: Vec<PluginFailure>,
}

/// A plugin that is loaded.
struct Known {
    loaded: Loaded,
    is_enabled: bool,
    /// What runs of it.
    running: Option<Running>,
}

struct Running {
    mounted: Mounted<ScriptPlugin>,
    place: u32,
}

impl World {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.plugins.contains_key(name)
    }

    pub(crate) fn is_enabled(&self, name: &str) -> bool {
        self.plugins.get(name).is_some_and(|it| it.is_enabled)
    }

    pub(crate) fn loaded(&self, name: &str) -> Option<Loaded> {
        self.plugins.get(name).map(|it| it.loaded.clone())
    }

    /// What can be decided about under a name or a path, with what it holds now.
    pub(crate) fn decidable(&self, name: &str) -> Vec<(PathBuf, Option<Digest>)> {
        let skipped = self.skipped.iter().filter(|it| it.trust.name == name || it.trust.path == name);
        let skipped = skipped.map(|it| (it.folder.clone(), Some(it.digest.clone())));
        let of_workspace = |it: &&Known| it.loaded.scope == linn_services::plugin_admin::PluginScope::Workspace;
        let is_it = |it: &&Known| it.loaded.manifest.name == name || it.loaded.folder.display().to_string() == name;
        let loaded = self.plugins.values().filter(of_workspace).filter(is_it);
        let loaded = loaded.map(|it| {
            let sealed = it.loaded.sealed.clone();
            (it.loaded.folder.clone(), sealed.or_else(|| digest(&it.loaded.folder).ok()))
        });
        skipped.chain(loaded).collect()
    }

    /// Has the plugins be those of a scan: what is new is mounted, what changed is replaced, what went is gone when this
    /// returns, and what stayed is not touched.
    pub(crate) async fn become_like(
        &mut self,
        fleet: &Arc<Fleet>,
        scan: Scan,
        is_enabled: impl Fn(&str) -> bool,
    ) -> Done<()> {
        self.skipped = scan.skipped;
        self.failures = scan.failures;
        // What is there still, and wrong now, runs on as it was: a gate does not open because of a slip of the pen.
        let is_broken = |it: &Known| {
            let path = it.loaded.found_at.display().to_string();
            self.failures.iter().any(|it| it.path == path)
        };
        let gone: Vec<String> = self
            .plugins
            .iter()
            .filter(|(name, known)| !scan.loaded.contains_key(*name) && !is_broken(known))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(known) = self.plugins.remove(&name) {
                stop(fleet, known.running).await;
            }
        }
        let mut started = Vec::new();
        for (name, loaded) in scan.loaded {
            match self.plugins.get_mut(&name) {
                Some(known) if known.loaded == loaded => {}
                Some(known) => {
                    if let Err(why) = known.replace(fleet, loaded).await {
                        let path = known.loaded.folder.display().to_string();
                        self.failures.push(PluginFailure { path, reason: why.to_string() });
                    }
                }
                None => {
                    let known = Known { loaded, is_enabled: is_enabled(&name), running: None };
                    if known.is_enabled {
                        started.push(name.clone());
                    }
                    self.plugins.insert(name, known);
                }
            }
        }
        self.start_all(fleet, started).await
    }

    /// Enables or disables a plugin; what was disabled is gone when this returns.
    pub(crate) async fn set_enabled(&mut self, fleet: &Arc<Fleet>, name: &str, is_enabled: bool) -> Done<()> {
        let Some(known) = self.plugins.get_mut(name) else { return Ok(()) };
        known.is_enabled = is_enabled;
        if !is_enabled {
            stop(fleet, known.running.take()).await;
        } else if known.running.is_none() {
            self.start_all(fleet, vec![name.to_owned()]).await?;
        }
        Ok(())
    }

    /// Mounts plugins, each in the place of its name, and waits until they run. They start side by side.
    async fn start_all(&mut self, fleet: &Arc<Fleet>, names: Vec<String>) -> Done<()> {
        for name in &names {
            if self.free_place(name).is_none() {
                self.spread(fleet).await?;
            }
            let place = self.free_place(name).unwrap_or(APART);
            let Some(known) = self.plugins.get_mut(name) else { continue };
            known.start(fleet, place)?;
        }
        for name in &names {
            let Some(known) = self.plugins.get(name) else { continue };
            let Some(running) = &known.running else { continue };
            if let Err(error) = running.mounted.running().await {
                let (path, reason) = (known.loaded.folder.display().to_string(), format!("{error:#}"));
                self.failures.push(PluginFailure { path, reason });
            }
        }
        Ok(())
    }

    /// A place between those of the names around it, if there is one.
    fn free_place(&self, name: &str) -> Option<u32> {
        let place = |it: (&String, &Known)| it.1.running.as_ref().map(|it| it.place);
        let (ahead, behind) = ((Unbounded, Excluded(name)), (Excluded(name), Unbounded));
        let before = self.plugins.range::<str, _>(ahead).rev().find_map(place).unwrap_or(0);
        match self.plugins.range::<str, _>(behind).find_map(place) {
            Some(after) if after - before < 2 => None,
            Some(after) => Some(before + (after - before) / 2),
            None => before.checked_add(APART),
        }
    }

    /// Gives all that run new places with room between them.
    async fn spread(&mut self, fleet: &Arc<Fleet>) -> Done<()> {
        let mut place = 0;
        for known in self.plugins.values_mut() {
            if let Some(running) = known.running.take() {
                stop(fleet, Some(running)).await;
                place += APART;
                known.start(fleet, place)?;
            }
        }
        Ok(())
    }

    /// What readers see.
    pub(crate) fn view(&self) -> View {
        let mut skipped: Vec<PluginTrust> = self.skipped.iter().map(|it| it.trust.clone()).collect();
        skipped.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
        View {
            plugins: self.plugins.values().map(Known::info).collect(),
            loaded: self.plugins.values().map(|it| (it.loaded.clone(), it.is_enabled)).collect(),
            skipped,
            failures: self.failures.clone(),
        }
    }
}

impl Known {
    fn start(&mut self, fleet: &Arc<Fleet>, place: u32) -> Done<()> {
        let mounted = fleet.ctx.mount_at::<ScriptPlugin>(place, active(fleet, &self.loaded))?;
        self.running = Some(Running { mounted, place });
        Ok(())
    }

    /// Puts another version in its place in one step; the old one runs on if that does not start. Gives why.
    async fn replace(&mut self, fleet: &Arc<Fleet>, loaded: Loaded) -> Result<(), ReplaceError> {
        let before = std::mem::replace(&mut self.loaded, loaded);
        let Some(running) = &mut self.running else { return Ok(()) };
        let active = active(fleet, &self.loaded);
        let prepared = fleet.ctx.prepare_for::<ScriptPlugin>(running.mounted.fiber(), active);
        let switched = match prepared {
            Ok(prepared) => prepared.switch().await,
            Err(error) => Err(error),
        };
        match switched {
            Ok(switched) => {
                running.mounted = switched.mounted().clone();
                Ok(())
            }
            Err(error) => {
                self.loaded = before;
                Err(ReplaceError(format!("the new version does not start, so the old one runs on: {error:#}")))
            }
        }
    }

    fn info(&self) -> PluginInfo {
        let Loaded { manifest, folder, scope, .. } = &self.loaded;
        let mut hooks: Vec<String> = manifest.hooks.keys().map(|it| it.as_str().to_owned()).collect();
        hooks.sort();
        PluginInfo {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            enabled: self.is_enabled,
            description: manifest.description.clone(),
            hooks,
            tools: manifest.tools.iter().map(|it| it.name.clone()).collect(),
            commands: manifest.commands.iter().map(|it: &CommandEntry| it.name.clone()).collect(),
            disable_tools: manifest.disable_tools.clone(),
            has_oauth: manifest.oauth.is_some(),
            has_memory_provider: manifest.memory_provider.is_some(),
            has_system_prompt: !manifest.system_prompt.trim().is_empty(),
            path: folder.display().to_string(),
            scope: *scope,
        }
    }
}

fn active(fleet: &Arc<Fleet>, loaded: &Loaded) -> Arc<Active> {
    Arc::new(Active {
        manifest: loaded.manifest.clone(),
        folder: loaded.folder.clone(),
        seal: loaded.sealed.clone().map(Seal::new),
        life: Turnstile::default(),
        opening: Turnstile::default(),
        scripts: fleet.scripts.clone(),
    })
}

/// Why a version was not put in the place of another.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ReplaceError(String);

/// Ends a plugin; all its scripts are gone then.
async fn stop(fleet: &Arc<Fleet>, running: Option<Running>) {
    if let Some(running) = running
        && let Err(left) = running.mounted.dispose().await
    {
        fleet.ctx.logger().error(left);
    }
}
