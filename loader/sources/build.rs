//! Packs the crates that a plugin depends on, so that they travel inside the program.
//!
//! Files are listed in order of their paths and manifests lose what only this repository needs, so one state of the
//! repository makes one pack.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use toml_edit::{Array, DocumentMut, Item};

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
    texts.insert("Cargo.toml".to_owned(), workspace(&text_of(&manifest)?)?);
    watch(&manifest)?;
    for krate in CRATES {
        let folder = top.join(krate);
        texts.insert(format!("{krate}/Cargo.toml"), member(&text_of(&folder.join("Cargo.toml"))?)?);
        watch(&folder.join("Cargo.toml"))?;
        let script = folder.join("build.rs");
        if script.is_file() {
            texts.insert(format!("{krate}/build.rs"), text_of(&script)?);
            watch(&script)?;
        }
        collect(&folder.join("src"), &format!("{krate}/src"), &mut texts)?;
        watch(&folder.join("src"))?;
    }
    let mut list = String::from("&[\n");
    for (path, text) in &texts {
        list += &format!("({path:?}, {text:?}),\n");
    }
    list += "]\n";
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("files.rs"), list)?;
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
fn workspace(text: &str) -> Result<String, Box<dyn Error>> {
    let mut file: DocumentMut = text.parse()?;
    let others: Vec<_> = file.iter().map(|(it, _)| it.to_owned()).filter(|it| it != "workspace").collect();
    for other in others {
        file.remove(&other);
    }
    let workspace = file["workspace"].as_table_mut().ok_or("there is no workspace")?;
    workspace.remove("exclude");
    workspace.insert("members", Item::Value(CRATES.iter().copied().collect::<Array>().into()));
    let dependencies = workspace["dependencies"].as_table_mut().ok_or("the workspace has no dependencies")?;
    dependencies.retain(|_, it| {
        let folder = it.get("path").and_then(Item::as_str);
        folder.is_none_or(|folder| CRATES.contains(&folder))
    });
    file.set_trailing("");
    Ok(file.to_string())
}

/// The manifest of a packed crate: what its tests and benchmarks want is not there.
fn member(text: &str) -> Result<String, Box<dyn Error>> {
    let mut file: DocumentMut = text.parse()?;
    for part in ["dev-dependencies", "bench", "example", "test"] {
        file.remove(part);
    }
    Ok(file.to_string())
}
