//! Names turned into small numbers, once a process: the only process-wide state of the bus.
//!
//! A number stands for a (name, digest) pair, so two copies of one event or service share it and two different ones never do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

static TABLE: LazyLock<Mutex<HashMap<(&'static str, u64), u32>>> = LazyLock::new(Mutex::default);

/// A number that is looked up at its first use and then read with one relaxed load.
#[derive(Debug)]
pub(crate) struct Slot(AtomicU32);

const UNKNOWN: u32 = u32::MAX;

impl Slot {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }

    #[inline(always)]
    pub(crate) fn get(&self, name: &'static str, digest: u64) -> u32 {
        let number = self.0.load(Ordering::Relaxed);
        if number != UNKNOWN { number } else { self.look_up(name, digest) }
    }

    #[cold]
    fn look_up(&self, name: &'static str, digest: u64) -> u32 {
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(table.len()).expect("fewer than 2^32 declared events and services");
        let number = *table.entry((name, digest)).or_insert(next);
        self.0.store(number, Ordering::Relaxed);
        number
    }
}

/// FNV-1a over the bytes of `value`.
pub(crate) const fn mix(mut hash: u64, value: u64) -> u64 {
    let bytes = value.to_le_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// FNV-1a over `text`, closed with its length so that neighbours cannot run together.
pub(crate) const fn mix_str(mut hash: u64, text: &str) -> u64 {
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
    fn a_slot_is_shared_by_copies_and_not_by_namesakes() {
        let (one, copy, namesake) = (Slot::new(), Slot::new(), Slot::new());
        assert_eq!(one.get("intern/x", 1), copy.get("intern/x", 1));
        assert_ne!(one.get("intern/x", 1), namesake.get("intern/x", 2));
    }

    #[test]
    fn neighbouring_texts_do_not_run_together() {
        assert_ne!(mix_str(mix_str(0, "ab"), "c"), mix_str(mix_str(0, "a"), "bc"));
    }
}
