//! The folder of what was learnt.

mod folder;

pub(crate) use folder::{CacheFolder, Merge};
