//! What changed by itself, or through somebody else than the front end.

use std::sync::atomic::Ordering;

use linn_services::events::{ProviderModels, SessionSaved, SessionUnsaved, SettingsChanged};
use linn_services::ids::SessionId;
use linn_services::persistence::SessionFiles;
use linn_services::session::Session;

use crate::bridge::{Bridge, State};
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
        let mut state = self.state();
        state.unsaved.insert(event.session.id().clone(), event.why.clone());
        if state.is_current(&event.session) {
            state.is_unsaved_told = true;
            drop(state);
            self.info(unsaved(event.n_records, &event.why));
        }
    }

    pub(crate) fn saved(&self, event: &SessionSaved) {
        let mut state = self.state();
        let was_unsaved = state.unsaved.remove(event.session.id()).is_some();
        if was_unsaved && state.is_current(&event.session) {
            state.is_unsaved_told = false;
            drop(state);
            self.info("the session is saved again, with everything that was in memory alone");
        }
    }

    /// Tells of a turn that is not saved, if nothing did during it.
    pub(crate) fn tell_unsaved(&self, state: &mut State, session: &Session) {
        if std::mem::take(&mut state.is_unsaved_told) {
            return;
        }
        if let Some(why) = state.unsaved.get(session.id()) {
            self.info(unsaved(self.n_unsaved(session.id()), why));
        }
    }

    /// Tells of each session that goes with the program before all of it was saved.
    pub(crate) fn tell_lost(&self) {
        let unsaved = self.state().unsaved.clone();
        for (session, why) in unsaved {
            let n = self.n_unsaved(&session);
            self.info(format!("session {session} ends with {n} records that could not be saved: {why}"));
        }
    }

    fn n_unsaved(&self, session: &SessionId) -> u64 {
        self.service::<dyn SessionFiles>().and_then(|it| it.n_unsaved(session).ok()).unwrap_or(0)
    }
}

fn unsaved(n_records: u64, why: &str) -> String {
    format!("the session could not be saved, and {n_records} records are in memory alone: {why}")
}
