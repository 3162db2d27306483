//! The commands there are.

use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{Context, Demand, EffectHandle, Event, Fault, NeedList, Plugin, provider};

use crate::commands::{Command, CommandCall, CommandError, CommandInfo, CommandOutput, Commands};
use crate::events::CommandsChange;

/// Provides [`Commands`].
#[derive(Debug)]
pub struct CommandsPlugin;

linn_bus::register_plugin!(CommandsPlugin);

impl Plugin for CommandsPlugin {
    const NAME: &'static str = "commands";
    type Config = ();
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Commands>(Demand::Required);
    }

    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Commands>(Arc::new(Registry { ctx: ctx.clone() }))?;
        Ok(())
    }
}

/// Asks for the commands, in the order of their plugins.
#[derive(Event)]
#[event(name = "internal/commands/entries", mode = Emit)]
struct CollectCommands {
    found: Mutex<Vec<Arc<Entry>>>,
}

struct Entry {
    command: Command,
    plugin: String,
}

struct Registry {
    ctx: Context,
}

impl Registry {
    /// One command a name, by name; of two the earlier plugin's.
    fn all(&self) -> Vec<Arc<Entry>> {
        let collect = CollectCommands { found: Mutex::default() };
        self.ctx.emit(&collect);
        let mut all = collect.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by(|a, b| a.command.name.cmp(&b.command.name));
        all.dedup_by(|later, first| later.command.name == first.command.name);
        all
    }
}

#[provider]
impl Commands for Registry {
    fn register(&self, ctx: &Context, command: Command) -> Result<EffectHandle, CommandError> {
        let name = command.name.clone();
        if ctx.fiber().is_visible() && self.all().iter().any(|it| it.command.name == name) {
            return Err(CommandError::Duplicate(name));
        }
        let registry = self.ctx.clone();
        let entry = Arc::new(Entry { command, plugin: ctx.plugin().to_owned() });
        let handle = ctx.effect(&format!("command /{name}"), |fx| -> Result<(), linn_bus::BusError> {
            fx.defer(move || registry.emit(&CommandsChange::new()));
            fx.own(ctx.on(move |it: &CollectCommands| {
                it.found.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
            })?);
            Ok(())
        })?;
        match self.ctx.try_emit(&CommandsChange::new()) {
            Ok(()) => Ok(handle),
            Err(errors) => {
                // Nothing of it waits: it is undone when this returns.
                drop(handle.dispose());
                Err(CommandError::Refused(errors))
            }
        }
    }

    fn list(&self) -> Result<Vec<CommandInfo>, CommandError> {
        let info = |it: &Arc<Entry>| CommandInfo {
            name: it.command.name.clone(),
            description: it.command.description.clone(),
            plugin: it.plugin.clone(),
        };
        Ok(self.all().iter().map(info).collect())
    }

    async fn run(&self, name: &str, call: CommandCall) -> Result<CommandOutput, CommandError> {
        let all = self.all();
        let Some(entry) = all.iter().find(|it| it.command.name == name) else {
            let near = all.iter().map(|it| (strsim::jaro_winkler(name, &it.command.name), &it.command.name));
            let similar = near.filter(|it| it.0 > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1.clone());
            return Err(CommandError::Unknown { name: name.to_owned(), similar });
        };
        let ran = entry.command.body.run(call).await;
        ran.map_err(|cause| CommandError::Failed { name: name.to_owned(), cause })
    }
}
