//! The folder beside the place of a plugin in which it is put together, and the step from there into its place.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::TempDir;

/// How the names of these folders begin.
const PREFIX: &str = ".installing-";

/// How the names of those begin that hold what nobody but the user may throw away.
const KEPT: &str = ".kept-";

/// A folder beside where a plugin shall be, with a name nobody can foresee and open to this user alone. It goes with this.
#[derive(Debug)]
pub(crate) struct Staging {
    folder: TempDir,
    /// Says that somebody is at it, as long as it is open.
    _root: File,
}

impl Staging {
    /// Makes one. What others left behind goes first, if nobody is at it any more.
    pub(crate) fn new(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let open = File::open(root)?;
        if open.try_lock().is_ok() {
            sweep(root);
        }
        // Where there are no locks nothing is swept, so nothing has to be kept from it.
        let _ = open.lock_shared();
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(root)?;
        Ok(Self { folder, _root: open })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it with all that is in it; links are not followed.
    pub(crate) fn close(self) -> io::Result<()> {
        self.folder.close()
    }

    /// Keeps it, under a name that no install removes. Gives its path.
    pub(crate) fn keep(self) -> PathBuf {
        let path = self.folder.keep();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = path.with_file_name(name.replacen(PREFIX, KEPT, 1));
        // Where it cannot have that name, it keeps the one it has.
        if fs::rename(&path, &kept).is_ok() { kept } else { path }
    }
}

/// Whether this is such a folder, and so no plugin.
pub(crate) fn is_staging(path: &Path) -> bool {
    path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(PREFIX))
}

/// Removes what was left behind; what cannot be removed stays for the next time.
fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for left in entries.filter_map(|it| Some(it.ok()?.path())).filter(|it| is_staging(it)) {
        let _ = fs::remove_dir_all(left);
    }
}

/// Puts a folder in a place, in one step: whoever looks sees what was there or what is new, whole. Gives where that is which
/// was there, if there was anything; `aside` is a free path where that can be.
pub(crate) fn swap_into(from: &Path, to: &Path, aside: &Path) -> io::Result<Option<PathBuf>> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(None),
        Err(Errno::EXIST) => {}
        Err(error) if is_unknown(error) => return swap_in_steps(from, to, aside),
        Err(error) => return Err(error.into()),
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(Some(from.to_owned())),
        Err(error) if is_unknown(error) => swap_in_steps(from, to, aside),
        Err(error) => Err(error.into()),
    }
}

/// Whether this file system, or kernel, knows nothing of such a rename.
fn is_unknown(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&error)
}

/// The same where the file system cannot do it at once.
fn swap_in_steps(from: &Path, to: &Path, aside: &Path) -> io::Result<Option<PathBuf>> {
    let had_other = match fs::rename(to, aside) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    match fs::rename(from, to) {
        Ok(()) => Ok(had_other.then(|| aside.to_owned())),
        Err(error) if had_other => {
            fs::rename(aside, to)?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Moves a folder, or a link, to a free path on the same disk.
pub(crate) fn move_away(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Takes back what [`swap_into`] did; `old` is what it gave.
pub(crate) fn take_back(from: &Path, to: &Path, old: Option<&Path>) -> io::Result<()> {
    match old {
        None => fs::rename(to, from),
        Some(old) if old == from => Ok(renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?),
        Some(old) => {
            fs::rename(to, from)?;
            fs::rename(old, to)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the files in a folder and below it say, by path.
    fn files(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for path in fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                found.extend(files(&path).into_iter().map(|it| format!("{name}/{it}")));
            } else {
                found.push(format!("{name}={}", fs::read_to_string(&path).unwrap()));
            }
        }
        found.sort();
        found
    }

    fn write(path: &Path, says: &str) {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("f"), says).unwrap();
    }

    #[test]
    fn script_20_20_the_folder_of_an_install_is_private_and_has_a_name_nobody_can_foresee() {
        let root = tempfile::tempdir().unwrap();
        let many: Vec<Staging> = (0..8).map(|_| Staging::new(root.path()).unwrap()).collect();
        let names: BTreeSet<String> =
            many.iter().map(|it| it.path().file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names.len(), many.len());
        for (staging, name) in many.iter().zip(&names) {
            let mode = fs::metadata(staging.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "{name}");
            let chance = name.strip_prefix(PREFIX).unwrap();
            assert!(chance.len() >= 6 && !chance.contains(&std::process::id().to_string()), "{name}");
        }
        drop(many);
        assert!(files(root.path()).is_empty() && fs::read_dir(root.path()).unwrap().next().is_none());
    }

    #[test]
    fn script_20_8_what_an_install_left_behind_goes_with_the_next_one_and_never_under_one_that_runs() {
        let root = tempfile::tempdir().unwrap();
        let first = Staging::new(root.path()).unwrap();
        write(&first.path().join("new"), "first");
        let second = Staging::new(root.path()).unwrap();
        assert!(first.path().join("new/f").exists(), "somebody is at it");
        let Staging { folder, _root } = first;
        let left = folder.keep();
        drop(_root);
        drop(Staging::new(root.path()).unwrap());
        assert!(left.exists(), "somebody may be at it still");
        drop(second);
        let third = Staging::new(root.path()).unwrap();
        assert!(!left.exists());
        third.close().unwrap();
        assert!(fs::read_dir(root.path()).unwrap().next().is_none());

        let fourth = Staging::new(root.path()).unwrap();
        write(&fourth.path().join("old"), "kept");
        let kept = fourth.keep();
        drop(Staging::new(root.path()).unwrap());
        assert_eq!(fs::read_to_string(kept.join("old/f")).unwrap(), "kept", "what has to be kept is not left behind");
    }

    #[test]
    fn script_20_8_what_is_in_a_place_is_exchanged_whole_and_back_however_the_file_system_does_it() {
        type Swap = fn(&Path, &Path, &Path) -> io::Result<Option<PathBuf>>;
        for (swap, name) in [(swap_into as Swap, "at once"), (swap_in_steps as Swap, "in steps")] {
            let root = tempfile::tempdir().unwrap();
            let (from, to, aside) = (root.path().join("new"), root.path().join("place"), root.path().join("aside"));
            write(&from, "new");
            // A place that is free.
            assert_eq!(swap(&from, &to, &aside).unwrap(), None, "{name}");
            assert_eq!(files(root.path()), ["place/f=new"], "{name}");
            take_back(&from, &to, None).unwrap();
            assert_eq!(files(root.path()), ["new/f=new"], "{name}");
            // One that is taken.
            write(&to, "old");
            let old = swap(&from, &to, &aside).unwrap().unwrap();
            assert_eq!(fs::read_to_string(to.join("f")).unwrap(), "new", "{name}");
            assert_eq!(fs::read_to_string(old.join("f")).unwrap(), "old", "{name}");
            take_back(&from, &to, Some(&old)).unwrap();
            assert_eq!(files(root.path()), ["new/f=new", "place/f=old"], "{name}");
            // What is not there cannot take its place.
            fs::remove_dir_all(&from).unwrap();
            assert_eq!(swap(&from, &to, &aside).unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
            assert_eq!(files(root.path()), ["place/f=old"], "{name}");
            // A link is exchanged itself.
            write(&root.path().join("target"), "linked");
            write(&from, "new");
            fs::remove_dir_all(&to).unwrap();
            std::os::unix::fs::symlink("target", &to).unwrap();
            let old = swap(&from, &to, &aside).unwrap().unwrap();
            assert!(fs::symlink_metadata(&old).unwrap().is_symlink() && to.is_dir(), "{name}");
            assert_eq!(fs::read_to_string(root.path().join("target/f")).unwrap(), "linked", "{name}");
        }
    }
}
