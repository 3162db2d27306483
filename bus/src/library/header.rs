//! Records in the file of a library: a mark, a length, and lines of text.

use serde_json::{Map, Number, Value};

/// Length of a mark.
pub const MAGIC_LENGTH: usize = 16;
/// Mark of the record that says what a library exports and how it was built.
pub const ENTRY_MAGIC: [u8; MAGIC_LENGTH] = *b"\x89LINN-LIBRARY\r\n\x1a";
/// Mark of the record of a crate whose types cross between libraries.
pub const SHARED_MAGIC: [u8; MAGIC_LENGTH] = *b"\x89LINN-SHARED-\r\n\x1a";

/// Bytes of the length after a mark.
const LENGTH: usize = 4;

/// Sizes of types of others that stand in what the bus passes about; their crates' features change them.
const PROBES: [u8; 6] = [
    size_of::<Value>() as u8,
    align_of::<Value>() as u8,
    size_of::<Map<String, Value>>() as u8,
    size_of::<Number>() as u8,
    size_of::<std::sync::Arc<str>>() as u8,
    size_of::<std::any::TypeId>() as u8,
];

const PROBES_TEXT: [u8; PROBES.len() * 2] = {
    let mut text = [0; PROBES.len() * 2];
    let mut at = 0;
    while at < PROBES.len() {
        text[2 * at] = b"0123456789abcdef"[(PROBES[at] >> 4) as usize];
        text[2 * at + 1] = b"0123456789abcdef"[(PROBES[at] & 15) as usize];
        at += 1;
    }
    text
};

const PARTS: &[&str] = &[
    "abi=1\ncompiler=",
    env!("LINN_COMPILER"),
    "\ntarget=",
    env!("LINN_TARGET"),
    if cfg!(panic = "unwind") { "\npanic=unwind" } else { "\npanic=abort" },
    if cfg!(debug_assertions) { "\ndebug_assertions=on" } else { "\ndebug_assertions=off" },
    "\nlinn-bus=",
    env!("CARGO_PKG_VERSION"),
    " ",
    env!("LINN_SOURCES"),
    "\nlayouts=",
    match str::from_utf8(&PROBES_TEXT) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    },
    "\n",
];

const TEXT: [u8; text_length(PARTS)] = text(PARTS);

/// How this copy of the bus was built, as lines `key=value`: two copies may share values when these agree.
pub const FINGERPRINT: &str = match str::from_utf8(&TEXT) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

const fn text_length(parts: &[&str]) -> usize {
    let mut length = 0;
    let mut at = 0;
    while at < parts.len() {
        length += parts[at].len();
        at += 1;
    }
    length
}

const fn text<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut text = [0; N];
    write(&mut text, 0, parts);
    text
}

const fn write(into: &mut [u8], mut at: usize, parts: &[&str]) {
    let mut number = 0;
    while number < parts.len() {
        let part = parts[number].as_bytes();
        let mut byte = 0;
        while byte < part.len() {
            into[at] = part[byte];
            at += 1;
            byte += 1;
        }
        number += 1;
    }
}

/// Bytes of a record.
pub const fn record_length(parts: &[&str]) -> usize {
    MAGIC_LENGTH + LENGTH + text_length(parts)
}

/// A record: the mark, the length of the text in little-endian order, the text.
pub const fn record<const N: usize>(magic: [u8; MAGIC_LENGTH], parts: &[&str]) -> [u8; N] {
    let mut record = [0; N];
    let length = (text_length(parts) as u32).to_le_bytes();
    let mut at = 0;
    while at < MAGIC_LENGTH {
        record[at] = magic[at];
        at += 1;
    }
    let mut at = 0;
    while at < LENGTH {
        record[MAGIC_LENGTH + at] = length[at];
        at += 1;
    }
    write(&mut record, MAGIC_LENGTH + LENGTH, parts);
    record
}

/// The lines of the record that begins at the start of `bytes`, as key and value; none when no record begins there.
pub fn fields(magic: [u8; MAGIC_LENGTH], bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let rest = bytes.strip_prefix(&magic)?;
    let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
    let text = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let lines = str::from_utf8(text).ok()?.lines();
    let fields: Option<Vec<_>> =
        lines.map(|line| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))).collect();
    fields.filter(|it| it.iter().any(|(key, _)| key == "crate"))
}

/// A crate whose types cross between libraries, as one copy of it is.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedCrate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Digest of its sources, and whatever else it says has to agree.
    pub digest: String,
}

impl SharedCrate {
    /// Reads the record that begins at the start of `bytes`.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let fields = fields(SHARED_MAGIC, bytes)?;
        let of = |key: &str| {
            let values: Vec<_> = fields.iter().filter(|(it, _)| it == key).map(|(_, value)| value.as_str()).collect();
            values.join(" ")
        };
        let digest = format!("{} {}", of("sources"), of("more")).trim_end().to_owned();
        Some(Self { name: of("crate"), version: of("version"), digest })
    }
}

/// One link-time registration of a shared crate.
#[derive(Debug)]
pub struct SharedRegistration(pub &'static [u8]);
inventory::collect!(SharedRegistration);

/// The shared crates linked into this program, by name.
pub fn shared_crates() -> Vec<SharedCrate> {
    let records = inventory::iter::<SharedRegistration>.into_iter();
    let mut all: Vec<_> = records.filter_map(|it| SharedCrate::read(it.0)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        const PARTS: &[&str] = &["crate=x\nversion=", "1.0", "\nsources=ab\nmore=c\n"];
        static RECORD: [u8; record_length(PARTS)] = record(SHARED_MAGIC, PARTS);
        let read = SharedCrate::read(&RECORD).unwrap();
        assert_eq!(read, SharedCrate { name: "x".into(), version: "1.0".into(), digest: "ab c".into() });
        assert!(fields(ENTRY_MAGIC, &RECORD).is_none());
        for cut in 0..RECORD.len() {
            assert!(SharedCrate::read(&RECORD[..cut]).is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn the_fingerprint_names_what_has_to_agree() {
        let keys: Vec<_> = FINGERPRINT.lines().map(|line| line.split_once('=').unwrap().0).collect();
        assert_eq!(keys, ["abi", "compiler", "target", "panic", "debug_assertions", "linn-bus", "layouts"]);
    }
}
