//! The event stream as JSON: one object a line, `{"event": name, "data": payload}`, for every event that can be shown so.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use linn::bus::{BusError, Context, InternalDispatch};
use serde_json::json;

/// Writes events as they are dispatched.
pub(crate) struct JsonStream {
    out: Mutex<Box<dyn Write + Send>>,
}

impl JsonStream {
    /// Writes to `out`, a line at a time.
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Arc<Self> {
        Arc::new(Self { out: Mutex::new(out) })
    }

    /// Writes what is dispatched on this bus from now on.
    pub(crate) fn follow(self: &Arc<Self>, ctx: &Context) -> Result<(), BusError> {
        ctx.on_with(self, Self::dispatched).map(drop)
    }

    fn dispatched(&self, dispatch: &InternalDispatch) {
        // What cannot be shown is left out; the dispatch goes on.
        let Ok(Some(data)) = dispatch.event_ref().view() else { return };
        let line = json!({ "event": dispatch.event_ref().descriptor().name, "data": data });
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader that is gone is noticed by whoever waits for the turn.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
