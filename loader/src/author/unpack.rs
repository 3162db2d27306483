//! Sources in a cache, under the digest of their content.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::author::AuthorError;
use crate::library::Digest;
use crate::system;

/// How many digits of the digest name the folder.
pub(super) const N_DIGITS: usize = 16;

/// Has the files in a folder below `cache` that only this user enters, and gives that folder. What is there already and
/// whole is used as it is; what is not whole is replaced as a whole. Blocks.
pub(super) fn unpack(files: &[(&str, &str)], cache: &Path) -> Result<PathBuf, AuthorError> {
    let home = cache.join("sources");
    let place = home.join(digest_of(files));
    if is_whole(files, &place) {
        return Ok(place);
    }
    let written = || {
        system::create_private_folder(&home)?;
        let fresh = system::private_folder_in(&home)?;
        let content = fresh.path().join("content");
        system::create_private_folder(&content)?;
        for (path, text) in files {
            system::write_simple(&content.join(path), text.as_bytes())?;
        }
        // Whoever else does the same at this moment has the same content.
        match system::put_in_place(&content, &place, fresh.path()) {
            Err(_) if is_whole(files, &place) => Ok(()),
            outcome => outcome,
        }
    };
    written().map_err(|source| AuthorError::Write { path: home.clone(), source })?;
    Ok(place)
}

fn digest_of(files: &[(&str, &str)]) -> String {
    let mut bytes = Vec::new();
    for text in files.iter().flat_map(|(path, text)| [path, text]) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let mut digest = Digest::of(&bytes).to_string();
    digest.truncate(N_DIGITS);
    digest
}

/// Whether a folder has all files as they should be, and no others beside them.
fn is_whole(files: &[(&str, &str)], folder: &Path) -> bool {
    let is_same = |(path, text): &(&str, &str)| system::read(&folder.join(path)).is_ok_and(|it| it == text.as_bytes());
    if !files.iter().all(is_same) {
        return false;
    }
    let paths: BTreeSet<PathBuf> = files.iter().map(|(path, _)| folder.join(path)).collect();
    // What builds leave at the top is no part of any crate.
    let tops = files.iter().filter_map(|(path, _)| path.split_once('/')).map(|(top, _)| top).collect::<BTreeSet<_>>();
    let found = tops.into_iter().map(|top| system::all_files_in(&folder.join(top)));
    found.flatten().flatten().all(|it| paths.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[("Cargo.toml", "[workspace]\n"), ("a/src/lib.rs", "//! A.\n")];

    #[test]
    fn what_is_whole_is_kept_and_what_is_not_is_made_whole() {
        let cache = tempfile::tempdir().unwrap();
        let place = unpack(FILES, cache.path()).unwrap();
        let file = place.join("a/src/lib.rs");
        let made = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(unpack(FILES, cache.path()).unwrap(), place);
        assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), made);

        std::fs::write(&file, "//! Changed.\n").unwrap();
        unpack(FILES, cache.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "//! A.\n");
        std::fs::write(place.join("a/src/more.rs"), "").unwrap();
        std::fs::remove_file(&file).unwrap();
        unpack(FILES, cache.path()).unwrap();
        assert!(file.is_file() && !place.join("a/src/more.rs").exists());
        let left: Vec<_> = std::fs::read_dir(cache.path().join("sources")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn another_content_is_in_another_folder_and_only_the_user_enters_it() {
        let cache = tempfile::tempdir().unwrap();
        let place = unpack(FILES, cache.path()).unwrap();
        let other = unpack(&[("Cargo.toml", "[workspace]\n")], cache.path()).unwrap();
        assert_ne!(place, other);
        assert!(place.is_dir() && other.is_dir());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn many_at_once_get_the_same_folder() {
        let cache = tempfile::tempdir().unwrap();
        let all: BTreeSet<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| unpack(FILES, cache.path()).unwrap())).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(all.len(), 1);
        assert!(is_whole(FILES, all.first().unwrap()));
    }
}
