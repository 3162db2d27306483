//! One entry as a layer writes it: what it inserts, or what it changes.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::node::{Data, NOT_SHOWN, Node};
use crate::origin::{Layer, Origin, Place};
use crate::problem::{EntryFault, Problem, nearest};
use crate::tree::{BuiltIn, Change, EntryConfig, Realm};

/// On which side of another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// What a layer says of one entry.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    pub(crate) id: String,
    pub(crate) plugin: Option<String>,
    pub(crate) is_group: bool,
    /// The empty name is the top.
    pub(crate) parent: Option<String>,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) disabled: Option<(bool, Place)>,
    pub(crate) config: Option<(EntryConfig, Place)>,
    pub(crate) inject: Option<Vec<String>>,
    pub(crate) isolate: Option<BTreeMap<String, Realm>>,
    pub(crate) intercept: Option<BTreeMap<String, Json>>,
    pub(crate) repository: Option<Vec<Change>>,
    /// Where the entry is written.
    pub(crate) origin: Origin,
}

/// The fields of an entry in files, each with what it is.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("id", "text that no other entry has as its id"),
    ("plugin", "the name of a plugin"),
    ("group", "`true` for a group"),
    ("parent", "the id of a group, or \"\" for the top"),
    ("before", "the id of another entry"),
    ("after", "the id of another entry"),
    ("disabled", "`true` or `false`"),
    ("config", "a table"),
    ("inject", "a list of names of services"),
    ("isolate", "a table of services, each with `true` or the label of who shares it"),
    ("intercept", "a table of services, each with what it is given"),
    ("repository", "a list of `config`, `disabled` and `place`"),
];

impl Patch {
    /// A patch that says nothing yet.
    pub(crate) fn new(id: impl Into<String>, origin: Origin) -> Self {
        Self {
            id: id.into(),
            plugin: None,
            is_group: false,
            parent: None,
            before: None,
            after: None,
            disabled: None,
            config: None,
            inject: None,
            isolate: None,
            intercept: None,
            repository: None,
            origin,
        }
    }

    /// Whether it changes what an entry says of services.
    pub(crate) fn says_of_services(&self) -> bool {
        self.inject.is_some() || self.isolate.is_some() || self.intercept.is_some()
    }

    /// Reads an entry. One wrong field makes the whole entry wrong: half of what was meant may be worse than nothing.
    pub(crate) fn read(node: &Node, layer: Layer) -> Result<Self, Problem> {
        let id = node.field("id").and_then(Node::as_text).map(str::trim).filter(|it| !it.is_empty());
        let shown_id = id.unwrap_or_default().to_owned();
        let wrong = |place: &Place, fault| Problem::Entry { place: place.clone(), id: shown_id.clone(), fault };
        let Data::Table(fields) = &node.data else {
            let fault = EntryFault::Field {
                field: "plugins".into(),
                value: node.shown().into(),
                expected: "a table with an `id`".into(),
            };
            return Err(wrong(&node.place, fault));
        };
        let Some(id) = id else {
            return Err(wrong(node.field("id").map_or(&node.place, |it| &it.place), EntryFault::NoId));
        };
        let mut patch = Self::new(id, Origin::new(layer, node.place.clone()));
        for (name, field) in fields {
            let Some((_, expected)) = FIELDS.iter().find(|(it, _)| it == name) else {
                let similar = nearest(name, FIELDS.iter().map(|(it, _)| *it));
                return Err(wrong(&field.place, EntryFault::UnknownField { field: name.clone(), similar }));
            };
            if patch.take(name, field).is_none() {
                let value = if name == "config" { NOT_SHOWN.to_owned() } else { field.shown() };
                let fault = EntryFault::Field {
                    field: name.as_str().into(),
                    value: value.into(),
                    expected: (*expected).into(),
                };
                return Err(wrong(&field.place, fault));
            }
        }
        Ok(patch)
    }

    /// Takes one field over; `None` if it has the wrong form.
    fn take(&mut self, name: &str, field: &Node) -> Option<()> {
        let text = || field.as_text().map(|it| it.trim().to_owned());
        let named = || text().filter(|it| !it.is_empty());
        let switch = || match field.data {
            Data::Bool(it) => Some(it),
            _ => None,
        };
        match name {
            "plugin" => self.plugin = Some(named()?),
            "group" => self.is_group = switch()?,
            "parent" => self.parent = Some(text()?),
            "before" => self.before = Some(named()?),
            "after" => self.after = Some(named()?),
            "disabled" => self.disabled = Some((switch()?, field.place.clone())),
            "config" => self.config = Some((EntryConfig::new(field.clone())?, field.place.clone())),
            "inject" => {
                let Data::List(items) = &field.data else { return None };
                let names = items.iter().map(|it| it.as_text().map(str::to_owned));
                self.inject = Some(names.collect::<Option<_>>()?);
            }
            "isolate" => {
                let Data::Table(services) = &field.data else { return None };
                let realm = |it: &Node| match (&it.data, it.as_text()) {
                    (Data::Bool(true), _) => Some(Realm::Private),
                    (_, Some(label)) if !label.is_empty() => Some(Realm::Shared(label.to_owned())),
                    _ => None,
                };
                let realms = services.iter().map(|(name, it)| Some((name.clone(), realm(it)?)));
                self.isolate = Some(realms.collect::<Option<_>>()?);
            }
            "intercept" => {
                let Data::Table(services) = &field.data else { return None };
                self.intercept = Some(services.iter().map(|(name, it)| (name.clone(), it.to_json())).collect());
            }
            "repository" => {
                let Data::List(items) = &field.data else {
                    return None;
                };
                let change = |it: &Node| Change::ALL.into_iter().find(|change| Some(change.name()) == it.as_text());
                self.repository = Some(items.iter().map(change).collect::<Option<_>>()?);
            }
            // The id was read before.
            _ => {}
        }
        Some(())
    }
}

impl From<&BuiltIn> for Patch {
    fn from(entry: &BuiltIn) -> Self {
        let config = match (&entry.plugin, &entry.config) {
            (Some(_), Json::Object(_)) => EntryConfig::new(Node::from_json(&entry.config, &Place::BuiltIn)),
            _ => None,
        };
        Self {
            plugin: entry.plugin.clone(),
            is_group: entry.plugin.is_none(),
            parent: entry.parent.clone(),
            disabled: Some((entry.is_disabled, Place::BuiltIn)),
            config: config.map(|it| (it, Place::BuiltIn)),
            repository: Some(entry.repository.clone()),
            ..Self::new(entry.id.clone(), Origin::built_in())
        }
    }
}
