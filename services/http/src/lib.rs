//! HTTP for plugins that talk to the network: one client, its certificates, and errors without secrets.
//!
//! It is mechanics alone: no events, no retries, no judgment who may be asked. What a plugin wants of the network it says in
//! a trait of its own, which its tests answer without one.
//!
//! ```
//! use linn_http::{Network, NetworkConfig, Request};
//!
//! # async fn example() -> Result<(), linn_http::HttpError> {
//! let network = Network::new(NetworkConfig::default());
//! let answer = network.send(Request::get("https://example.com/")).await?;
//! assert_eq!(answer.status, 200);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod exchange;
mod network;
mod transport;

pub use exchange::{Answer, Body, HttpError, ReadError, Request};
pub use network::{Network, NetworkConfig, Redirects};
