//! Writes what commands change to the files in which existing clients look for it.
//!
//! Each write changes what it is about and nothing else: other fields, their order, spelling and comments stay.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value as Json;

use crate::gather::is_absent;
use crate::node::{Data, Node};
use crate::origin::Lines;
use crate::paths;
use crate::problem::Problem;
use crate::provider::{self, Provider};
use crate::read_json;
use crate::sources::{Access, Files, Sources};

/// The files of existing clients.
///
/// Each method reads a file, changes it and puts it in place in one step. `config.json` is locked meanwhile, as
/// clients do.
/// A file that is no JSON is left as it is, and the method fails. All of them may wait for a disk or another process.
#[derive(Debug)]
pub struct ClientFiles<'a> {
    sources: &'a Sources,
}

/// What a login, a logout or a change of a provider writes.
#[derive(Debug, Clone, Default)]
pub struct ProviderChange {
    /// Providers to add, or to put in the place of those of their names. Fields that Linn does not know stay.
    pub put: Vec<Provider>,
    /// Names of providers to take away.
    pub remove: Vec<String>,
    /// The provider that is active from then on; `None` takes the first that is left.
    pub active: Option<String>,
}

/// A service that searches the web with a key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchService {
    /// `exa`.
    Exa,
    /// `tavily`.
    Tavily,
}

impl SearchService {
    /// The name on the wire and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exa => "exa",
            Self::Tavily => "tavily",
        }
    }

    /// The service of this name, in any case and with blanks around it.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Exa, Self::Tavily].into_iter().find(|it| it.name().eq_ignore_ascii_case(name.trim()))
    }
}

/// Which models look at images for those that cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vision {
    /// Whether images are handed over at all.
    pub is_enabled: bool,
    /// Ids of models that see.
    pub vision_models: Vec<String>,
    /// The one that is asked, if one is chosen.
    pub vision_model: Option<String>,
}

impl Default for Vision {
    fn default() -> Self {
        Self { is_enabled: true, vision_models: Vec::new(), vision_model: None }
    }
}

impl<'a> ClientFiles<'a> {
    /// The files of the user and the workspaces of `sources`.
    pub fn new(sources: &'a Sources) -> Self {
        Self { sources }
    }

    fn config_file(&self) -> Result<PathBuf, Problem> {
        let home = self.sources.home.as_deref().ok_or(Problem::NoHome { what: "`config.json`" })?;
        Ok(paths::client_folder(home).join("config.json"))
    }

    /// Writes providers and the active one to `config.json`, and gives its path.
    ///
    /// # Errors
    ///
    /// [`Problem::NoHome`], [`Problem::File`] or [`Problem::Syntax`]; then the file is as it was.
    pub fn change_providers(&self, change: &ProviderChange) -> Result<PathBuf, Problem> {
        self.change_config(|config| {
            let list = config.array_value_or_set("providers");
            for element in list.elements() {
                if name_of(&element).is_some_and(|it| change.remove.contains(&it)) {
                    element.remove();
                }
            }
            for provider in &change.put {
                put_provider(&list, provider);
            }
            let first = || list.elements().iter().find_map(name_of);
            let active = change.active.clone().or_else(first);
            // Of the two spellings the second wins when the file is read.
            let second = config.get("active_provider");
            match active {
                Some(name) => {
                    put(config, "activeProvider", CstInputValue::String(name.clone()));
                    if let Some(it) = second {
                        it.set_value(CstInputValue::String(name));
                    }
                }
                None => {
                    config.get("activeProvider").into_iter().chain(second).for_each(|it| it.remove());
                }
            }
        })
    }

    /// Writes the key of a search service to `config.json`; without one, it is taken away. Gives the path of the file.
    ///
    /// # Errors
    ///
    /// As for [`change_providers`](Self::change_providers).
    pub fn set_search_key(&self, service: SearchService, key: Option<&SecretString>) -> Result<PathBuf, Problem> {
        self.change_config(|config| match key {
            Some(key) => {
                let keys = config.object_value_or_set("search_keys");
                put(&keys, service.name(), CstInputValue::String(key.expose_secret().to_owned()));
            }
            None => {
                if let Some(it) = config.object_value("search_keys").and_then(|it| it.get(service.name())) {
                    it.remove();
                }
            }
        })
    }

    fn change_config(&self, change: impl FnOnce(&CstObject)) -> Result<PathBuf, Problem> {
        let path = self.config_file()?;
        let lock = path.with_file_name("config.lock");
        let files = &*self.sources.files;
        let _locked = files.lock(&lock).map_err(|error| Problem::file("lock", &lock, error))?;
        change_file(files, &path, Access::Private, change)?;
        Ok(path)
    }

    /// The vision settings of a workspace; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`Problem::File`] or [`Problem::Syntax`].
    pub fn vision(&self, workspace: &Path) -> Result<Option<Vision>, Problem> {
        let path = paths::vision_file(workspace);
        let Some(text) = read(&*self.sources.files, &path)? else {
            return Ok(None);
        };
        let node = read_json::read(&path, &text)?;
        let initial = Vision::default();
        let is_enabled = match node.field("enabled").map(|it| &it.data) {
            Some(Data::Bool(it)) => *it,
            _ => initial.is_enabled,
        };
        let vision_models = match node.field("vision_models").map(|it| &it.data) {
            Some(Data::List(items)) => items.iter().filter_map(Node::as_text).map(str::to_owned).collect(),
            _ => initial.vision_models,
        };
        let vision_model = node.field("vision_model").and_then(Node::as_text).filter(|it| !it.is_empty());
        Ok(Some(Vision { is_enabled, vision_models, vision_model: vision_model.map(str::to_owned) }))
    }

    /// Writes the vision settings of a workspace, and gives the path of the file.
    ///
    /// # Errors
    ///
    /// [`Problem::File`] or [`Problem::Syntax`]; then the file is as it was.
    pub fn set_vision(&self, workspace: &Path, vision: &Vision) -> Result<PathBuf, Problem> {
        let path = paths::vision_file(workspace);
        change_file(&*self.sources.files, &path, Access::Kept, |file| {
            put(file, "enabled", CstInputValue::Bool(vision.is_enabled));
            let models = vision.vision_models.iter().cloned().map(CstInputValue::String);
            put(file, "vision_models", CstInputValue::Array(models.collect()));
            let model = vision.vision_model.clone().filter(|it| !it.is_empty());
            put(file, "vision_model", model.map_or(CstInputValue::Null, CstInputValue::String));
        })?;
        Ok(path)
    }
}

fn read(files: &dyn Files, path: &Path) -> Result<Option<String>, Problem> {
    match files.read(path) {
        Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Problem::file("read", path, error)),
    }
}

fn change_file(files: &dyn Files, path: &Path, access: Access, change: impl FnOnce(&CstObject)) -> Result<(), Problem> {
    let text = read(files, path)?.filter(|it| !it.trim().is_empty()).unwrap_or_else(|| "{}\n".to_owned());
    // Reading it as others will finds what the editing below would take.
    let node = read_json::read(path, &text)?;
    let root = CstRootNode::parse(&text, &read_json::options()).map_err(|error| Problem::Syntax {
        place: Lines::new(path, &text).place(error.range().start),
        message: error.kind().to_string(),
    })?;
    let Some(object) = root.object_value() else {
        let message = format!("the file is {} and has to be a table", node.form());
        return Err(Problem::Syntax { place: node.place, message });
    };
    change(&object);
    files.write(path, &root.to_string(), access).map_err(|error| Problem::file("write", path, error))
}

fn put(object: &CstObject, name: &str, value: CstInputValue) {
    match object.get(name) {
        Some(it) => it.set_value(value),
        None => {
            object.append(name, value);
        }
    }
}

/// The name of a provider in the list.
fn name_of(element: &CstNode) -> Option<String> {
    element.as_object()?.get("name")?.value()?.as_string_lit()?.decoded_value().ok()
}

fn put_provider(list: &CstArray, provider: &Provider) {
    let stored = provider.to_stored();
    let found = list.elements().into_iter().find(|it| name_of(it).as_deref() == Some(provider.name.as_str()));
    let Some(object) = found.and_then(|it| it.as_object()) else {
        list.append(input(&Json::Object(stored)));
        return;
    };
    for property in object.properties() {
        let name = property.decoded_name().unwrap_or_default();
        // The other spelling would say the old value still.
        if provider::is_field(&name) && !stored.contains_key(&name) {
            property.remove();
        }
    }
    for (name, value) in &stored {
        put(&object, name, input(value));
    }
}

fn input(json: &Json) -> CstInputValue {
    match json {
        Json::Null => CstInputValue::Null,
        Json::Bool(it) => CstInputValue::Bool(*it),
        Json::Number(it) => CstInputValue::Number(it.to_string()),
        Json::String(it) => CstInputValue::String(it.clone()),
        Json::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Json::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, it)| (name.clone(), input(it))).collect())
        }
    }
}
