//! What is started.

use std::ffi::OsString;
use std::path::PathBuf;

/// What is started, with all that it finds: it inherits neither environment nor files.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: a path, from `cwd` if it is relative, or a name that is looked for in the `PATH` of `environment`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub stdin: Stream,
    /// Its standard output and its standard error.
    pub outputs: Stream,
}

/// What a standard input or output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// A pipe whose other end is ours.
    Pipe,
    /// Nothing.
    Null,
}
