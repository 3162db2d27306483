//! Names turned into small numbers, once a process: the only process-wide state of the bus.
//!
//! A number stands for one type: its name and the digest of its declaration, and the identity the compiler gave it. The
//! digest alone would not do, for a macro can declare two types with one text at one place.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

type Key = (&'static str, u64, TypeId);

static TABLE: LazyLock<Mutex<HashMap<Key, u32>>> = LazyLock::new(Mutex::default);

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
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(table.len()).expect("fewer than 2^32 declared events and services");
        let number = *table.entry((name, digest, self.of)).or_insert(next);
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
    fn neighbouring_texts_do_not_run_together() {
        assert_ne!(mix_str(mix_str(0, "ab"), "c"), mix_str(mix_str(0, "a"), "bc"));
    }
}
