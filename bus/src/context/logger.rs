//! Loggers that carry the plugin's name.

use std::sync::Arc;

use super::Context;

/// # Logging
impl Context {
    /// A logger with the name of the plugin, or the one given with [`named`](Self::named).
    pub fn logger(&self) -> Logger {
        Logger(
            self.view()
                .rest
                .as_ref()
                .and_then(|it| it.logger.clone())
                .unwrap_or_else(|| self.activation().identity.name.clone()),
        )
    }

    /// A context whose loggers, and those of what is made from it, have this name.
    pub fn named(&self, name: &str) -> Self {
        self.with_view(|view| view.rest().logger = Some(name.into()))
    }
}

/// Writes `tracing` events that carry the plugin's name.
#[derive(Debug, Clone)]
pub struct Logger(Arc<str>);

impl Logger {
    /// A logger of another name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name, as the field `plugin` of what it writes.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Something broke.
    pub fn error(&self, text: impl std::fmt::Display) {
        tracing::error!(plugin = &*self.0, "{text}");
    }

    /// Something looks wrong.
    pub fn warn(&self, text: impl std::fmt::Display) {
        tracing::warn!(plugin = &*self.0, "{text}");
    }

    /// Something worth knowing happened.
    pub fn info(&self, text: impl std::fmt::Display) {
        tracing::info!(plugin = &*self.0, "{text}");
    }

    /// Something worth knowing while looking for a fault happened.
    pub fn debug(&self, text: impl std::fmt::Display) {
        tracing::debug!(plugin = &*self.0, "{text}");
    }
}
