//! Payloads and answers as JSON, for whoever looks at a bus without knowing the types on it.
//!
//! An event declares its view; the value is made when somebody asks for it, and never before.

use std::fmt;

use serde_json::Value;

use crate::dispatch::EventRef;
use crate::event::Event;
use crate::pool;

/// What a view of a declared event gives, before panics are looked at.
#[doc(hidden)]
pub type Shown = Result<Value, serde_json::Error>;

/// Why a declared view gave no value.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The payload or answer does not serialise as JSON: a map with keys that are no text, or an error of its own.
    #[error("`{event}` cannot be shown as JSON")]
    Failed {
        /// The event.
        event: &'static str,
        /// What serde said.
        #[source]
        source: serde_json::Error,
    },
    /// The code that makes the value panicked.
    #[error("the view of `{event}` panicked: {text}")]
    Panicked {
        /// The event.
        event: &'static str,
        /// What the panic said.
        text: String,
    },
}

impl ViewError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "VIEW_FAILED",
            Self::Panicked { .. } => "VIEW_PANICKED",
        }
    }
}

/// What a descriptor calls to show what it describes.
#[derive(Clone, Copy)]
pub(crate) struct Json {
    view: fn(EventRef<'_>) -> Option<Shown>,
    pub(crate) schema: fn() -> Option<Value>,
}

impl Json {
    pub(crate) const fn of<E: Event>() -> Self {
        Self { view: |event| event.payload::<E>()?.__view(), schema: E::__schema }
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

/// Runs code of the event's author, whose panic is an error.
pub(crate) fn show(event: &'static str, shown: impl FnOnce() -> Option<Shown>) -> Result<Option<Value>, ViewError> {
    match pool::guarded(shown) {
        Ok(shown) => shown.transpose().map_err(|source| ViewError::Failed { event, source }),
        Err(panic) => Err(ViewError::Panicked { event, text: panic.0 }),
    }
}

impl EventRef<'_> {
    /// The payload as JSON, made now; `None` for an event that declares no `view`.
    ///
    /// # Errors
    ///
    /// [`ViewError`] when the view that was declared fails or panics.
    pub fn view(&self) -> Result<Option<Value>, ViewError> {
        let event = self.descriptor();
        show(event.name, || (event.json.view)(*self))
    }
}

impl crate::InternalDispatch {
    /// The payload as JSON, made now; `None` for an event that declares no `view`.
    ///
    /// # Errors
    ///
    /// As [`EventRef::view`].
    pub fn view(&self) -> Result<Option<Value>, ViewError> {
        self.event_ref().view()
    }
}

/// An answer to `E` as JSON, made now; `None` for an event that declares no `output_view`.
///
/// # Errors
///
/// As [`EventRef::view`].
pub fn output_view<E: Event>(output: &E::Output) -> Result<Option<Value>, ViewError> {
    show(E::NAME, || E::__output_view(output))
}

impl crate::EventDescriptor {
    /// JSON Schema (2020-12) of the payload, made now; `None` for an event that declares no `schema`.
    pub fn schema(&self) -> Option<Value> {
        (self.json.schema)()
    }
}

/// `view` without a value.
#[doc(hidden)]
pub fn serialized<T: serde::Serialize + ?Sized>(value: &T) -> Option<Shown> {
    Some(serde_json::to_value(value))
}

/// `view = path`.
#[doc(hidden)]
pub fn shown_by<T>(show: impl FnOnce(&T) -> Value, value: &T) -> Option<Shown> {
    Some(Ok(show(value)))
}

/// `schema`.
#[doc(hidden)]
pub fn schema_of<T: schemars::JsonSchema>() -> Option<Value> {
    Some(schemars::SchemaGenerator::default().into_root_schema_for::<T>().to_value())
}
