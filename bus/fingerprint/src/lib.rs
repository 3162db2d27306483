//! For build scripts: a digest of a crate's sources and the compiler that builds it.
//!
//! Two copies of a crate may share values in memory only when they were built alike. What a build script prints of
//! [`fingerprint`] is there in the crate as `env!("LINN_SOURCES")`, `env!("LINN_COMPILER")` and `env!("LINN_TARGET")`.
//!
//! ```no_run
//! // build.rs of a crate whose types are shared between plugins
//! print!("{}", linn_fingerprint::fingerprint(&["src"], &[]).unwrap());
//! ```
//!
//! It knows nothing of plugins, and it runs when something is built and at no other time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Lines for cargo: the digest of all Rust files below `folders` of the crate and of those of its `features` that are on;
/// release and commit of the compiler; the target.
///
/// A folder that is not there counts as empty: a packaged crate has no neighbours.
///
/// # Errors
///
/// A file cannot be read, the compiler does not run, or cargo did not start the build script.
pub fn fingerprint(folders: &[&str], features: &[&str]) -> io::Result<String> {
    let top = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let mut digest = Digest::new();
    let mut lines = String::new();
    for folder in folders {
        let mut files = Vec::new();
        collect(&top.join(folder), &mut files)?;
        files.sort();
        for file in files {
            let name = file.strip_prefix(&top).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            digest.add(name.as_bytes());
            // A checkout may write line ends as the system likes them.
            digest.add(fs::read_to_string(&file)?.replace("\r\n", "\n").as_bytes());
        }
        if top.join(folder).exists() {
            lines += &format!("cargo:rerun-if-changed={folder}\n");
        }
    }
    for feature in features {
        let name = format!("CARGO_FEATURE_{}", feature.to_uppercase().replace('-', "_"));
        if env::var_os(name).is_some() {
            digest.add(feature.as_bytes());
        }
    }
    let compiler = compiler()?;
    let target = variable("TARGET")?;
    lines += "cargo:rerun-if-changed=build.rs\n";
    lines += &format!("cargo:rustc-env=LINN_SOURCES={}\n", digest.text());
    lines += &format!("cargo:rustc-env=LINN_COMPILER={compiler}\n");
    lines += &format!("cargo:rustc-env=LINN_TARGET={target}\n");
    Ok(lines)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(|_| io::Error::other(format!("{name} is not set: this is for build scripts")))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Release and commit, such as `1.95.0 (f2f1c5a3b)`.
fn compiler() -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "a build script has no session, and waits for its child")]
    let output = Command::new(variable("RUSTC")?).arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let release = field("release:").ok_or_else(|| io::Error::other("`rustc -vV` names no release"))?;
    let commit = field("commit-hash:").unwrap_or("unknown");
    Ok(format!("{release} ({})", commit.get(..9).unwrap_or(commit)))
}

/// FNV-1a of 128 bits: against mistakes, not against malice.
struct Digest(u128);

impl Digest {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds a text, closed with its length so that neighbours cannot run together.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    fn text(&self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_run_together_have_other_digests() {
        let of = |texts: &[&str]| {
            let mut digest = Digest::new();
            texts.iter().for_each(|it| digest.add(it.as_bytes()));
            digest.text()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_eq!(of(&[]).len(), 32);
    }
}
