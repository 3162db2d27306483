//! The gate on a bus, with the services that it works with.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod commands;
mod links;
mod modes;
mod permissions;
mod support;
