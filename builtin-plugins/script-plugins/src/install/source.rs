//! Where a plugin comes from, in the words of a user.

use std::path::Path;

/// A release on GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) owner: String,
    pub(crate) repo: String,
    /// The latest, if it is not named.
    pub(crate) tag: Option<String>,
    /// Where in the release the plugin is.
    pub(crate) subdir: Option<String>,
}

/// Reads a source that names a release; `None` if it is no such thing.
pub(crate) fn parse_github(text: &str) -> Option<Source> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("git@github.com:") {
        return of_path(path);
    }
    let schemes = ["https://github.com/", "http://github.com/", "https://www.github.com/", "http://www.github.com/"];
    if let Some(path) = schemes.iter().find_map(|it| text.strip_prefix(it)) {
        return of_path(path);
    }
    if text.contains("://") || text.starts_with(['/', '.', '~']) || text.contains('\\') {
        return None;
    }
    let (base, subdir) = split(text, ":");
    let (base, tag) = split(base, "@");
    let (owner, repo) = base.split_once('/')?;
    source(owner, repo, tag, subdir)
}

/// What stands behind the host.
fn of_path(path: &str) -> Option<Source> {
    let path = path.trim_end_matches('/');
    let (base, mark) = match path.find(['@', '#']) {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    };
    let parts: Vec<&str> = base.split('/').collect();
    let with_mark = |owner: &str, repo: &str| {
        let (tag, subdir) = mark.map_or((None, None), |it| {
            let (tag, subdir) = split(it, ":");
            (Some(tag), subdir)
        });
        source(owner, repo.strip_suffix(".git").unwrap_or(repo), tag, subdir)
    };
    match parts[..] {
        [owner, repo] => {
            let (repo, subdir) = if mark.is_none() { split(repo, ":") } else { (repo, None) };
            let mut found = with_mark(owner, repo)?;
            found.subdir = found.subdir.or_else(|| subdir.map(str::to_owned));
            Some(found)
        }
        [owner, repo, "releases", "tag", tag] if mark.is_none() => source(owner, repo, Some(tag), None),
        [owner, repo, "tree", tag, ..] if mark.is_none() => {
            let subdir = parts[4..].join("/");
            source(owner, repo, Some(tag), Some(subdir.as_str()).filter(|it| !it.is_empty()))
        }
        _ => None,
    }
}

fn split<'a>(text: &'a str, at: &str) -> (&'a str, Option<&'a str>) {
    text.split_once(at).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

fn source(owner: &str, repo: &str, tag: Option<&str>, subdir: Option<&str>) -> Option<Source> {
    let is_name = |it: &str| {
        let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
        !it.is_empty() && it.chars().all(is_allowed) && !matches!(it, "." | "..")
    };
    let is_tag = |it: &str| !it.is_empty() && !it.contains(|it: char| it.is_whitespace() || it.is_control());
    if !is_name(owner) || !is_name(repo) || tag.is_some_and(|it| !is_tag(it)) || subdir == Some("") {
        return None;
    }
    Some(Source {
        owner: owner.to_owned(),
        repo: repo.to_owned(),
        tag: tag.map(str::to_owned),
        subdir: subdir.map(str::to_owned),
    })
}

/// Writes down where a plugin came from.
pub(crate) fn write_note(folder: &Path, note: &str) -> std::io::Result<()> {
    crate::system::write_file(&folder.join(".catalyst-plugin-source.json"), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_14_2_forms_of_a_source() {
        let shown = |text: &str| {
            let Some(Source { owner, repo, tag, subdir }) = parse_github(text) else { return "none".to_owned() };
            format!("{owner} {repo} {} {}", tag.unwrap_or("-".into()), subdir.unwrap_or("-".into()))
        };
        for (text, expected) in [
            ("https://github.com/o/r", "o r - -"),
            ("https://github.com/o/r.git", "o r - -"),
            ("https://github.com/o/r@v1", "o r v1 -"),
            ("https://github.com/o/r.git#v1:sub/dir", "o r v1 sub/dir"),
            ("http://www.github.com/o/r/", "o r - -"),
            ("https://github.com/o/r/releases/tag/v1", "o r v1 -"),
            ("https://github.com/o/r/tree/v1", "o r v1 -"),
            ("https://github.com/o/r/tree/v1/a/b", "o r v1 a/b"),
            ("git@github.com:o/r.git", "o r - -"),
            ("o/r", "o r - -"),
            ("o/r@v1.0", "o r v1.0 -"),
            ("o/r@v1:sub", "o r v1 sub"),
            ("o/r:sub", "o r - sub"),
            ("/abs/path", "none"),
            ("./o/r", "none"),
            ("../r", "none"),
            ("~/r", "none"),
            ("o\\r", "none"),
            ("o/r/s", "none"),
            ("just-a-name", "none"),
            ("github.com/o/r", "none"),
            ("https://gitlab.com/o/r", "none"),
            ("https://github.com/o/r/issues", "none"),
            ("https://github.com/o", "none"),
            ("o/..", "none"),
            ("o/r@", "none"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
