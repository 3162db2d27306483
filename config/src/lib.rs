//! The configuration of Linn: what may be set, who set it, and what came out.
//!
//! Layers, from the lowest: built-in defaults; files, variables and flags of existing clients; the user file
//! `~/.config/linn/linn.toml`; the workspace file `<workspace>/.linn/linn.toml`; variables `LINN_*`; the command line;
//! and what commands change while the program runs. Of each value it is known where it is written. What is wrong is a
//! [`Problem`], and the rest is loaded.
//!
//! The crate mounts nothing, watches nothing, and knows no plugin: names and configs of entries are passed on as they
//! are.
//! It calls the operating system in [`Sources::system`] and [`SystemFiles`] alone.
//!
//! ```
//! use linn_config::{BuiltIn, Config, MemoryFiles, Sources, keys};
//!
//! let files = MemoryFiles::new([(
//!     "/u/ada/.config/linn/linn.toml",
//!     "shell.timeout_secs = 60\naproval = 'always'\n[[plugins]]\nid = 'git'\ndisabled = true",
//! )]);
//! let sources = Sources { home: Some("/u/ada".into()), ..Sources::in_memory("/src/engine", files) };
//! let config = Config::load(sources, &[BuiltIn::plugin("git"), BuiltIn::plugin("web")]);
//!
//! assert_eq!(config.get(&keys::SHELL_TIMEOUT_SECS), 60);
//! let origin = config.origin(keys::SHELL_TIMEOUT_SECS.declaration());
//! assert_eq!(origin.to_string(), "/u/ada/.config/linn/linn.toml:1:22 (user)");
//! assert_eq!(
//!     config.problems()[0].to_string(),
//!     "/u/ada/.config/linn/linn.toml:2:11: there is no key `aproval`; did you mean `approval`?"
//! );
//! let enabled: Vec<&str> = config.tree().entries().iter().filter(|it| it.is_enabled).map(|it| it.id.as_str()).collect();
//! assert_eq!(enabled, ["web"]);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod origin;
mod problem;

mod sources;
mod system;

mod node;
mod read_json;
mod read_toml;

mod key;
pub mod keys;
mod provider;
mod value;

mod check;
mod gather;
mod paths;
mod tree;

mod config;
mod table;

mod client_files;
mod linn_file;

pub use secrecy::{ExposeSecret, SecretString};

pub use crate::client_files::{ClientFiles, ProviderChange, SearchService, Vision};
pub use crate::config::{Config, Listed, ProviderKey};
pub use crate::key::{Base, ClientNames, Declaration, Initial, Key, Kind, Who};
pub use crate::linn_file::{EntryChange, UserFile};
pub use crate::origin::{Layer, Origin, Place};
pub use crate::paths::{client_folder, user_file, vision_file, workspace_file};
pub use crate::problem::{EntryFault, IncludeFault, Problem};
pub use crate::provider::{ModelOverride, Provider, ProviderKind};
pub use crate::sources::{Access, FileLock, Files, MemoryFiles, Sources, Variables};
pub use crate::system::SystemFiles;
pub use crate::table::key_table;
pub use crate::tree::{BuiltIn, Change, Entry, EntryConfig, EntryServices, Realm, Tree};

pub use crate::value::{Approval, Choice, NetworkMode, SandboxMode, Typed, Value};
