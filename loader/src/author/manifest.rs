//! Which sources the manifest of a plugin names.

use std::path::{Component, Path, PathBuf};

use toml_edit::{DocumentMut, Item, TableLike, TomlError};

use crate::author::unpack::N_DIGITS;

/// The manifest with every path into sources of another program led into `own`, which is a folder of unpacked sources; none
/// if nothing changes. `exists` says whether a folder is there: what is there and is no unpacked sources of this user's
/// (which are below `cache`) was chosen by the author, and stays.
pub(super) fn led_to(
    own: &Path,
    cache: &Path,
    text: &str,
    exists: impl Fn(&Path) -> bool,
) -> Result<Option<String>, TomlError> {
    let mut file: DocumentMut = text.parse()?;
    let mut is_changed = false;
    for part in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(dependencies) = file.get_mut(part).and_then(Item::as_table_like_mut) else { continue };
        for (_, dependency) in dependencies.iter_mut() {
            let Some(dependency) = dependency.as_table_like_mut() else { continue };
            is_changed |= lead(dependency, own, cache, &exists);
        }
    }
    Ok(is_changed.then(|| file.to_string()))
}

fn lead(dependency: &mut dyn TableLike, own: &Path, cache: &Path, exists: &impl Fn(&Path) -> bool) -> bool {
    let Some(path) = dependency.get("path").and_then(Item::as_str).map(PathBuf::from) else { return false };
    let Some(inside) = inside_sources(&path) else { return false };
    if path.starts_with(own) || (exists(&path) && !path.starts_with(cache)) {
        return false;
    }
    let new = own.join(inside).display().to_string().replace('\\', "/");
    if let Some(value) = dependency.get_mut("path").and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = new.into();
        *value.decor_mut() = decor;
    }
    true
}

/// What of a path is below `sources/<digest>`.
fn inside_sources(path: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = path.components().collect();
    let is_digest = |it: &Component<'_>| {
        let name = it.as_os_str().to_string_lossy();
        name.len() == N_DIGITS && name.bytes().all(|it| it.is_ascii_hexdigit())
    };
    let at = parts.windows(2).rposition(|it| it[0].as_os_str() == "sources" && is_digest(&it[1]))?;
    Some(parts[at + 2..].iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = "/cache/linn/sources";

    fn led(text: &str, there: &[&str]) -> Option<String> {
        let own = Path::new(CACHE).join("00000000000000aa");
        led_to(&own, Path::new(CACHE), text, |it| there.contains(&it.to_str().unwrap())).unwrap()
    }

    #[test]
    fn sources_of_another_program_are_left_for_those_of_this_one() {
        let old = "/cache/linn/sources/00000000000000bb/loader/sdk";
        let text =
            format!("[dependencies]\n# the SDK\nlinn-sdk = {{ path = \"{old}\", features = [\"tokio\"] }} # here\n");
        let new = text.replace("bb/loader", "aa/loader");
        assert_eq!(led(&text, &[old]).as_deref(), Some(new.as_str()));
        assert_eq!(led(&new, &[]), None);
        // Those of another machine are not there.
        let text = text.replace(CACHE, "/u/ada/.cache/linn/sources");
        assert_eq!(led(&text, &[]).as_deref(), Some(new.as_str()));
    }

    #[test]
    fn what_an_author_chose_stays() {
        let text = "[dependencies]\nlinn-sdk = { path = \"../linn/loader/sdk\" }\nserde = \"1\"\n";
        assert_eq!(led(text, &[]), None);
        let other = "/elsewhere/sources/00000000000000bb/loader/sdk";
        let text = format!("[dependencies.linn-sdk]\npath = \"{other}\"\n");
        assert_eq!(led(&text, &[other]), None);
        assert!(led(&text, &[]).is_some_and(|it| it.contains("00000000000000aa/loader/sdk")));
    }
}
