//! Which plugins there are: those of the program, and those of libraries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_bus::{PluginDescriptor, ServiceDescriptor, plugin_catalogue, service_catalogue};

use crate::library::{Image, LibraryError, LibraryFile, TrustStore, shared_differences};
use crate::problem::{EntryFault, nearest};
use crate::system;

/// A library, or a folder of libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibrarySource {
    /// The file or folder.
    pub path: PathBuf,
    /// Whether a content of it runs only once the user trusts it: so for what comes with a repository.
    pub needs_trust: bool,
}

/// A plugin that was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) descriptor: &'static PluginDescriptor,
    /// The library it is in.
    pub(crate) image: Option<Arc<Image>>,
}

/// A library as far as it is known.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) needs_trust: bool,
    /// What its file says; what is wrong with it otherwise.
    pub(crate) file: Result<LibraryFile, LibraryError>,
    pub(crate) image: Option<Arc<Image>>,
}

#[derive(Debug)]
pub(crate) struct Registry {
    built_in: BTreeMap<&'static str, &'static PluginDescriptor>,
    pub(crate) libraries: BTreeMap<PathBuf, Known>,
    services: BTreeMap<&'static str, &'static ServiceDescriptor>,
}

impl Registry {
    /// What the program is built with.
    pub(crate) fn new() -> Self {
        let built_in = plugin_catalogue().into_iter().map(|it| (it.name, it)).collect();
        let services = service_catalogue().into_iter().map(|it| (it.name, it)).collect();
        Self { built_in, libraries: BTreeMap::new(), services }
    }

    pub(crate) fn built_in(&self) -> impl Iterator<Item = &'static PluginDescriptor> {
        self.built_in.values().copied()
    }

    /// Takes in what a file was found to be. An opened library stays until a new version of it is switched in.
    pub(crate) fn learn(&mut self, path: PathBuf, needs_trust: bool, file: Result<LibraryFile, LibraryError>) {
        let file = file.map(LibraryFile::without_bytes);
        match self.libraries.get_mut(&path) {
            Some(known) => known.file = file,
            None => {
                self.libraries.insert(path, Known { needs_trust, file, image: None });
            }
        }
    }

    /// What is wrong with a library that was read, beside what it was built with.
    pub(crate) fn objection(&self, file: &LibraryFile, trust: Option<&TrustStore>) -> Result<(), LibraryError> {
        file.check()?;
        let path = || file.path.clone();
        let needs_trust = self.libraries.get(&file.path).is_some_and(|it| it.needs_trust);
        if needs_trust && !trust.is_some_and(|it| it.is_trusted(&file.digest)) {
            return Err(LibraryError::NotTrusted { path: path(), digest: file.digest });
        }
        for plugin in &file.plugins {
            let other = self.built_in.get(plugin.as_str()).map(|it| it.krate.to_owned());
            let other = other.or_else(|| self.library_with(plugin, &file.path).map(|it| it.display().to_string()));
            if let Some(other) = other {
                return Err(LibraryError::NameTaken { path: path(), plugin: plugin.clone(), other });
            }
        }
        for (other, known) in &self.libraries {
            let Some(image) = known.image.as_ref().filter(|_| *other != file.path) else { continue };
            let differences = shared_differences(&image.file.shared, &file.shared);
            if !differences.is_empty() {
                return Err(LibraryError::Shared { path: path(), other: other.clone(), differences });
            }
        }
        Ok(())
    }

    /// Takes a library out. If it was opened, it stays in memory.
    pub(crate) fn forget(&mut self, path: &Path) -> Option<Arc<Image>> {
        self.libraries.remove(path)?.image
    }

    /// Another library with a plugin of this name: one that is opened, or comes first by path.
    fn library_with(&self, plugin: &str, except: &Path) -> Option<&Path> {
        let others = self.libraries.iter().filter(|(path, _)| *path != except);
        let holders = others.filter(|(path, known)| {
            let holds = known.file.as_ref().is_ok_and(|it| it.plugins.iter().any(|it| it == plugin));
            holds && (known.image.is_some() || path.as_path() < except)
        });
        holders.map(|(path, _)| path.as_path()).next()
    }

    /// A plugin of the program, or of a library that is opened already; or the library that has to be opened for it.
    pub(crate) fn find(&self, plugin: &str) -> Result<Found, Option<PathBuf>> {
        if let Some(descriptor) = self.built_in.get(plugin) {
            return Ok(Found { descriptor, image: None });
        }
        for known in self.libraries.values() {
            if let Some(image) = &known.image
                && let Some(descriptor) = image.contents().plugins.iter().find(|it| it.name == plugin)
            {
                return Ok(Found { descriptor, image: Some(image.clone()) });
            }
        }
        let holders = self.libraries.iter().filter(|(_, known)| {
            known.file.as_ref().is_ok_and(|it| it.plugins.iter().any(|it| it == plugin)) && known.image.is_none()
        });
        Err(holders.map(|(path, _)| path.clone()).next())
    }

    /// Why nobody has a plugin.
    pub(crate) fn unknown(&self, plugin: &str) -> EntryFault {
        let names = self.libraries.values().filter_map(|it| it.file.as_ref().ok()).flat_map(|it| &it.plugins);
        let names = self.built_in.keys().copied().chain(names.map(String::as_str));
        EntryFault::UnknownPlugin { plugin: plugin.to_owned(), similar: nearest(plugin, names) }
    }

    pub(crate) fn service(&self, field: &'static str, name: &str) -> Result<&'static ServiceDescriptor, EntryFault> {
        self.services.get(name).copied().ok_or_else(|| EntryFault::UnknownService {
            field,
            service: name.to_owned(),
            similar: nearest(name, self.services.keys().copied()),
        })
    }

    /// Takes in a library that was opened.
    pub(crate) fn opened(&mut self, path: &Path, image: Arc<Image>) -> Option<Arc<Image>> {
        for service in &image.contents().services {
            self.services.entry(service.name).or_insert(service);
        }
        let known = self.libraries.get_mut(path)?;
        known.file = Ok(image.file.clone());
        known.image.replace(image)
    }
}

/// The libraries that sources name, each with whether it needs trust. Blocks.
pub(crate) fn expand(sources: &[LibrarySource]) -> Vec<(PathBuf, bool, Option<LibraryError>)> {
    let mut all = Vec::new();
    for LibrarySource { path, needs_trust } in sources {
        if !path.is_dir() {
            all.push((path.clone(), *needs_trust, None));
            continue;
        }
        match system::files_in(path) {
            Ok(files) => all.extend(files.into_iter().filter(|it| is_library(it)).map(|it| (it, *needs_trust, None))),
            Err(error) => {
                let error = crate::library::file_error("list", path, error);
                all.push((path.clone(), *needs_trust, Some(error)));
            }
        }
    }
    all
}

/// Whether a file is a library by its name, on this system.
pub(crate) fn is_library(path: &Path) -> bool {
    ends_in(path, std::env::consts::DLL_EXTENSION, cfg!(windows))
}

fn ends_in(path: &Path, extension: &str, ignores_case: bool) -> bool {
    let is_same = |it: &str| it == extension || ignores_case && it.eq_ignore_ascii_case(extension);
    path.extension().and_then(|it| it.to_str()).is_some_and(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_told_by_the_end_of_its_name_as_each_system_does() {
        let is = |name: &str, extension, ignores_case| ends_in(Path::new(name), extension, ignores_case);
        assert!(is("gate.dll", "dll", true) && is("GATE.DLL", "dll", true) && is("libgate.dylib", "dylib", false));
        assert!(!is("libgate.SO", "so", false) && !is("libgate.so.1", "so", false) && !is("so", "so", false));
        assert!(!is("gate.dll.pdb", "dll", true) && !is("libgate.dylib.dSYM", "dylib", false));
    }
}
