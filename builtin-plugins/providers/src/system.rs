//! The network, and the folder of what was learnt.

mod folder;
mod http;

pub(crate) use folder::{CacheFolder, Merge};
pub(crate) use http::HttpFetch;
