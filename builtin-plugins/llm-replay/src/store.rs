//! Where recordings are kept.

use crate::error::ReplayError;

/// Keeps recordings by name. A name is what stands behind `replay:` in a model.
///
/// Implementations are quick, or ready at once: they are called where a model is asked.
pub trait RecordingStore: Send + Sync + 'static {
    /// The text of a recording; `None` if there is none of this name.
    fn load(&self, name: &str) -> Result<Option<String>, ReplayError>;

    /// Adds to a recording, which begins with `head` if it is new. What is added is there when this returns, whole or not
    /// at all.
    fn append(&self, name: &str, head: &str, lines: &str) -> Result<(), ReplayError>;

    /// Where a recording of this name would be, for errors.
    fn whereabouts(&self, name: &str) -> String;
}
