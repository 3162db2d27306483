//! What there is to mount, and what is mounted.

use std::path::PathBuf;

use linn_bus::FiberState;
use serde::Serialize;

use crate::loader::Loader;

/// A plugin, or a library whose plugins are not known.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Listing {
    /// Its name; the name of the file for a library that could not be read.
    pub name: String,
    /// Version of its crate; empty where it is not known.
    pub version: String,
    /// Where it is.
    pub source: ListingSource,
    /// Why it cannot be mounted, if it cannot.
    pub error: Option<String>,
    /// Entries that run it, with the state of each.
    pub entries: Vec<(String, String)>,
}

/// Where a plugin is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ListingSource {
    /// In a crate of the program.
    BuiltIn(String),
    /// In a library.
    Library(PathBuf),
}

impl Loader {
    /// Every plugin, those that failed too, by source and name.
    pub async fn list(&self) -> Vec<Listing> {
        let state = self.0.state.lock().await;
        let entries = |plugin: &str| -> Vec<(String, String)> {
            let of_plugin = state.live.values().filter(|it| it.entry.plugin == plugin);
            let name = |it: FiberState| it.as_str().to_owned();
            of_plugin.map(|it| (it.entry.id.clone(), name(it.fiber.state()))).collect()
        };
        let built_in = state.registry.built_in().map(|it| Listing {
            name: it.name.to_owned(),
            version: it.version.to_owned(),
            source: ListingSource::BuiltIn(it.krate.to_owned()),
            error: None,
            entries: entries(it.name),
        });
        let mut all: Vec<_> = built_in.collect();
        for (path, known) in &state.registry.libraries {
            let source = ListingSource::Library(path.clone());
            match &known.file {
                Ok(file) => {
                    let objection = state.registry.objection(file, self.0.settings.trust.as_ref());
                    let error = objection.err().map(|it| it.to_string());
                    all.extend(file.plugins.iter().map(|plugin| Listing {
                        name: plugin.clone(),
                        version: file.version.clone(),
                        source: source.clone(),
                        error: error.clone(),
                        entries: entries(plugin),
                    }));
                }
                Err(error) => all.push(Listing {
                    name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    version: String::new(),
                    source,
                    error: Some(error.to_string()),
                    entries: Vec::new(),
                }),
            }
        }
        all
    }
}
