//! Who answers for models: endpoints with their keys, the models they offer, and the adapter that asks whichever of them has
//! the model that is asked for.
//!
//! It speaks no wire of models itself: each call looks up the wire of the provider's kind with
//! [`Llm`](linn_services::llm::Llm). What it reads from endpoints are lists of models and the use of a plan. It writes no
//! settings; whoever provides [`Settings`](linn_services::settings::Settings) keeps them.

#![forbid(unsafe_code)]

mod adapter;
mod book;
mod cache;
mod config;
mod discovery;
mod endpoint;
mod fetch;
mod login;
mod plugin;
mod presets;
mod search;
mod service;
mod system;
mod usage;

pub use config::{DefaultProvider, ProvidersConfig};
pub use fetch::{Fetch, FetchError, Fetched, Get};
pub use plugin::ProvidersPlugin;
