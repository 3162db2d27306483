//! The crate of a new plugin.

use std::path::{Path, PathBuf};

use crate::author::AuthorError;
use crate::system;

/// Writes a crate that builds, with a test and a README, into a folder of its name below `folder`. `sdk` is the folder of
/// `linn-sdk`; if the lock file of its workspace is there, the crate begins with the versions in it. Returns the folder of
/// the crate. Blocks.
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
        ("Cargo.toml", include_str!("Cargo.toml.template")),
        ("README.md", include_str!("README.md.template")),
        ("src/lib.rs", include_str!("lib.rs.template")),
        (".gitignore", "/target\n"),
    ];
    let write = |file: &str, bytes: &[u8]| {
        system::write_whole(&top.join(file), bytes).map_err(|source| AuthorError::Write { path: top.clone(), source })
    };
    for (file, template) in files {
        write(file, filled(template).as_bytes())?;
    }
    // Without it cargo chooses versions by itself, which is right too.
    if let Some(lock) = sdk.ancestors().nth(2).and_then(|it| system::read(&it.join("Cargo.lock")).ok()) {
        write("Cargo.lock", &lock)?;
    }
    Ok(top)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|it| it.to_ascii_uppercase()).into_iter().chain(letters).collect()
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

    #[test]
    fn a_new_crate_begins_with_the_versions_of_the_sources() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Cargo.lock"), "version = 4\n").unwrap();
        let top = new_plugin("hello", folder.path(), &folder.path().join("loader/sdk")).unwrap();
        assert_eq!(std::fs::read_to_string(top.join("Cargo.lock")).unwrap(), "version = 4\n");
    }
}
