//! `loader/*`, `hmr/*` and `exit`: what becomes of plugins, and of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use linn_bus::Event;
use serde::Serialize;
use serde_json::Value;

/// An entry of the plugin tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginEntry {
    /// Its id.
    pub id: String,
    /// The plugin it mounts.
    pub plugin: String,
    /// The group it is in; `None` for the top.
    pub parent: Option<String>,
    /// Its config. It may hold secrets, so it is not shown.
    #[serde(skip)]
    pub config: Value,
}

/// An entry is about to be mounted for the first time.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the loader, before the plugin is looked for.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "loader/entry-init", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct LoaderEntryInit {
    /// The entry.
    pub entry: PluginEntry,
}

/// What is said of an entry that runs changed. Whoever answers `false` keeps the entry as it is.
///
/// - Mode: waterfall; the default answers `true`. The change is applied after that.
/// - Scope: none.
/// - Emitted by: the loader, before it mounts, moves, reconfigures or replaces.
/// - On listener error or panic: the entry stays as it is, and that is reported.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "loader/patch-context", mode = Waterfall, output = bool, view)]
#[serde(rename_all = "camelCase")]
pub struct LoaderPatchContext {
    /// The entry as it is to be.
    pub entry: PluginEntry,
    /// What changes of it, by field: `plugin`, `config`, `place`, `services`.
    pub changed: Vec<String>,
}

/// An entry that runs was replaced by what is said of it now, or goes.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the loader, before a change is applied, and before an entry is disposed.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "loader/partial-dispose", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct LoaderPartialDispose {
    /// The entry as it was.
    pub old: PluginEntry,
    /// Whether it stays, changed.
    pub is_active: bool,
}

/// The program itself changed an entry, which is to be kept in the user file.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the loader, when a plugin disposed itself, and when an entry was changed through it.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "loader/config-update", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct LoaderConfigUpdate {
    /// Id of the entry.
    pub id: String,
    /// Its new config, if that changed. It may hold secrets, so it is not shown.
    #[serde(skip)]
    pub config: Option<Value>,
    /// Whether it is disabled now, if that changed.
    pub is_disabled: Option<bool>,
}

/// A watched file changed that is neither a library nor a config file.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the loader, once the file has been left alone for a moment.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "hmr/change", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct HmrChange {
    /// The file.
    pub path: PathBuf,
}

/// New versions of plugins were switched in.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the loader, after all of a library were switched; not when one failed.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "hmr/reload", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct HmrReload {
    /// The library that each plugin comes from, by the id of its entry.
    pub plugins: BTreeMap<String, PathBuf>,
}

/// The program is about to end.
///
/// - Mode: parallel, to everybody.
/// - Scope: none.
/// - Emitted by: the program, before it disposes its plugins.
/// - On listener error or panic: logged; the program ends all the same.
/// - Cancelled by: a second signal.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "exit", mode = Parallel, view)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// The signal that ends it, if it was one.
    pub signal: Option<String>,
}
