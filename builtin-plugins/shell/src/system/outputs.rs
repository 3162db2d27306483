//! Output that is longer than the model sees, kept in files for as long as the plugin is there.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::config::BashConfig;

/// The kept outputs: a few files in a folder that nobody else can read, made when the first is needed.
///
/// They are written where the output comes in. That blocks a thread of the runtime for as long as the page cache takes.
#[derive(Debug)]
pub(crate) struct Outputs {
    below: Option<PathBuf>,
    limit_bytes: u64,
    n_outputs: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    folder: Option<TempDir>,
    kept: VecDeque<PathBuf>,
    n_made: u64,
    is_closed: bool,
}

impl Outputs {
    pub(crate) fn new(config: &BashConfig) -> Self {
        let BashConfig { output_folder, output_limit_bytes, n_outputs, .. } = config;
        let (below, limit_bytes) = (output_folder.clone(), *output_limit_bytes);
        Self { below, limit_bytes, n_outputs: *n_outputs, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a file for one more output, and removes the oldest if there are too many.
    fn make(&self) -> io::Result<(PathBuf, File)> {
        let mut state = self.state();
        let state = &mut *state;
        if state.is_closed || self.n_outputs == 0 {
            return Err(io::Error::other("no output is kept"));
        }
        let folder = match &state.folder {
            Some(folder) => folder,
            None => {
                let mut builder = tempfile::Builder::new();
                builder.prefix("linn-output-");
                // What commands print is nobody else's business.
                #[cfg(unix)]
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
                let folder = match &self.below {
                    Some(below) => builder.tempdir_in(below),
                    None => builder.tempdir(),
                }?;
                state.folder.insert(folder)
            }
        };
        let path = folder.path().join(format!("{}.txt", state.n_made + 1));
        let file = File::create_new(&path)?;
        state.n_made += 1;
        state.kept.push_back(path.clone());
        while state.kept.len() > self.n_outputs {
            // One that is gone already needs no removal.
            drop(state.kept.pop_front().map(fs::remove_file));
        }
        Ok((path, file))
    }

    /// Removes all of them; nothing is kept from now on.
    pub(crate) fn close(&self) -> io::Result<()> {
        let mut state = self.state();
        state.is_closed = true;
        state.kept.clear();
        state.folder.take().map_or(Ok(()), TempDir::close)
    }
}

/// One output on its way into a file, which is made once the output is longer than what is shown of it.
#[derive(Debug)]
pub(crate) struct KeptOutput {
    outputs: Arc<Outputs>,
    shown_bytes: usize,
    /// What came, as long as there is no file.
    first: Vec<u8>,
    file: Option<(PathBuf, File)>,
    n_written: u64,
    is_lost: bool,
}

impl KeptOutput {
    pub(crate) fn new(outputs: &Arc<Outputs>, shown_bytes: usize) -> Self {
        let outputs = outputs.clone();
        Self { outputs, shown_bytes, first: Vec::new(), file: None, n_written: 0, is_lost: false }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        if self.is_lost {
            return;
        }
        if self.file.is_none() && self.first.len() + piece.len() <= self.shown_bytes {
            self.first.extend_from_slice(piece);
        } else if self.write(piece).is_err() {
            // The command is not to fail for it; the model is told that there is no file.
            self.is_lost = true;
            self.first = Vec::new();
        }
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let first = std::mem::take(&mut self.first);
        let file = match &mut self.file {
            Some((_, file)) => file,
            None => &mut self.file.insert(self.outputs.make()?).1,
        };
        for bytes in [&first, piece] {
            let room = usize::try_from(self.outputs.limit_bytes - self.n_written).unwrap_or(usize::MAX);
            let bytes = &bytes[..bytes.len().min(room)];
            file.write_all(bytes)?;
            self.n_written += bytes.len() as u64;
        }
        Ok(())
    }

    /// The file, and how many bytes it holds; none if the output was short or could not be kept.
    pub(crate) fn file(&self) -> Option<(PathBuf, u64)> {
        let (path, _) = self.file.as_ref().filter(|_| !self.is_lost)?;
        Some((path.clone(), self.n_written))
    }
}
