//! The sources that a plugin is built from, carried inside the program.
//!
//! A library is loaded only if it was built from the sources of the bus and the vocabulary that the program was built from.
//! This crate has exactly those as text, with a workspace around them and the lock file of the program, so that a plugin can
//! be built wherever the program is. It writes nothing anywhere.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Where `linn-sdk` is among the files.
pub const SDK: &str = "loader/sdk";

/// Where the lock file is among the files.
pub const LOCK: &str = "Cargo.lock";

/// The files in order of their paths: each path, relative with `/`, and its text.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> &'static str {
        FILES.iter().find(|(it, _)| *it == path).map(|(_, text)| *text).unwrap_or_else(|| panic!("no {path}"))
    }

    #[test]
    fn the_crates_are_there_as_they_are_and_the_workspace_names_no_others() {
        assert_eq!(text("bus/src/lib.rs"), include_str!("../../../bus/src/lib.rs"));
        assert_eq!(text("services/build.rs"), include_str!("../../../services/build.rs"));
        let workspace = text("Cargo.toml");
        assert!(workspace.contains("[workspace.package]") && workspace.contains("[workspace.lints.rust]"));
        assert!(!workspace.contains("builtin-plugins") && !workspace.contains("[profile"), "{workspace}");
        assert!(!text("bus/Cargo.toml").contains("criterion"));
        assert!(text(LOCK).contains("name = \"linn-services\""));
        assert!(FILES.iter().any(|(it, _)| it.starts_with(SDK)));
    }

    #[test]
    fn paths_lead_nowhere_else_and_stand_in_order() {
        assert!(FILES.iter().all(|(it, _)| !it.starts_with('/') && it.split('/').all(|part| part != "..")));
        assert!(FILES.is_sorted_by_key(|(it, _)| *it));
    }
}
