//! `settings/*`: what a user has set.

use linn_bus::Event;
use serde::Serialize;
use serde_json::Value;

/// A setting has another value than before.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `settings` service, after the change. Settings that are secrets are not told.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "settings/changed", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct SettingsChanged {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}
