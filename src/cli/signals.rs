//! The signals that end the program.

use std::io;

/// Listens from when it is made.
pub(crate) struct Signals {
    #[cfg(unix)]
    ending: Vec<tokio::signal::unix::Signal>,
}

impl Signals {
    /// # Errors
    ///
    /// Those of the system.
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::terminate(), SignalKind::hangup()];
        Ok(Self { ending: kinds.into_iter().map(signal).collect::<Result<_, _>>()? })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ready when somebody wants the program to end: SIGTERM, or the terminal is gone. Cancel safe.
    pub(crate) async fn end(&mut self) {
        #[cfg(unix)]
        {
            let waiting = self.ending.iter_mut().map(|it| Box::pin(it.recv()));
            futures_util::future::select_all(waiting).await;
        }
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

/// Ready at ctrl-c. Cancel safe.
pub(crate) async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler there is nothing to wait for.
        std::future::pending::<()>().await;
    }
}
