//! The signals that end the program.

use std::io;

use anyhow::{Context as _, bail};
use linn::Harness;

/// SIGXFSZ, on Linux and macOS alike.
#[cfg(unix)]
const FILE_TOO_LARGE: std::ffi::c_int = 25;

/// Listens from when it is made.
pub(crate) struct Signals {
    #[cfg(unix)]
    ending: Vec<(&'static str, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// # Errors
    ///
    /// Those of the system.
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Heard by nobody, it does not end the program: what was written to a file that is too large fails and is told.
        drop(signal(SignalKind::from_raw(FILE_TOO_LARGE))?);
        let kinds = [("SIGTERM", SignalKind::terminate()), ("SIGHUP", SignalKind::hangup())];
        let ending = kinds.into_iter().map(|(name, kind)| signal(kind).map(|it| (name, it)));
        Ok(Self { ending: ending.collect::<Result<_, _>>()? })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ready when somebody wants the program to end: SIGTERM, or the terminal is gone; the name of the signal. Cancel safe.
    pub(crate) async fn end(&mut self) -> &'static str {
        #[cfg(unix)]
        {
            let waiting = self.ending.iter_mut().map(|(name, it)| {
                Box::pin(async move {
                    it.recv().await;
                    *name
                })
            });
            futures_util::future::select_all(waiting).await.0
        }
        #[cfg(not(unix))]
        std::future::pending().await
    }
}

/// Ready at ctrl-c. Cancel safe.
pub(crate) async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler there is nothing to wait for.
        std::future::pending::<()>().await;
    }
}

/// Ends a harness and waits until it is quiet; `signal` is what ends the program, if it was one. A signal meanwhile ends the
/// waiting.
///
/// # Errors
///
/// Something would not end, or nobody waited for it.
pub(crate) async fn shut_down(
    harness: Harness,
    signal: Option<&'static str>,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    tokio::select! {
        done = harness.shutdown_by(signal) => done.context("the harness did not end quietly"),
        again = signals.end() => bail!("{again} came while the harness ended; what ran was left"),
        () = interrupt() => bail!("ctrl-c came while the harness ended; what ran was left"),
    }
}
