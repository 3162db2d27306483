//! Commands: the `Shell` service, which runs them and never loses one, and the tool `bash` of the model.
//!
//! Whether a call may run is the business of approval, and how it is kept away from the rest of the machine that of a
//! sandbox; the denylist here is a seat belt, no wall.

#![forbid(unsafe_code)]

mod bash;
mod capture;
mod config;
mod deny;
mod environment;
mod flow;
mod plugin;
mod sudo;
mod system;
mod text;

pub use bash::{BashNeeds, BashPlugin};
pub use config::{BashConfig, EnvironmentConfig, ShellConfig, SudoPrompt};
pub use plugin::{ShellPlugin, ShellServicePlugin};
