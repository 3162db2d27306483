//! The cells of a bus, or of a scope, by the slots of their events.

use std::sync::{Arc, OnceLock};

/// The place of one cell; filled once.
pub(crate) type CellSlot<C> = OnceLock<Arc<C>>;

/// An append-only table from slot to cell, read without a lock; grows in blocks of doubling size.
pub(crate) struct SlotTable<C> {
    blocks: [OnceLock<Box<[CellSlot<C>]>>; BLOCKS],
}

const FIRST_BLOCK: u32 = 32;
const BLOCKS: usize = 12;

#[inline]
fn place(slot: u32) -> (usize, usize) {
    let shifted = slot + FIRST_BLOCK;
    let block = shifted.ilog2() - FIRST_BLOCK.ilog2();
    (block as usize, (shifted - (FIRST_BLOCK << block)) as usize)
}

impl<C> SlotTable<C> {
    pub(crate) const fn new() -> Self {
        Self { blocks: [const { OnceLock::new() }; BLOCKS] }
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Arc<C>> {
        let (block, index) = place(slot);
        self.blocks.get(block)?.get()?[index].get()
    }

    pub(crate) fn get_or_init(&self, slot: u32, make: impl FnOnce() -> Arc<C>) -> &Arc<C> {
        let (block, index) = place(slot);
        let size = FIRST_BLOCK as usize * (1 << block);
        let block = self.blocks.get(block).expect("fewer than 131,040 declared events");
        block.get_or_init(|| (0..size).map(|_| OnceLock::new()).collect())[index].get_or_init(make)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<C>> {
        self.blocks.iter().filter_map(OnceLock::get).flat_map(|block| block.iter()).filter_map(OnceLock::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_distinct_places_in_blocks_of_doubling_size() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(31), (0, 31));
        assert_eq!(place(32), (1, 0));
        assert_eq!(place(95), (1, 63));
        assert_eq!(place(96), (2, 0));
    }
}
