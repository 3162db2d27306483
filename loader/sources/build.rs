//! Packs the crates that a plugin depends on, so that they travel inside the program.
//!
//! Files are listed in order of their paths and manifests lose what only this repository needs, so one state of the
//! repository makes one pack.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The crates of the pack, in their folders here and there.
const CRATES: &[&str] =
    &["bus", "bus/fingerprint", "bus/macros", "bus/test", "loader/sdk", "services", "services/test"];

/// Files that are packed as they are.
const WHOLE: &[&str] = &["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let top = here.ancestors().nth(2).ok_or("the crate is two folders below the top")?;
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for file in WHOLE {
        texts.insert((*file).to_owned(), text_of(&top.join(file))?);
        watch(&top.join(file))?;
    }
    let manifest = top.join("Cargo.toml");
    texts.insert("Cargo.toml".to_owned(), workspace(&text_of(&manifest)?));
    watch(&manifest)?;
    for krate in CRATES {
        let folder = top.join(krate);
        texts.insert(format!("{krate}/Cargo.toml"), member(&text_of(&folder.join("Cargo.toml"))?));
        watch(&folder.join("Cargo.toml"))?;
        let script = folder.join("build.rs");
        if script.is_file() {
            texts.insert(format!("{krate}/build.rs"), text_of(&script)?);
            watch(&script)?;
        }
        collect(&folder.join("src"), &format!("{krate}/src"), &mut texts)?;
        watch(&folder.join("src"))?;
    }
    let files: Vec<_> = texts.into_iter().collect();
    let pack = fs::File::create(PathBuf::from(env::var("OUT_DIR")?).join("pack"))?;
    let mut pack = ZlibEncoder::new(pack, Compression::best());
    pack.write_all(&serde_json::to_vec(&files)?)?;
    pack.finish()?;
    Ok(())
}

/// Has cargo run this again when a file or something in a folder changes.
fn watch(path: &Path) -> io::Result<()> {
    writeln!(io::stdout(), "cargo:rerun-if-changed={}", path.display())
}

/// The text of a file, with the line ends of one system.
fn text_of(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(|it| io::Error::new(it.kind(), format!("{}: {it}", path.display())))?;
    Ok(text.replace("\r\n", "\n"))
}

fn collect(folder: &Path, name: &str, texts: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = format!("{name}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            collect(&path, &name, texts)?;
        } else {
            texts.insert(name, text_of(&path)?);
        }
    }
    Ok(())
}

/// The manifest of the workspace that has the packed crates and no others.
fn workspace(text: &str) -> String {
    let members = format!("members = {CRATES:?}\n");
    let mut kept = String::new();
    for (header, lines) in sections(text).into_iter().filter(|(header, _)| header.starts_with("[workspace")) {
        kept += &format!("{header}\n");
        let mut is_members = false;
        for line in lines {
            if line.starts_with("members = [") {
                is_members = true;
                kept += &members;
            } else if is_members {
                is_members = !line.starts_with(']');
            } else if !line.starts_with("exclude") && !is_of_another(line) {
                kept += &format!("{line}\n");
            }
        }
    }
    kept
}

/// Whether a line is a dependency on a crate of this repository that is not packed.
fn is_of_another(line: &str) -> bool {
    let folder = line.split_once("path = \"").and_then(|(_, rest)| rest.split('"').next());
    folder.is_some_and(|it| !CRATES.contains(&it))
}

/// The manifest of a packed crate: what its tests and benchmarks want is not there.
fn member(text: &str) -> String {
    let is_left_out = |header: &str| {
        header.contains("dev-dependencies") || ["[[bench]]", "[[example]]", "[[test]]"].contains(&header)
    };
    let kept = sections(text).into_iter().filter(|(header, _)| !is_left_out(header));
    kept.flat_map(|(header, lines)| std::iter::once(header).chain(lines)).map(|it| format!("{it}\n")).collect()
}

/// The sections of a manifest of this repository: header and lines. What stands before the first is left out.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            sections.push((line, Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    sections
}
