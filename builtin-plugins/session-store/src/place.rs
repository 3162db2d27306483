//! Where the files of a session are.

use std::path::{Path, PathBuf};

use linn_services::ids::SessionId;

use crate::files::beside;

/// What the log is called after its session or view.
pub(crate) const LOG: &str = ".events";

/// What the files of the older format are called.
pub(crate) const VIEW: &str = ".jsonl";

/// The files of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    base: PathBuf,
    /// Whether front ends name the session by a file.
    has_view: bool,
}

impl Place {
    /// In the store's folder, for a session that is known by its id.
    pub(crate) fn of_id(folder: &Path, id: &SessionId) -> Self {
        Self { base: folder.join(file_name(id)), has_view: false }
    }

    /// Beside the file that a front end names.
    pub(crate) fn of_file(file: &Path) -> Self {
        Self { base: file.to_owned(), has_view: true }
    }

    /// The file that front ends read.
    pub(crate) fn view(&self) -> Option<&Path> {
        self.has_view.then_some(&*self.base)
    }

    pub(crate) fn log(&self) -> PathBuf {
        beside(&self.base, LOG)
    }

    /// The lock that whoever writes the log holds.
    pub(crate) fn lock(&self) -> PathBuf {
        beside(&self.base, ".events.lock")
    }

    /// What was cut off the log.
    pub(crate) fn torn(&self) -> PathBuf {
        beside(&self.base, ".events.torn")
    }

    /// What a listing says of the log, kept so that it need not be read again.
    pub(crate) fn summary(&self) -> PathBuf {
        beside(&self.base, ".events.summary")
    }

    /// Title and pin.
    pub(crate) fn meta(&self) -> PathBuf {
        beside(&self.base, ".meta.json")
    }

    /// The lock that whoever changes title or pin holds for a moment.
    pub(crate) fn meta_lock(&self) -> PathBuf {
        beside(&self.base, ".meta.lock")
    }

    /// What a human permitted for the rest of the session, beside the file that front ends name.
    pub(crate) fn escalations(&self) -> Option<PathBuf> {
        self.view().map(|it| beside(it, ".escalations"))
    }

    /// All that goes with the session, the log last: while it is there, so is the session.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let mut all = vec![self.torn(), self.summary(), self.meta()];
        if let Some(view) = self.view() {
            all.push(beside(view, ".stats"));
            all.extend(self.escalations());
            all.push(view.with_extension("checkpoints.jsonl"));
            all.push(view.to_owned());
        }
        all.push(self.log());
        all
    }
}

/// A name for a file: an id is any text, and not every text is a name or stays in its folder.
fn file_name(id: &SessionId) -> String {
    const LONGEST: usize = 120;
    let mut name = String::new();
    for (at, byte) in id.as_str().bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            b'.' if at > 0 => name.push('.'),
            byte => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.is_empty() || name.len() > LONGEST {
        name.truncate(LONGEST - 17);
        name.push_str(&format!("-{:016x}", digest(id.as_str().as_bytes())));
    }
    name
}

/// FNV-1a, 64 bits: the same on each machine and in each release.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leaves_the_folder_and_no_two_share_a_name() {
        let long = "x".repeat(300);
        let ids = ["a", "../a", "..", ".", "", "a/b", "a\\b", "a%2fb", "ä", "C:", &long, &long[1..], "a.b", "con\0"];
        let names: std::collections::HashSet<_> = ids.iter().map(|it| file_name(&(*it).into())).collect();
        assert_eq!(names.len(), ids.len());
        for name in &names {
            assert!(name.len() <= 120 && !name.starts_with('.'), "{name}");
            assert!(name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.%".contains(&it)), "{name}");
        }
    }
}
