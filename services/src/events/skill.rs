//! `skill/*`: who brings skills.

use std::sync::Arc;

use linn_bus::Event;
use serde::Serialize;

use crate::skills::SkillProvider;

/// A provider of skills can be asked.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `skills` service, before the registration returns.
/// - On listener error or panic: the provider is taken back, and its registration fails.
/// - Cancelled by: nothing.
#[derive(Clone, Event, Serialize)]
#[event(name = "skill/provider-added", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct SkillProviderAdded {
    /// The provider.
    #[serde(serialize_with = "by_name")]
    pub provider: Arc<dyn SkillProvider>,
}

/// A provider of skills is gone.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the `skills` service, when the plugin of the provider goes.
/// - On listener error or panic: logged; the others hear it all the same.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "skill/provider-removed", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct SkillProviderRemoved {
    /// Its name.
    pub name: String,
}

/// A provider is shown by its name.
fn by_name<S: serde::Serializer>(provider: &Arc<dyn SkillProvider>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(provider.name())
}
