//! The event stream as JSON: one object a line, `{"event": name, "data": payload}`, for every event that can be shown so.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use linn::bus::{BusError, Context, InternalDispatch};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Writes events as they are dispatched.
pub(crate) struct JsonStream {
    out: Mutex<Box<dyn Write + Send>>,
    /// Nobody reads any more.
    gone: CancellationToken,
}

impl JsonStream {
    /// Writes to `out`, a line at a time.
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Arc<Self> {
        Arc::new(Self { out: Mutex::new(out), gone: CancellationToken::new() })
    }

    /// Writes what is dispatched on this bus from now on.
    pub(crate) fn follow(self: &Arc<Self>, ctx: &Context) -> Result<(), BusError> {
        ctx.on_with(self, Self::dispatched).map(drop)
    }

    /// Ready when nobody reads any more.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    fn dispatched(&self, dispatch: &InternalDispatch) {
        // What cannot be shown is left out; the dispatch goes on.
        let Ok(Some(data)) = dispatch.event_ref().view() else { return };
        let line = json!({ "event": dispatch.event_ref().descriptor().name, "data": data });
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.gone.is_cancelled() && writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            self.gone.cancel();
        }
    }
}
