//! `providers/*`: who answers for models.

use linn_bus::Event;
use serde::Serialize;

use crate::providers::ProviderInfo;

/// The providers, the active one among them, or a key of one changed.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `providers` service, after the change.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "providers/changed", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct ProvidersChanged {
    /// The one that is asked first now.
    pub active: ProviderInfo,
}

/// Other models can be asked than before.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `providers` service, after models were looked for and others were found than were known.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "providers/models", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct ProviderModels {
    /// How many there are.
    pub n_models: usize,
}
