//! Where script plugins meet the operating system: processes, folders, what is kept about plugins, and the environment.
//!
//! A script leads a session of its own, without a terminal, and carries the variable `LINN_CALL` of its run in its
//! environment. When it is over, or is ended, everything is killed that it started, as far as [`linn_process`] finds it.

mod folder;
mod group;
mod install;
mod redirect;
mod run;
mod staging;
mod store;
mod watched;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use folder::{
    Digest, FileProblem, Snapshot, children, digest, is_folder, open_file, prompt_file, real_path, script_file,
    text_of_file,
};
pub(crate) use install::{CopyProblem, copy_plugin, make_executable, unpack};
pub(crate) use redirect::{Redirect, open_url};
pub(crate) use run::{NotRan, Run, run};
pub(crate) use staging::{Staging, is_staging, move_away, swap_into, take_back};
pub(crate) use store::{Kept, KeptFile, remove_file, write_file};
pub(crate) use watched::Watched;

/// The environment of the harness.
pub(crate) fn own_environment() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().collect()
}

/// The folder of the harness; if it is gone, the first of `others` that is there, and that it is not the one meant.
pub(crate) fn working_folder(others: &[&Path]) -> (PathBuf, bool) {
    match std::env::current_dir() {
        Ok(folder) if folder.is_dir() => (folder, true),
        _ => {
            let other = others.iter().find(|it| it.is_dir()).copied();
            (other.unwrap_or(Path::new("/")).to_owned(), false)
        }
    }
}

/// Whether a program of this name is in one of the folders of `PATH`.
pub(crate) fn is_in_path(path: Option<&OsString>, program: &str) -> bool {
    std::env::split_paths(path.map(OsString::as_os_str).unwrap_or_default()).any(|it| it.join(program).is_file())
}

/// Whether there is anything at a path, links followed.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

/// Makes a relative path absolute, from the folder of the harness.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Runs what waits for the disk on a thread of its own. It runs to its end, also when nobody waits for it any more.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    #[expect(clippy::disallowed_methods, reason = "it touches files alone, ends by itself and is waited for")]
    let task = tokio::task::spawn_blocking(work);
    match task.await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
