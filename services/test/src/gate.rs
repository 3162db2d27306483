//! A place where something waits until a test lets it go on.

use tokio_util::sync::CancellationToken;

/// A place where something waits until a test lets it go on. Clones are the same gate.
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

    /// Says that the gate was reached, then waits until it is open.
    ///
    /// Cancel safe.
    pub async fn pass(&self) {
        self.reached.cancel();
        self.open.cancelled().await;
    }

    /// Waits until somebody has reached the gate.
    ///
    /// Cancel safe.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    /// Whether somebody has reached the gate.
    pub fn is_reached(&self) -> bool {
        self.reached.is_cancelled()
    }

    /// Lets everybody through, from now on.
    pub fn open(&self) {
        self.open.cancel();
    }
}
