//! The bridge between two streams, with the real registries and plugins and a scripted model.

#![expect(clippy::unwrap_used, reason = "what a test waits for has to be there")]

mod cancel;
mod closing;
mod conversation;
mod files;
mod human;
mod kit;
mod news;
mod program;
mod providers;
mod sessions;
mod shell;
mod startup;
mod transport;
mod turns;
