//! Small files of JSON that outlive the harness, written by one process at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of JSON and the lock beside it.
#[derive(Debug, Clone)]
pub(crate) struct KeptFile {
    pub(crate) path: PathBuf,
}

/// What a file held.
#[derive(Debug)]
pub(crate) enum Kept<T> {
    /// There is none.
    Nothing,
    /// This.
    Value(T),
    /// Something that cannot be read; why.
    Corrupt(String),
}

impl KeptFile {
    /// Reads it.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Kept<T> {
        match fs::read(&self.path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(value) => Kept::Value(value),
                Err(error) => Kept::Corrupt(error.to_string()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::Nothing,
            Err(error) => Kept::Corrupt(error.to_string()),
        }
    }

    /// Changes it, alone among all processes. What cannot be read is set aside first, under a name that is given back.
    pub(crate) fn change<T: DeserializeOwned + Serialize + Default>(
        &self,
        change: impl FnOnce(&mut T),
    ) -> io::Result<Option<PathBuf>> {
        let folder = self.path.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
        fs::create_dir_all(folder)?;
        // Gone with the handle, also when the process dies.
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(self.path.with_extension("lock"))?;
        lock.lock()?;
        let mut set_aside = None;
        let mut value = match self.read::<T>() {
            Kept::Value(value) => value,
            Kept::Nothing => T::default(),
            Kept::Corrupt(_) => {
                let aside = self.free_name();
                fs::rename(&self.path, &aside)?;
                set_aside = Some(aside);
                T::default()
            }
        };
        change(&mut value);
        let mut text = serde_json::to_vec_pretty(&value)?;
        text.push(b'\n');
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|it| it.error)?;
        File::open(folder)?.sync_all()?;
        Ok(set_aside)
    }

    /// A name beside it that is not taken.
    fn free_name(&self) -> PathBuf {
        let name = |n: u32| self.path.with_extension(format!("corrupt-{n}.json"));
        (1..).map(name).find(|it| !it.exists()).expect("there are more numbers than files")
    }
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a text into a file.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}
