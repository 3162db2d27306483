//! From the crate of a plugin to a library that this program loads.

use std::path::{Path, PathBuf};

use linn_bus::library::FINGERPRINT;

use crate::author::AuthorError;
use crate::author::manifest::led_to;
use crate::author::unpack::unpack;
use crate::library::LibraryFile;
use crate::system::{self, Progress};

/// Where plugins are built: the sources of this program, and a folder that all builds share, so that what plugins have in
/// common is built once.
#[derive(Debug, Clone)]
pub struct Workshop {
    cache: PathBuf,
    sources: PathBuf,
    sdk: PathBuf,
}

/// What a build came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Built {
    /// The library, which this program can load.
    pub library: PathBuf,
    /// Names of its plugins.
    pub plugins: Vec<String>,
    /// Whether the manifest named the sources of another program, and names those of this one now.
    pub is_led_here: bool,
}

impl Workshop {
    /// Has these files in `cache`: paths and texts of the sources that this program was built from, with the folder of
    /// `linn-sdk` among them. Blocks.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn open(cache: &Path, files: &[(&str, &str)], sdk: &str) -> Result<Self, AuthorError> {
        let sources = unpack(files, cache)?;
        Ok(Self { cache: cache.to_owned(), sdk: sources.join(sdk), sources })
    }

    /// The folder of `linn-sdk`.
    pub fn sdk(&self) -> &Path {
        &self.sdk
    }

    /// Builds the library of a crate, and puts it into the folder `target/linn` of that. What the compiler says goes to
    /// standard error. Blocks.
    ///
    /// # Errors
    ///
    /// It does not build, makes no library, or makes one that this program would not load.
    pub fn build(&self, folder: &Path) -> Result<Built, AuthorError> {
        let manifest = folder.join("Cargo.toml");
        let no_crate = |source| AuthorError::NoCrate { path: folder.to_owned(), source };
        let text = system::read(&manifest).map_err(no_crate)?;
        let found = system::compiler(folder).map_err(AuthorError::Cargo)?;
        if let Some(wanted) = compiler_of_program().filter(|it| *it != found) {
            let release = wanted.split(' ').next().unwrap_or(wanted).to_owned();
            return Err(AuthorError::Compiler { found, wanted: wanted.to_owned(), release });
        }
        // What is no manifest is told by cargo, with its place.
        let led = std::str::from_utf8(&text)
            .ok()
            .and_then(|it| led_to(&self.sources, &self.cache.join("sources"), it, |it| it.is_dir()).ok().flatten());
        if let Some(led) = &led {
            system::write_whole(&manifest, led.as_bytes())
                .map_err(|source| AuthorError::Write { path: folder.to_owned(), source })?;
        }
        let made = run(folder, Some(&self.cache.join("target")), Progress::Shown)?;
        let file = LibraryFile::read(&made)?;
        file.check()?;
        let library = folder.join("target/linn").join(made.file_name().unwrap_or_default());
        system::write_whole(&library, &file.bytes)
            .map_err(|source| AuthorError::Write { path: folder.to_owned(), source })?;
        Ok(Built { library, plugins: file.plugins, is_led_here: led.is_some() })
    }
}

/// Builds the library of a crate in its own target folder, as this program was built: with or without debug assertions.
/// Returns the file. Blocks.
///
/// # Errors
///
/// It does not build, or makes no library.
pub fn build(folder: &Path) -> Result<PathBuf, AuthorError> {
    run(folder, None, Progress::Kept)
}

fn run(folder: &Path, target: Option<&Path>, progress: Progress) -> Result<PathBuf, AuthorError> {
    let mut arguments = vec!["build".to_owned(), "--message-format=json-render-diagnostics".to_owned()];
    if !cfg!(debug_assertions) {
        arguments.push("--release".to_owned());
    }
    if let Some(target) = target {
        arguments.extend(["--target-dir".to_owned(), target.display().to_string()]);
    }
    let output = system::cargo(folder, &arguments, progress).map_err(AuthorError::Cargo)?;
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

/// Release and commit of the compiler that built this program.
fn compiler_of_program() -> Option<&'static str> {
    FINGERPRINT.lines().find_map(|it| it.strip_prefix("compiler="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_the_program_is_named_as_the_one_that_is_asked() {
        let here = tempfile::tempdir().unwrap();
        let asked = system::compiler(here.path()).unwrap();
        assert_eq!(asked.split(' ').count(), 2, "{asked}");
        assert_eq!(compiler_of_program(), Some(asked.as_str()));
    }

    #[test]
    fn a_folder_without_a_crate_is_told() {
        let here = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(here.path(), &[("Cargo.toml", "")], "sdk").unwrap();
        assert_eq!(workshop.build(here.path()).unwrap_err().code(), "PLUGIN_NO_CRATE");
    }
}
