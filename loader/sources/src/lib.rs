//! The sources that a plugin is built from, carried inside the program.
//!
//! A library is loaded only if it was built from the sources of the bus and the vocabulary that the program was built from.
//! This crate has exactly those as text, with a workspace around them and the lock file of the program, so that a plugin can
//! be built wherever the program is. It writes nothing anywhere.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::io::BufReader;

use flate2::read::ZlibDecoder;

/// Where `linn-sdk` is among the files.
pub const SDK: &str = "loader/sdk";

/// Where the lock file is among the files.
pub const LOCK: &str = "Cargo.lock";

/// A list of pairs of path and text as JSON, compressed with zlib.
const PACK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pack"));

/// The files, unpacked.
#[derive(Debug)]
pub struct Sources(Vec<(String, String)>);

impl Sources {
    /// Takes some ten milliseconds, and a megabyte and a half while it lives.
    pub fn unpack() -> Self {
        let files = serde_json::from_reader(BufReader::new(ZlibDecoder::new(PACK)));
        Self(files.expect("the build script packed it"))
    }

    /// In order of their paths: each path, relative with `/`, and its text.
    pub fn files(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_are_there_as_they_are_and_the_workspace_names_no_others() {
        let sources = Sources::unpack();
        let files = sources.files();
        let text = |path: &str| files.iter().find(|(it, _)| *it == path).unwrap_or_else(|| panic!("no {path}")).1;
        assert_eq!(text("bus/src/lib.rs"), include_str!("../../../bus/src/lib.rs"));
        assert_eq!(text("services/build.rs"), include_str!("../../../services/build.rs"));
        let workspace = text("Cargo.toml");
        assert!(workspace.contains("[workspace.package]") && workspace.contains("[workspace.lints.rust]"));
        assert!(!workspace.contains("builtin-plugins") && !workspace.contains("[profile"), "{workspace}");
        assert!(!text("bus/Cargo.toml").contains("criterion"));
        assert!(text(LOCK).contains("name = \"linn-services\""));
        assert!(files.iter().any(|(it, _)| it.starts_with(SDK)));
    }

    #[test]
    fn paths_lead_nowhere_else_and_stand_in_order() {
        let sources = Sources::unpack();
        let files = sources.files();
        assert!(files.iter().all(|(it, _)| !it.starts_with('/') && it.split('/').all(|part| part != "..")));
        assert!(files.is_sorted_by_key(|(it, _)| *it));
    }
}
