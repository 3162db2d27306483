//! What changed by itself, or through somebody else than the front end.

use std::sync::atomic::Ordering;

use linn_services::events::{ProviderModels, SessionUnsaved, SettingsChanged};

use crate::bridge::Bridge;
use crate::wire::events::ConfigChanged;

impl Bridge {
    pub(crate) fn settings_changed(&self, event: &SettingsChanged) {
        if !self.is_setting.load(Ordering::Acquire) {
            self.say(&ConfigChanged { key: &event.name, value: &event.value });
        }
    }

    /// Before the first `ready` nobody has seen others.
    pub(crate) fn models_changed(&self, _: &ProviderModels) {
        if self.has_greeted.load(Ordering::Acquire) && !self.is_providing.load(Ordering::Acquire) {
            self.tell_models();
        }
    }

    /// An `error` would end the turn for the front end, and the session goes on in memory.
    pub(crate) fn unsaved(&self, event: &SessionUnsaved) {
        if self.state().is_current(&event.session) {
            let (n, why) = (event.n_records, &event.why);
            self.info(format!("the session could not be saved, and {n} records are in memory alone: {why}"));
        }
    }
}
