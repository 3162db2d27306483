//! What authors of plugins need: a crate to begin with, and a library of it.

use std::io;
use std::path::{Path, PathBuf};

use crate::system;

/// Why a plugin was not made or not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorError {
    /// The name is none for a crate.
    #[error("`{0}` is no name for a plugin; use lower-case letters, digits and `-`, beginning with a letter")]
    Name(String),
    /// Something is there already.
    #[error("{} is there already; choose another name or folder", .0.display())]
    Exists(PathBuf),
    /// A file was not written.
    #[error("cannot write below {}", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// `cargo` did not run.
    #[error("cannot run cargo; install Rust from https://rustup.rs")]
    Cargo(#[source] io::Error),
    /// The crate does not build.
    #[error("{} does not build:\n{output}", path.display())]
    Build {
        /// Folder of the crate.
        path: PathBuf,
        /// What the compiler says.
        output: String,
    },
    /// It builds and makes no library.
    #[error("{} makes no library; write `crate-type = [\"cdylib\", \"rlib\"]` below `[lib]` in its manifest", .0.display())]
    NoLibrary(PathBuf),
}

impl AuthorError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "PLUGIN_NAME",
            Self::Exists(_) => "PLUGIN_EXISTS",
            Self::Write { .. } => "PLUGIN_WRITE",
            Self::Cargo(_) => "PLUGIN_CARGO",
            Self::Build { .. } => "PLUGIN_BUILD",
            Self::NoLibrary(_) => "PLUGIN_NO_LIBRARY",
        }
    }
}

/// Writes a crate that builds, with a test and a README, into a folder of its name below `folder`. `sdk` is the folder of
/// `linn-sdk`. Returns the folder of the crate. Blocks.
///
/// # Errors
///
/// The name is none, something of it is there already, or a file cannot be written.
pub fn new_plugin(name: &str, folder: &Path, sdk: &Path) -> Result<PathBuf, AuthorError> {
    let is_name = name.starts_with(|it: char| it.is_ascii_lowercase())
        && name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !is_name {
        return Err(AuthorError::Name(name.to_owned()));
    }
    let top = folder.join(name);
    if top.exists() {
        return Err(AuthorError::Exists(top));
    }
    let words: String = name.split('-').map(capital).collect();
    let filled = |template: &str| {
        let sdk = sdk.display().to_string().replace('\\', "/");
        let tool = name.replace('-', "_");
        template
            .replace("{{name}}", name)
            .replace("{{Name}}", &words)
            .replace("{{tool}}", &tool)
            .replace("{{sdk}}", &sdk)
    };
    let files = [
        ("Cargo.toml", include_str!("author/Cargo.toml.template")),
        ("README.md", include_str!("author/README.md.template")),
        ("src/lib.rs", include_str!("author/lib.rs.template")),
        (".gitignore", "/target\n"),
    ];
    for (file, template) in files {
        let path = top.join(file);
        system::write_whole(&path, filled(template).as_bytes())
            .map_err(|source| AuthorError::Write { path: top.clone(), source })?;
    }
    Ok(top)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|it| it.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Builds the library of a crate, as this program was built: with or without debug assertions. Returns the file. Blocks.
///
/// # Errors
///
/// It does not build, or makes no library.
pub fn build(folder: &Path) -> Result<PathBuf, AuthorError> {
    let mut arguments = vec!["build", "--message-format=json-render-diagnostics"];
    if !cfg!(debug_assertions) {
        arguments.push("--release");
    }
    let output = system::cargo(folder, &arguments).map_err(AuthorError::Cargo)?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        return Err(AuthorError::Build { path: folder.to_owned(), output });
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let artifacts = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let of_crate = artifacts.filter(|it| {
        let kinds = it["target"]["crate_types"].as_array();
        kinds.is_some_and(|it| it.iter().any(|it| it == "cdylib"))
    });
    let files = of_crate.filter_map(|it| it["filenames"].as_array().cloned()).flatten();
    let mut libraries =
        files.filter_map(|it| it.as_str().map(PathBuf::from)).filter(|it| crate::registry::is_library(it));
    libraries.next_back().ok_or_else(|| AuthorError::NoLibrary(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_crate_has_its_name_everywhere_and_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let top = new_plugin("word-count", folder.path(), Path::new("/sdk")).unwrap();
        let source = std::fs::read_to_string(top.join("src/lib.rs")).unwrap();
        assert!(source.contains("struct WordCount") && source.contains("\"word-count\""), "{source}");
        for file in ["Cargo.toml", "README.md", "src/lib.rs"] {
            assert!(!std::fs::read_to_string(top.join(file)).unwrap().contains("{{"), "{file}");
        }
        assert_eq!(new_plugin("word-count", folder.path(), Path::new("/sdk")).unwrap_err().code(), "PLUGIN_EXISTS");
        for name in ["", "A", "a b", "9a", "a-", "a--b", "../x"] {
            assert_eq!(new_plugin(name, folder.path(), Path::new("/sdk")).unwrap_err().code(), "PLUGIN_NAME", "{name}");
        }
    }
}
