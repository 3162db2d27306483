//! Dispatch: the five ways to run the listeners of an event.
//!
//! Common to all: an observer may look first and refuse, the listeners are those of a snapshot, one that was disposed
//! meanwhile and has not started is left out, and a panic is an error of the listener that panicked.

mod call;
mod observe;
mod parallel;
mod record;
mod serial;
mod sync;
mod waterfall;

use std::sync::Arc;

use crate::bus::Bus;
use crate::cell::Source;
use crate::event::Event;
use crate::fault::{Cause, ListenerError};

pub(crate) use observe::is_internal;
pub use observe::{EventRef, InternalDispatch};
pub(crate) use parallel::parallel;
pub(crate) use serial::serial;
pub(crate) use sync::{bail, emit, try_emit};
pub(crate) use waterfall::waterfall;
pub use waterfall::{Next, Run};

/// How deep dispatches of one event may nest inside each other on one thread before the innermost becomes an error.
pub const MAX_NESTING: usize = 64;

/// Who dispatches: the bus, and the plugin of the context for errors that name it.
#[derive(Clone, Copy)]
pub(crate) struct Emitter<'a> {
    pub(crate) bus: &'a Arc<Bus>,
    pub(crate) plugin: &'a Arc<str>,
}

impl<'a> Emitter<'a> {
    /// Where the listeners of `event` are, if anybody ever listened.
    #[inline]
    fn source<E: Event>(self, event: &'a E) -> Option<(Source<'a, E>, u32)> {
        let slot = E::__slot().number();
        Some((self.bus.source(event, slot)?, slot))
    }

    /// Refuses the innermost of too many nested dispatches; looked at only where frames are that deep.
    #[cold]
    fn check_nesting(self, event: &'static str, slot: u32, depth: usize) -> Result<(), ListenerError> {
        if !self.bus.rows.row().nests_too_deep(slot, depth) {
            return Ok(());
        }
        Err(ListenerError::new(self.plugin.clone(), event, Cause::TooDeep))
    }
}
