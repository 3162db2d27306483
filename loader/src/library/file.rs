//! What the file of a library says, read without opening the library.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linn_bus::library::{ENTRY_MAGIC, FINGERPRINT, MAGIC_LENGTH, SHARED_MAGIC, SharedCrate, fields};
use memchr::memmem;
use object::{Object as _, ObjectKind, ObjectSection as _, ObjectSegment as _};
use sha2::{Digest as _, Sha256};

use crate::library::{Difference, LibraryError};
use crate::system;

/// SHA-256 of the content of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.is_ascii() {
            return None;
        }
        for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A library as its file describes it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LibraryFile {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub digest: Digest,
    /// Crate that it was built from.
    pub krate: String,
    /// Version of that crate.
    pub version: String,
    /// Names of its plugins.
    pub plugins: Vec<String>,
    /// Crates in it whose types cross between libraries.
    pub shared: Vec<SharedCrate>,
    /// The function that it exports.
    pub(crate) symbol: String,
    /// How it was built.
    pub(super) fingerprint: Vec<(String, String)>,
    pub(crate) bytes: Arc<[u8]>,
}

impl LibraryFile {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    ///
    /// The file is no library of a plugin, or is one for another kind of machine.
    pub fn read(path: &Path) -> Result<Self, LibraryError> {
        let bytes = system::read(path).map_err(|source| LibraryError::File {
            action: "read",
            path: path.to_owned(),
            source: Arc::new(source),
        })?;
        Self::parse(path, bytes)
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, LibraryError> {
        let path = path.to_owned();
        look_at(&path, &bytes)?;
        let entry = records(ENTRY_MAGIC, &bytes).find_map(|it| fields(ENTRY_MAGIC, it));
        let entry = entry.ok_or_else(|| LibraryError::NoPlugin { path: path.clone() })?;
        let of = |key: &str| entry.iter().find(|(it, _)| it == key).map(|(_, value)| value.clone());
        let (Some(krate), Some(version), Some(symbol)) = (of("crate"), of("version"), of("symbol")) else {
            return Err(LibraryError::NoPlugin { path });
        };
        let mut shared: Vec<_> = records(SHARED_MAGIC, &bytes).filter_map(SharedCrate::read).collect();
        shared.sort_by(|a, b| a.name.cmp(&b.name));
        shared.dedup();
        let own = ["crate", "version", "symbol", "plugin"];
        let plugins = entry.iter().filter(|(key, _)| key == "plugin").map(|(_, value)| value.clone()).collect();
        let fingerprint = entry.iter().filter(|(key, _)| !own.contains(&key.as_str())).cloned().collect();
        let digest = Digest::of(&bytes);
        Ok(Self { path, digest, krate, version, plugins, shared, symbol, fingerprint, bytes: bytes.into() })
    }

    /// The same without its content.
    pub(crate) fn without_bytes(self) -> Self {
        Self { bytes: Arc::default(), ..self }
    }

    /// In what it was built differently from this program.
    pub fn differences(&self) -> Vec<Difference> {
        let program: Vec<_> = FINGERPRINT.lines().filter_map(|it| it.split_once('=')).collect();
        let library: Vec<_> = self.fingerprint.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let value = |of: &[(&str, &str)], key: &str| {
            of.iter().find(|(it, _)| *it == key).map(|(_, value)| (*value).to_owned()).unwrap_or_default()
        };
        let mut keys: Vec<_> = program.iter().chain(&library).map(|(key, _)| *key).collect();
        let mut seen = Vec::new();
        keys.retain(|it| {
            !seen.contains(it) && {
                seen.push(*it);
                true
            }
        });
        let own = keys.into_iter().map(|key| Difference {
            what: key.to_owned(),
            program: value(&program, key),
            library: value(&library, key),
        });
        let mut differences: Vec<_> = own.filter(|it| it.program != it.library).collect();
        differences.extend(shared_differences(&linn_bus::library::shared_crates(), &self.shared));
        differences
    }

    /// Whether this program may open it.
    ///
    /// # Errors
    ///
    /// It was built differently.
    pub fn check(&self) -> Result<(), LibraryError> {
        let differences = self.differences();
        if differences.is_empty() {
            Ok(())
        } else {
            Err(LibraryError::BuiltDifferently { path: self.path.clone(), differences })
        }
    }
}

/// Crates that both sides have, in different copies.
pub(crate) fn shared_differences(one: &[SharedCrate], other: &[SharedCrate]) -> Vec<Difference> {
    let text = |it: &SharedCrate| format!("{} {}", it.version, it.digest);
    let both = other.iter().filter_map(|it| Some((one.iter().find(|here| here.name == it.name)?, it)));
    both.filter(|(here, there)| here != there)
        .map(|(here, there)| Difference { what: there.name.clone(), program: text(here), library: text(there) })
        .collect()
}

/// The bytes from each mark on.
fn records(magic: [u8; MAGIC_LENGTH], bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let finder = memmem::Finder::new(&magic).into_owned();
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = at + finder.find(&bytes[at..])?;
        at = found + 1;
        Some(&bytes[found..])
    })
}

/// Whether it is a whole library for this machine.
fn look_at(path: &Path, bytes: &[u8]) -> Result<(), LibraryError> {
    let no_library = |reason: String| LibraryError::NoLibrary { path: path.to_owned(), reason };
    if bytes.is_empty() {
        return Err(no_library("it is empty".to_owned()));
    }
    let file = match object::File::parse(bytes) {
        Ok(file) => file,
        Err(error) => {
            // A header that is whole and points past the end is that of a file which was cut off.
            return Err(match wanted_length(bytes) {
                Some(n_wanted) if n_wanted > bytes.len() as u64 => {
                    LibraryError::Truncated { path: path.to_owned(), n_bytes: bytes.len() as u64, n_wanted }
                }
                _ => no_library(error.to_string()),
            });
        }
    };
    let ends = file.sections().filter_map(|it| it.file_range()).chain(file.segments().map(|it| it.file_range()));
    let n_wanted = ends.map(|(start, length)| start.saturating_add(length)).max().unwrap_or(0);
    let n_wanted = n_wanted.max(wanted_length(bytes).unwrap_or(0));
    if n_wanted > bytes.len() as u64 {
        return Err(LibraryError::Truncated { path: path.to_owned(), n_bytes: bytes.len() as u64, n_wanted });
    }
    if file.kind() != ObjectKind::Dynamic {
        return Err(no_library(format!("it is of the kind `{:?}`", file.kind()).to_lowercase()));
    }
    // As `cargo` and `object` name the common ones.
    let here = std::env::consts::ARCH.replace('_', "").to_lowercase();
    let there = format!("{:?}", file.architecture()).replace('_', "").to_lowercase();
    if here != there {
        return Err(LibraryError::BuiltDifferently {
            path: path.to_owned(),
            differences: vec![Difference {
                what: "machine".to_owned(),
                program: std::env::consts::ARCH.to_owned(),
                library: format!("{:?}", file.architecture()),
            }],
        });
    }
    Ok(())
}

/// Where the table of sections of an ELF file of 64 bits ends, which is the end of the file.
fn wanted_length(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(b"\x7fELF\x02\x01")?;
    let at = |from: usize, length: usize| rest.get(from - 6..from - 6 + length);
    let offset = u64::from_le_bytes(at(0x28, 8)?.try_into().ok()?);
    let number = |from| Some(u64::from(u16::from_le_bytes(at(from, 2)?.try_into().ok()?)));
    offset.checked_add(number(0x3a)? * number(0x3c)?)
}

/// An error of reading or copying.
pub(crate) fn file_error(action: &'static str, path: &Path, source: io::Error) -> LibraryError {
    LibraryError::File { action, path: path.to_owned(), source: Arc::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::of(b"x");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::parse("12"), None);
        assert_eq!(Digest::parse(&"é".repeat(32)), None);
    }

    #[test]
    fn what_is_no_library_is_told_as_what_it_is() {
        let error = |bytes: &[u8]| LibraryFile::parse(Path::new("x.so"), bytes.to_vec()).unwrap_err();
        assert_eq!(error(b"").to_string(), "x.so is no library: it is empty");
        assert_eq!(error(b"#!/bin/sh\n").code(), "LIBRARY_NONE");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(error(&own[..own.len() / 2]).code(), "LIBRARY_TRUNCATED");
    }

    #[test]
    fn copies_that_differ_are_named_with_both_sides() {
        let bus = linn_bus::library::shared_crates().into_iter().find(|it| it.name == "linn-services").unwrap();
        let mut other = vec![bus.clone()];
        assert_eq!(shared_differences(std::slice::from_ref(&bus), &other), []);
        other[0].version = "9.0.0".into();
        let differences = shared_differences(&[bus], &other);
        assert!(differences[0].to_string().starts_with("linn-services: 0.1.0 "), "{}", differences[0]);
    }
}
