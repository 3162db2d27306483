//! What a library exports, and how its copy of the bus is tied to that of the program.

use std::sync::Arc;

use super::logs;
#[cfg(feature = "around")]
use crate::around;
use crate::descriptor::{PluginDescriptor, plugin_catalogue};
use crate::event::{EventDescriptor, EventRegistration, event_catalogue};
#[cfg(feature = "around")]
use crate::fault::Fault;
use crate::intern::{self, Numbers};
use crate::service::{ServiceDescriptor, service_catalogue};

/// What the exported function of a library returns.
pub struct Entry {
    /// The record that stands in the file as well.
    pub header: &'static [u8],
    attach: fn(&Attach) -> Result<(), AttachError>,
    contents: fn(&'static str) -> LibraryContents,
    detach: fn(),
    krate: &'static str,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("krate", &self.krate).finish_non_exhaustive()
    }
}

impl Entry {
    #[doc(hidden)]
    pub const fn new(header: &'static [u8], krate: &'static str) -> Self {
        // Of this copy of the bus, wherever it is called from.
        Self { header, attach, contents, detach, krate }
    }

    /// Ties the library to the program. Comes before everything else; again and again does no harm.
    ///
    /// # Errors
    ///
    /// The library cannot be tied; nothing of it may be used.
    pub fn attach(&self, to: &Attach) -> Result<(), AttachError> {
        (self.attach)(to)
    }

    /// What is in it.
    pub fn contents(&self) -> LibraryContents {
        (self.contents)(self.krate)
    }

    /// Ends what the library runs by itself. Its plugins are gone by then.
    pub fn detach(&self) {
        (self.detach)();
    }
}

/// What is in a library.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct LibraryContents {
    /// Its plugins, by name.
    pub plugins: Vec<&'static PluginDescriptor>,
    /// Events it knows, those of the crates it is built from too.
    pub events: Vec<&'static EventDescriptor>,
    /// Services it knows, likewise.
    pub services: Vec<&'static ServiceDescriptor>,
}

/// The program, as a library meets it.
pub struct Attach {
    numbers: Numbers,
    logs: Arc<dyn logs::Sink>,
}

impl std::fmt::Debug for Attach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attach")
    }
}

impl Attach {
    /// This program. Log lines and panics of the library appear with the name `library`.
    pub fn here(library: &str) -> Self {
        Self { numbers: intern::numbers(), logs: logs::sink(library) }
    }
}

/// Why a library could not be tied to the program.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Code of the library used the bus before it was attached.
    #[error(
        "the library used its copy of the bus before it was attached; it must not do anything in a static constructor"
    )]
    InUse,
    /// Two types of the library are declared by one text at one place, so that nobody can tell them apart.
    #[error("event `{event}` is declared twice by one macro call; name the two differently")]
    Ambiguous {
        /// The event.
        event: &'static str,
    },
    /// The runtime of the library does not start.
    #[error("the runtime of the library does not start: {text}")]
    Runtime {
        /// Why.
        text: String,
    },
}

impl AttachError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse => "LIBRARY_IN_USE",
            Self::Ambiguous { .. } => "LIBRARY_AMBIGUOUS",
            Self::Runtime { .. } => "LIBRARY_RUNTIME",
        }
    }
}

/// Runs a function inside of something.
#[cfg(feature = "around")]
pub(crate) type Around = fn(&mut dyn FnMut());

/// A runtime that a library brings for its own code. Needs the feature `around`.
#[cfg(feature = "around")]
#[derive(Debug, Clone, Copy)]
pub struct Runtime {
    /// Starts it.
    pub start: fn() -> Result<(), Fault>,
    /// Runs a function inside of it.
    pub around: fn(&mut dyn FnMut()),
    /// Ends it, with everything that runs in it.
    pub end: fn(),
}

/// One link-time registration of a runtime.
#[cfg(feature = "around")]
#[derive(Debug)]
pub struct RuntimeRegistration(pub &'static Runtime);
#[cfg(feature = "around")]
inventory::collect!(RuntimeRegistration);

#[cfg(feature = "around")]
fn runtime() -> Option<&'static Runtime> {
    inventory::iter::<RuntimeRegistration>.into_iter().next().map(|it| it.0)
}

fn attach(to: &Attach) -> Result<(), AttachError> {
    if !intern::take_numbers_from(to.numbers) {
        return Err(AttachError::InUse);
    }
    let mut slots: Vec<_> = inventory::iter::<EventRegistration>.into_iter().map(|it| it.0()).collect();
    slots.sort_by_key(|it| (it.descriptor().name, it.descriptor().digest));
    let twice = slots.windows(2).find(|it| {
        let [one, other] = it else { return false };
        let key = |it: &EventDescriptor| (it.name, it.digest);
        !std::ptr::eq(*one, *other) && key(one.descriptor()) == key(other.descriptor())
    });
    if let Some([one, ..]) = twice {
        return Err(AttachError::Ambiguous { event: one.descriptor().name });
    }
    logs::forward_to(to.logs.clone());
    #[cfg(feature = "around")]
    if let Some(runtime) = runtime() {
        (runtime.start)().map_err(|fault| AttachError::Runtime { text: fault.to_string() })?;
        let around: &'static Around = &runtime.around;
        around::set(around);
    }
    Ok(())
}

fn contents(krate: &'static str) -> LibraryContents {
    LibraryContents {
        plugins: plugin_catalogue().into_iter().filter(|it| it.krate == krate).collect(),
        events: event_catalogue(),
        services: service_catalogue(),
    }
}

fn detach() {
    #[cfg(feature = "around")]
    if let Some(runtime) = runtime() {
        (runtime.end)();
    }
}
