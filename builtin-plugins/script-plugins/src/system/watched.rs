//! What ends scripts when nobody of the harness is left to do it.

use std::io;
use std::sync::{Mutex, PoisonError};

use linn_process::Watch;
use tokio::runtime::Handle;

/// A watch over all scripts with one mark, which begins with the first of them.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Option<Watch>>);

impl Watched {
    /// Begins to watch, if that was not done before.
    pub(crate) fn begin(&self, runtime: &Handle, mark: &str) -> io::Result<()> {
        let mut watch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.is_none() {
            let _entered = runtime.enter();
            *watch = Some(Watch::start(mark)?);
        }
        Ok(())
    }

    /// Ends the watch.
    pub(crate) async fn end(&self) {
        let watch = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(watch) = watch {
            watch.end().await;
        }
    }
}
