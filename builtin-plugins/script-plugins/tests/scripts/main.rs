//! Script plugins, as whoever writes, installs or meets them sees them; what is left of scripts is looked for in the table
//! of processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod commands;
mod examples;
mod install;
mod lifecycle;
mod logins;
mod manage;
mod memories;
mod post_hooks;
mod pre_hooks;
mod records;
mod requests;
mod runs;
mod support;
mod tools;
mod trust;
