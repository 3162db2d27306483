//! Keeps sessions on disk.
//!
//! Each session has a log, `<id>.events`: a header, then one record a line, and it only grows. What a session holds is
//! written when a record ends something, and is on the medium when a flush returns. One process writes a log at a time. The
//! format is described in `docs/sessions.md`.
//!
//! It provides the seams `session-persistence` and `session-files`, and needs nothing.
//!
//! ```
//! use linn_plugin_session_store::{SessionStoreConfig, SessionStorePlugin};
//! use linn_services::persistence::SessionPersistence;
//! use linn_services::session::{CreateSession, Sessions, SessionsPlugin};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().to_owned();
//! linn_bus_test::run(async |root| {
//!     root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
//!     root.mount::<SessionStorePlugin>(SessionStoreConfig::new(folder)).unwrap().running().await.unwrap();
//!     let sessions = root.get::<dyn Sessions>().unwrap();
//!     let session = sessions.create(&root, CreateSession::default()).unwrap();
//!     sessions.flush(&session).await.unwrap();
//!     let stored = root.get::<dyn SessionPersistence>().unwrap();
//!     assert!(stored.list().await.unwrap().is_empty(), "a session without records is not kept");
//! });
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod files;
mod import;
mod load;
mod log_file;
mod meta;
mod place;
mod plugin;
mod provider;
mod read;
mod store;
mod summary;
pub mod system;
mod view;

pub use plugin::{SessionStoreConfig, SessionStorePlugin, start_on};
