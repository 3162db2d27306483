//! A place where an answer waits until a test lets it go on.

use tokio_util::sync::CancellationToken;

/// A place where an answer waits until a test lets it go on. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    reached: CancellationToken,
    open: CancellationToken,
}

impl Gate {
    /// A closed gate that nobody has reached.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until an answer has come to the gate: everything before it is sent.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    /// Lets everything through, from now on.
    pub fn open(&self) {
        self.open.cancel();
    }

    pub(crate) async fn pass(&self) {
        self.reached.cancel();
        self.open.cancelled().await;
    }
}
