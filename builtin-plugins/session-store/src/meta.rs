//! Title and pin of a session, in a small file beside it.

use std::io;
use std::path::Path;

use linn_services::persistence::PersistenceError;
use serde_json::{Map, Value};

use crate::files::{failed, folder_of, read, replace};
use crate::place::Place;
use crate::system::{Disk, Lock, Patience};

/// Longest title, in characters.
const LONGEST_TITLE: usize = 120;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) title: Option<String>,
    pub(crate) is_pinned: bool,
}

/// Reads it. A file that is missing or damaged says nothing: what it holds is a convenience.
pub(crate) fn read_meta(disk: &dyn Disk, place: &Place) -> Meta {
    let fields = read(disk, &place.meta()).ok().flatten().and_then(|it| serde_json::from_slice(&it).ok());
    let fields: Map<String, Value> = fields.unwrap_or_default();
    let title = fields.get("title").and_then(Value::as_str).map(str::trim).filter(|it| !it.is_empty());
    Meta {
        title: title.map(str::to_owned),
        is_pinned: fields.get("pinned").and_then(Value::as_bool).unwrap_or_default(),
    }
}

/// Sets a field; `None` takes it away. Fields that others put there stay.
pub(crate) fn set_field(
    disk: &dyn Disk,
    place: &Place,
    name: &str,
    value: Option<Value>,
    mark: u64,
) -> Result<(), PersistenceError> {
    let path = place.meta();
    disk.make_folder(folder_of(&path)).map_err(failed("cannot make the folder of", &path))?;
    // Two that read, change and write at the same time would lose the change of one.
    let lock = place.meta_lock();
    let _lock: Lock = disk.lock(&lock, Patience::Wait).map_err(failed("cannot lock", &lock))?;
    let bytes = read(disk, &path).map_err(failed("cannot read", &path))?;
    let mut fields: Map<String, Value> = bytes.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default();
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
    write(disk, &path, &fields, mark).map_err(failed("cannot write", &path))
}

fn write(disk: &dyn Disk, path: &Path, fields: &Map<String, Value>, mark: u64) -> io::Result<()> {
    replace(disk, path, &serde_json::to_vec(fields)?, mark)
}

/// A title as it is kept: trimmed, and cut where it is too long. `None` if nothing is left.
pub(crate) fn tidy_title(title: &str) -> Option<String> {
    let title: String = title.trim().chars().take(LONGEST_TITLE).collect();
    Some(title.trim_end().to_owned()).filter(|it| !it.is_empty())
}
