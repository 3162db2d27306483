//! Reads the web: the provider of [`Web`](linn_services::web::Web), and the model's tools `fetch` and `web_search`.
//!
//! The tools use whichever provider there is, so what they read can come from elsewhere, such as a recording.

#![forbid(unsafe_code)]

mod config;
mod counts;
mod http;
mod page;
mod plugin;
mod provider;
mod search;
mod tools;

pub use config::WebConfig;
pub use http::{Ask, Body, Head, Http, HttpError};
pub use plugin::{WebPlugin, WebServicePlugin, WebToolsPlugin};
