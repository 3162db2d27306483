//! Names turned into small numbers, once a process: the only process-wide state of the bus.
//!
//! A number stands for one type: its name and the digest of its declaration, and the identity the compiler gave it. The
//! digest alone would not do, for a macro can declare two types with one text at one place.
//!
//! A library has a copy of the bus, with a table of its own, and types whose identity is another one. It takes its numbers
//! from the table of the program, by name and digest; a second type with the same text has a number nobody shares.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Gives the number of a declaration to a copy of the bus in a library: of name and digest, or a new one for itself alone.
pub(crate) type Numbers = fn(name: &str, digest: u64, is_first: bool) -> u32;

#[derive(Default)]
struct Table {
    /// By digest; those of one digest are few.
    declared: HashMap<u64, Vec<Declared>>,
    n_numbers: u32,
    /// The table of the program, where this is that of a library.
    program: Option<Numbers>,
}

struct Declared {
    /// Owned, because a library may be unmapped some day.
    name: Box<str>,
    /// The type in this copy; none while only libraries know the declaration.
    of: Option<TypeId>,
    number: u32,
}

impl Table {
    fn number(&mut self, name: &str, digest: u64, of: TypeId) -> u32 {
        let same = self.declared.entry(digest).or_default();
        if let Some(known) = same.iter_mut().find(|it| &*it.name == name && it.of.is_none_or(|it| it == of)) {
            known.of = Some(of);
            return known.number;
        }
        let is_first = same.iter().all(|it| &*it.name != name);
        let number = match self.program {
            Some(program) => program(name, digest, is_first),
            None => next(&mut self.n_numbers),
        };
        self.declared.entry(digest).or_default().push(Declared { name: name.into(), of: Some(of), number });
        number
    }

    #[cfg(feature = "json")]
    fn number_for_library(&mut self, name: &str, digest: u64, is_first: bool) -> u32 {
        if !is_first {
            return next(&mut self.n_numbers);
        }
        let same = self.declared.entry(digest).or_default();
        if let Some(known) = same.iter().find(|it| &*it.name == name) {
            return known.number;
        }
        let number = next(&mut self.n_numbers);
        same.push(Declared { name: name.into(), of: None, number });
        number
    }
}

fn next(n_numbers: &mut u32) -> u32 {
    let number = *n_numbers;
    *n_numbers =
        number.checked_add(1).filter(|it| *it != UNKNOWN).expect("fewer than 2^32 declared events and services");
    number
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of this program, for a library.
#[cfg(feature = "json")]
pub(crate) fn numbers() -> Numbers {
    |name, digest, is_first| table().number_for_library(name, digest, is_first)
}

/// From now on this copy of the bus takes its numbers from the program. Fails when it has given numbers of its own already,
/// and does nothing when it is told a second time.
#[cfg(feature = "json")]
pub(crate) fn take_numbers_from(program: Numbers) -> bool {
    let mut table = table();
    if table.program.is_some() {
        return true;
    }
    if !table.declared.is_empty() {
        return false;
    }
    table.program = Some(program);
    true
}

/// A number that is looked up at its first use and then read with one relaxed load.
#[derive(Debug)]
pub(crate) struct Slot {
    number: AtomicU32,
    of: TypeId,
}

const UNKNOWN: u32 = u32::MAX;

impl Slot {
    pub(crate) const fn of<T: ?Sized + 'static>() -> Self {
        Self { number: AtomicU32::new(UNKNOWN), of: TypeId::of::<T>() }
    }

    #[inline(always)]
    pub(crate) fn get(&self, name: &'static str, digest: u64) -> u32 {
        let number = self.number.load(Ordering::Relaxed);
        if number != UNKNOWN { number } else { self.look_up(name, digest) }
    }

    #[cold]
    fn look_up(&self, name: &'static str, digest: u64) -> u32 {
        let number = table().number(name, digest, self.of);
        self.number.store(number, Ordering::Relaxed);
        number
    }
}

/// Digest of a declaration: its tokens, its names, and its place in the source.
pub(crate) const fn digest(tokens: u64, names: [&str; 3], place: u64) -> u64 {
    let [name, type_path, version] = names;
    mix(mix_str(mix_str(mix_str(tokens, name), type_path), version), place)
}

/// FNV-1a over the bytes of `value`.
const fn mix(mut hash: u64, value: u64) -> u64 {
    let bytes = value.to_le_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// FNV-1a over `text`, closed with its length so that neighbours cannot run together.
const fn mix_str(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    mix(hash, bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_that_of_one_type_with_one_declaration() {
        let (one, again, other) = (Slot::of::<u8>(), Slot::of::<u8>(), Slot::of::<u16>());
        assert_eq!(one.get("intern/x", 1), again.get("intern/x", 1));
        assert_ne!(one.get("intern/x", 1), other.get("intern/x", 1));
        assert_ne!(one.get("intern/x", 1), Slot::of::<u8>().get("intern/x", 2));
    }

    #[test]
    fn a_library_shares_the_first_type_of_a_declaration_and_no_other() {
        let of_program = Slot::of::<u8>().get("intern/shared", 7);
        assert_eq!(table().number_for_library("intern/shared", 7, true), of_program);
        let second = table().number_for_library("intern/shared", 7, false);
        assert_ne!(second, of_program);
        assert_ne!(table().number_for_library("intern/shared", 8, true), of_program);
    }

    #[test]
    fn a_declaration_that_a_library_brought_first_is_met_by_the_program_later() {
        let of_library = table().number_for_library("intern/late", 7, true);
        assert_eq!(Slot::of::<u8>().get("intern/late", 7), of_library);
        assert_ne!(Slot::of::<u16>().get("intern/late", 7), of_library);
    }

    #[test]
    fn neighbouring_texts_do_not_run_together() {
        assert_ne!(mix_str(mix_str(0, "ab"), "c"), mix_str(mix_str(0, "a"), "bc"));
    }
}
