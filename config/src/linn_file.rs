//! Writes what the program changes to the user file. Comments, order and spelling of the rest stay.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value as TomlValue};

use crate::check::{Form, check};
use crate::gather::{Named, PLUGINS, is_absent, unknown};
use crate::key::{Declaration, Who};
use crate::node::{NOT_SHOWN, Node};
use crate::origin::{Layer, Lines, Origin, Place};
use crate::paths;
use crate::problem::{EntryFault, Problem};
use crate::sources::{Access, Sources};

/// Linn's user file.
///
/// Each method reads the file, changes it and puts it in place in one step, holding a lock that other processes of Linn
/// take too. A file that is no TOML is left as it is, and the method fails. All of them may wait for a disk or another
/// process.
#[derive(Debug)]
pub struct UserFile<'a> {
    sources: &'a Sources,
    path: PathBuf,
}

/// What to change of an entry of the plugin tree. What is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct EntryChange {
    /// The plugin, which makes it a new entry where there is none of the id.
    pub plugin: Option<String>,
    /// Whether it is disabled.
    pub disabled: Option<bool>,
    /// Its whole config, a JSON object.
    pub config: Option<Json>,
    /// The group it is in; the empty name is the top.
    pub parent: Option<String>,
}

impl<'a> UserFile<'a> {
    /// The user file of `sources`.
    ///
    /// # Errors
    ///
    /// [`Problem::NoHome`].
    pub fn new(sources: &'a Sources) -> Result<Self, Problem> {
        let home = sources.home.as_deref().ok_or(Problem::NoHome { what: "the user file" })?;
        Ok(Self { sources, path: paths::user_file(home) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets a key to a value in the form that the file has it in.
    ///
    /// # Errors
    ///
    /// If there is no such key, if no file may set it, or if the value is none of its; or as for
    /// [`unset`](Self::unset). Then the file is as it was.
    pub fn set(&self, name: &str, value: &Json) -> Result<(), Problem> {
        let key = self.key(name)?;
        let origin = Origin::new(Layer::User, self.place());
        let checked = check(key, &Node::from_json(value, &origin.place), &origin, Form::Exact);
        if let Some(problem) = checked.problems.into_iter().next() {
            return Err(problem);
        }
        let Some(value) = to_toml(value) else {
            return self.unset(name);
        };
        self.change(|file| {
            let (groups, last) = split(name);
            let mut table: &mut dyn TableLike = file.as_table_mut();
            for (at, group) in groups.iter().enumerate() {
                let made = || {
                    let mut table = Table::new();
                    // A table of tables alone needs no header of its own.
                    table.set_implicit(at + 1 < groups.len());
                    Item::Table(table)
                };
                let place = self.place();
                table =
                    table.entry(group).or_insert_with(made).as_table_like_mut().ok_or_else(|| Problem::WrongValue {
                        place,
                        key: (*group).to_owned(),
                        value: "something else".into(),
                        expected: "a table of keys".into(),
                        similar: None,
                    })?;
            }
            put(table, last, value);
            Ok(())
        })
    }

    /// Takes what the file says of a key away, so that layers below say it.
    ///
    /// # Errors
    ///
    /// [`Problem::UnknownKey`], [`Problem::File`] or [`Problem::Syntax`]. Then the file is as it was.
    pub fn unset(&self, name: &str) -> Result<(), Problem> {
        self.key(name)?;
        self.change(|file| {
            let (groups, last) = split(name);
            let mut table: &mut dyn TableLike = file.as_table_mut();
            for group in groups {
                match table.get_mut(group).and_then(Item::as_table_like_mut) {
                    Some(inner) => table = inner,
                    None => return Ok(()),
                }
            }
            table.remove(last);
            Ok(())
        })
    }

    /// Changes what the file says of an entry of the plugin tree, or adds it to its list.
    ///
    /// # Errors
    ///
    /// [`Problem::Entry`] if the config is no object, [`Problem::File`] or [`Problem::Syntax`]. Then the file is as it
    /// was.
    pub fn change_entry(&self, id: &str, change: &EntryChange) -> Result<(), Problem> {
        let wrong = |field: &str, value: &str, expected: &str| Problem::Entry {
            place: self.place(),
            id: id.to_owned(),
            fault: EntryFault::Field { field: field.into(), value: value.into(), expected: expected.into() },
        };
        let config = match &change.config {
            Some(Json::Object(fields)) => Some(config_table(fields)),
            Some(_) => return Err(wrong("config", NOT_SHOWN, "a table")),
            None => None,
        };
        self.change(|file| {
            let list = file.entry(PLUGINS).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            let Some(entry) = entry_of(list, id) else {
                return Err(wrong(PLUGINS, "no list of tables", "a list of entries, each below `[[plugins]]`"));
            };
            for (name, text) in [("plugin", &change.plugin), ("parent", &change.parent)] {
                if let Some(text) = text {
                    put(entry, name, text.into());
                }
            }
            if let Some(is_disabled) = change.disabled {
                put(entry, "disabled", is_disabled.into());
            }
            if let Some(config) = config {
                entry.insert("config", Item::Table(config));
            }
            Ok(())
        })
    }

    /// Takes what the file says of an entry away; whether it said anything.
    ///
    /// # Errors
    ///
    /// [`Problem::File`] or [`Problem::Syntax`]. Then the file is as it was.
    pub fn remove_entry(&self, id: &str) -> Result<bool, Problem> {
        let mut was_there = false;
        self.change(|file| {
            match file.get_mut(PLUGINS) {
                Some(Item::ArrayOfTables(tables)) => {
                    let before = tables.len();
                    tables.retain(|it| it.get("id").and_then(Item::as_str) != Some(id));
                    was_there = tables.len() < before;
                }
                Some(Item::Value(TomlValue::Array(tables))) => {
                    let before = tables.len();
                    tables.retain(|it| inline_id(it) != Some(id));
                    was_there = tables.len() < before;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(was_there)
    }

    fn key(&self, name: &str) -> Result<&'static Declaration, Problem> {
        match Named::find(name) {
            Named::Key(key) if key.who == Who::Start => {
                Err(Problem::NotForFiles { place: self.place(), key: name.to_owned(), how: key.at_start() })
            }
            Named::Key(key) => Ok(key),
            Named::Group | Named::Nothing => Err(unknown(name, self.place())),
        }
    }

    /// The file as a whole.
    fn place(&self) -> Place {
        Place::File { path: self.path.as_path().into(), line: 1, column: 1 }
    }

    fn change(&self, change: impl FnOnce(&mut DocumentMut) -> Result<(), Problem>) -> Result<(), Problem> {
        let files = &*self.sources.files;
        let lock = self.path.with_extension("lock");
        let _locked = files.lock(&lock).map_err(|error| Problem::file("lock", &lock, error))?;
        let text = match files.read(&self.path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => String::new(),
            Err(error) => return Err(Problem::file("read", &self.path, error)),
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut file: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| Problem::Syntax {
            place: Lines::new(&self.path, text).place(error.span().map_or(0, |it| it.start)),
            message: error.message().trim_end().replace('\n', "; "),
        })?;
        // What a file of comments says is about what is to come, so it stays in front.
        let is_empty = file.as_table().is_empty();
        let head = file.trailing().as_str().filter(|_| is_empty).unwrap_or_default().to_owned();
        if is_empty {
            file.set_trailing("");
        }
        change(&mut file)?;
        let text = head + &file.to_string();
        files.write(&self.path, &text, Access::Private).map_err(|error| Problem::file("write", &self.path, error))
    }
}

/// The table of the entry `id` in the list, made if there is none. Of several the last, since it wins when the file is
/// read.
fn entry_of<'f>(list: &'f mut Item, id: &str) -> Option<&'f mut dyn TableLike> {
    let last = |ids: Vec<Option<&str>>| ids.iter().rposition(|it| *it == Some(id));
    match list {
        Item::ArrayOfTables(tables) => {
            let known = last(tables.iter().map(|it| it.get("id").and_then(Item::as_str)).collect());
            if known.is_none() {
                let mut table = Table::new();
                table.insert("id", id.into());
                tables.push(table);
            }
            let at = known.unwrap_or(tables.len() - 1);
            Some(tables.get_mut(at)?)
        }
        Item::Value(TomlValue::Array(tables)) => {
            let known = last(tables.iter().map(inline_id).collect());
            if known.is_none() {
                let mut table = InlineTable::new();
                table.insert("id", id.into());
                tables.push(table);
            }
            let at = known.unwrap_or(tables.len() - 1);
            Some(tables.get_mut(at)?.as_inline_table_mut()?)
        }
        _ => None,
    }
}

fn inline_id(entry: &TomlValue) -> Option<&str> {
    entry.as_inline_table()?.get("id")?.as_str()
}

/// `a.b.c` as `[a, b]` and `c`.
fn split(name: &str) -> (Vec<&str>, &str) {
    let mut groups: Vec<&str> = name.split('.').collect();
    let last = groups.pop().unwrap_or_default();
    (groups, last)
}

/// Sets a field; comments around the old value stay around the new one.
fn put(table: &mut dyn TableLike, name: &str, mut value: TomlValue) {
    if let Some(old) = table.get(name).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    match table.get_mut(name) {
        Some(item) => *item = Item::Value(value),
        None => {
            table.insert(name, Item::Value(value));
        }
    }
}

/// The value in TOML; `None` for null, which TOML does not have.
fn to_toml(json: &Json) -> Option<TomlValue> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(it) => (*it).into(),
        Json::Number(it) => match it.as_i64() {
            Some(it) => it.into(),
            None => it.as_f64()?.into(),
        },
        Json::String(it) => it.as_str().into(),
        Json::Array(items) => TomlValue::Array(items.iter().filter_map(to_toml).collect::<Array>()),
        Json::Object(fields) => {
            let mut table = InlineTable::new();
            for (name, it) in fields {
                if let Some(value) = to_toml(it) {
                    table.insert(name, value);
                }
            }
            TomlValue::InlineTable(table)
        }
    })
}

fn config_table(fields: &serde_json::Map<String, Json>) -> Table {
    let mut table = Table::new();
    for (name, it) in fields {
        if let Some(value) = to_toml(it) {
            table.insert(name, Item::Value(value));
        }
    }
    table
}
