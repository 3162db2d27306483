//! What an agent has loaded, as the log of its session tells it.

use std::collections::BTreeSet;

use linn_services::session::{Fact, Record, Session};
use serde_json::{Value, json};

/// Kind of the fact that says which tools were loaded: `{names: [..]}`.
pub const LOADED: &str = "tools/loaded";

/// The tools that are loaded in a session as it stands: what was loaded and not taken back.
pub fn loaded_in(session: &Session) -> BTreeSet<String> {
    // What lies between a rewind and the record it goes back to was taken back, rewinds among it.
    let mut end = u64::MAX;
    let mut loaded = BTreeSet::new();
    session.find_last(|record| {
        if record.seq < end {
            match &record.fact {
                Fact::SessionRewind(rewind) => end = rewind.to,
                _ => loaded.extend(names_in(record)),
            }
        }
        None::<()>
    });
    loaded
}

fn names_in(record: &Record) -> Vec<String> {
    let Fact::Other { kind, data } = &record.fact else { return Vec::new() };
    let names = data.get("names").and_then(Value::as_array).filter(|_| kind == LOADED);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The fact that tools were loaded.
pub(crate) fn fact(names: &[&str]) -> Fact {
    Fact::Other { kind: LOADED.to_owned(), data: json!({ "names": names }) }
}

/// What is known of a session that is read on from where it was read to before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reader {
    next: u64,
    loaded: BTreeSet<String>,
}

impl Reader {
    /// The tools that are loaded now.
    pub(crate) fn read_on(&mut self, session: &Session) -> &BTreeSet<String> {
        let records = session.records_from(self.next);
        self.next += records.len() as u64;
        if records.iter().any(|it| matches!(it.fact, Fact::SessionRewind(_))) {
            self.loaded = loaded_in(session);
        } else {
            self.loaded.extend(records.iter().flat_map(|it| names_in(it)));
        }
        &self.loaded
    }
}
