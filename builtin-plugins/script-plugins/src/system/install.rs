//! Putting plugins in their place, and taking them away.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Names that are no part of a plugin.
const LEFT_OUT: &[&str] = &[
    ".git",
    ".venv",
    "venv",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".runtime",
    "node_modules",
    ".DS_Store",
    ".tox",
    ".eggs",
];

/// Names of build products, which are left out where the manifest names nothing in them.
const BUILT: &[&str] = &["dist", "build"];

/// What an archive may unpack to.
#[derive(Debug, Clone, Copy)]
struct Limits {
    n_files: usize,
    size_bytes: u64,
}

const LIMITS: Limits = Limits { n_files: 10_000, size_bytes: 256 * 1024 * 1024 };

/// Why a plugin was not copied or unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyProblem {
    #[error("{what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the link {} leads out of the plugin", .0.display())]
    LinkOut(PathBuf),
    #[error("invalid zip archive: {0}")]
    Archive(String),
    #[error("zip entry '{0}' has an unsafe path")]
    UnsafePath(String),
    #[error("the archive unpacks to more than {0}")]
    TooMuch(String),
}

fn problem(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CopyProblem {
    let path = path.to_owned();
    move |source| CopyProblem::Io { what, path, source }
}

/// Copies a plugin without what is no part of it: version control, caches, environments of languages and secrets. `named`
/// are paths that its manifest names.
///
/// Links inside of the plugin stay links; one that leads out of it is an error.
pub(crate) fn copy_plugin(from: &Path, to: &Path, named: &[String]) -> Result<(), CopyProblem> {
    let kept: Vec<&str> = BUILT
        .iter()
        .copied()
        .filter(|built| {
            named.iter().any(|it| {
                let first = Path::new(it).components().find(|it| *it != Component::CurDir);
                first.is_some_and(|it| it.as_os_str() == *built)
            })
        })
        .collect();
    copy_folder(from, to, from, &kept)
}

fn copy_folder(from: &Path, to: &Path, root: &Path, kept: &[&str]) -> Result<(), CopyProblem> {
    if !to.exists() {
        DirBuilder::new().mode(0o755).create(to).map_err(problem("cannot make", to))?;
    }
    for entry in fs::read_dir(from).map_err(problem("cannot read", from))? {
        let entry = entry.map_err(problem("cannot read", from))?;
        let (source, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if is_left_out(&name, kept) {
            continue;
        }
        let target = to.join(entry.file_name());
        let metadata = fs::symlink_metadata(&source).map_err(problem("cannot look at", &source))?;
        if metadata.is_symlink() {
            copy_link(&source, &target, root)?;
        } else if metadata.is_dir() {
            copy_folder(&source, &target, root, kept)?;
        } else if metadata.is_file() {
            let mut from = File::open(&source).map_err(problem("cannot open", &source))?;
            let mode = mode_of(metadata.permissions().mode());
            let mut file = new_file(&target, mode).map_err(problem("cannot make", &target))?;
            io::copy(&mut from, &mut file).map_err(problem("cannot write", &target))?;
        }
    }
    Ok(())
}

fn is_left_out(name: &str, kept: &[&str]) -> bool {
    let is_secret = name == ".env" || (name.starts_with(".env.") && name != ".env.example");
    is_secret || LEFT_OUT.contains(&name) || (BUILT.contains(&name) && !kept.contains(&name))
}

fn copy_link(source: &Path, target: &Path, root: &Path) -> Result<(), CopyProblem> {
    let to = fs::read_link(source).map_err(problem("cannot read", source))?;
    let real_root = fs::canonicalize(root).map_err(problem("cannot look at", root))?;
    // A link that leads nowhere now may lead anywhere later.
    let is_inside = to.is_relative() && fs::canonicalize(source).is_ok_and(|it| it.starts_with(&real_root));
    if !is_inside {
        return Err(CopyProblem::LinkOut(source.to_owned()));
    }
    symlink(&to, target).map_err(problem("cannot make", target))
}

/// What is left of permissions: no setuid, no setgid, nobody but the owner writes.
fn mode_of(mode: u32) -> u32 {
    if mode & 0o111 == 0 { 0o644 } else { 0o755 }
}

fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// The bytes of an archive.
pub(crate) trait Archive: Read + Seek {}
impl<T: Read + Seek> Archive for T {}

/// Unpacks an archive into a new folder. What leads out of it, and what is a link, is refused, and so is too much.
pub(crate) fn unpack(archive: impl Archive, into: &Path) -> Result<(), CopyProblem> {
    unpack_within(LIMITS, archive, into)
}

fn unpack_within(limits: Limits, archive: impl Archive, into: &Path) -> Result<(), CopyProblem> {
    let invalid = |error: zip::result::ZipError| CopyProblem::Archive(error.to_string());
    let mut archive = zip::ZipArchive::new(archive).map_err(invalid)?;
    let Limits { n_files, size_bytes } = limits;
    if archive.len() > n_files {
        return Err(CopyProblem::TooMuch(format!("{n_files} files")));
    }
    let mut left = size_bytes;
    // Folders count as well: one entry may stand in very many.
    let mut made = BTreeSet::new();
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).map_err(invalid)?;
        let name = entry.name().map_err(invalid)?.into_owned();
        let unsafe_path = || CopyProblem::UnsafePath(name.clone());
        let path = safe_path(&name).ok_or_else(unsafe_path)?;
        made.extend(path.ancestors().filter(|it| *it != Path::new("")).map(Path::to_owned));
        if made.len() > n_files {
            return Err(CopyProblem::TooMuch(format!("{n_files} files")));
        }
        let target = into.join(path);
        if entry.is_dir() {
            fs::create_dir_all(&target).map_err(problem("cannot make", &target))?;
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(problem("cannot make", parent))?;
        }
        // A link becomes a plain file that holds where it would lead.
        let mode = if entry.is_symlink() { 0o644 } else { mode_of(entry.unix_mode().unwrap_or(0o644)) };
        let mut file = new_file(&target, mode).map_err(problem("cannot make", &target))?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            // The sizes that the archive tells are not believed; what comes out is counted.
            let n = entry.read(&mut buffer).map_err(|it| CopyProblem::Archive(it.to_string()))?;
            if n == 0 {
                break;
            }
            let too_much = || CopyProblem::TooMuch(format!("{size_bytes} bytes"));
            left = left.checked_sub(n as u64).ok_or_else(too_much)?;
            file.write_all(&buffer[..n]).map_err(problem("cannot write", &target))?;
        }
    }
    Ok(())
}

/// The path of an entry, if it stays where it is unpacked on every system.
fn safe_path(name: &str) -> Option<PathBuf> {
    let has_drive = name.as_bytes().get(1) == Some(&b':');
    if name.is_empty() || has_drive || name.contains(['\0', '\\']) {
        return None;
    }
    let path = Path::new(name);
    path.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir)).then(|| path.to_owned())
}

/// Gives the files directly in `hooks`, `tools` and `oauth` that nobody may execute the permission to be.
pub(crate) fn make_executable(plugin: &Path) -> Result<(), CopyProblem> {
    for folder in ["hooks", "tools", "oauth"] {
        let Ok(entries) = fs::read_dir(plugin.join(folder)) else { continue };
        for path in entries.filter_map(|it| Some(it.ok()?.path())) {
            let metadata = fs::symlink_metadata(&path).map_err(problem("cannot look at", &path))?;
            if metadata.is_file() && metadata.permissions().mode() & 0o111 == 0 {
                fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(problem("cannot change", &path))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use zip::write::SimpleFileOptions;

    use super::*;

    #[test]
    fn script_20_20_what_comes_out_of_an_archive_is_counted() {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["a", "b"] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(&[0; 100_000]).unwrap();
        }
        let archive = writer.finish().unwrap().into_inner();
        assert!(archive.len() < 2_000, "it is small: {}", archive.len());
        let unpacked = |n_files, size_bytes| {
            let folder = tempfile::tempdir().unwrap();
            let done = unpack_within(Limits { n_files, size_bytes }, Cursor::new(archive.clone()), folder.path());
            done.map_or_else(|it| it.to_string(), |()| "all".to_owned())
        };
        assert_eq!(unpacked(2, 200_000), "all");
        assert_eq!(unpacked(2, 199_999), "the archive unpacks to more than 199999 bytes");
        assert_eq!(unpacked(1, 200_000), "the archive unpacks to more than 1 files");
    }

    #[test]
    fn script_20_20_folders_of_an_archive_count_as_files() {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file(format!("{}file", "d/".repeat(500)), SimpleFileOptions::default()).unwrap();
        let archive = writer.finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let unpacked = |n_files| unpack_within(Limits { n_files, size_bytes: 10 }, archive.clone(), folder.path());
        assert_eq!(unpacked(500).unwrap_err().to_string(), "the archive unpacks to more than 500 files");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "none of them was made");
        unpacked(501).unwrap();
    }

    #[test]
    fn script_20_20_paths_that_lead_out_are_none() {
        for (name, is_safe) in [
            ("a/b", true),
            ("./a", true),
            ("a/../b", false),
            ("/a", false),
            ("", false),
            ("c:/x", false),
            ("a\\b", false),
            ("a\0b", false),
        ] {
            assert_eq!(safe_path(name).is_some(), is_safe, "{name:?}");
        }
    }
}
