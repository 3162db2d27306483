//! Every stable code of an error has its entry in `docs/errors.md`, and no entry is left without its code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn source_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the entry is readable").path();
        if path.is_dir() {
            source_files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The string literals in the bodies of methods `fn code(&self) -> &'static str`.
fn codes_in(source: &str) -> Vec<&str> {
    let mut codes = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if !line.trim_end().ends_with("fn code(&self) -> &'static str {") {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        for line in lines.by_ref().take_while(|it| *it != end) {
            codes.extend(line.split('"').skip(1).step_by(2));
        }
    }
    codes
}

/// The entries of the page: what its third-level headings name, with the lines below each.
fn entries_in(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut entries: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            entries.push((title.trim_matches('`'), Vec::new()));
            is_open = true;
        } else if line.starts_with('#') {
            is_open = false;
        } else if is_open && let Some((_, lines)) = entries.last_mut() {
            lines.push(line);
        }
    }
    entries
}

#[test]
fn every_code_has_an_entry_with_cause_and_remedy() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    source_files(&here.join("src"), &mut files);
    let sources: Vec<_> = files.iter().map(|it| std::fs::read_to_string(it).unwrap()).collect();
    let codes: BTreeSet<&str> = sources.iter().flat_map(|it| codes_in(it)).collect();
    // One of each error type, so that a scan that finds nothing is seen.
    for known in ["INACTIVE_EFFECT", "LISTENER_PANICKED", "SERVICE_GONE", "DISPOSE_INCOMPLETE"] {
        assert!(codes.contains(known), "the scan misses {known}: {codes:?}");
    }

    let page = std::fs::read_to_string(here.join("../docs/errors.md")).unwrap();
    let entries = entries_in(&page);
    let described: BTreeSet<&str> = entries.iter().map(|(code, _)| *code).collect();
    assert_eq!(entries.len(), described.len(), "docs/errors.md describes a code twice");
    let missing: Vec<_> = codes.difference(&described).collect();
    assert!(missing.is_empty(), "docs/errors.md has no entry for {missing:?}");
    let stale: Vec<_> = described.difference(&codes).collect();
    assert!(stale.is_empty(), "docs/errors.md describes codes that no error has: {stale:?}");
    for (code, lines) in &entries {
        for part in ["Cause: ", "Remedy: "] {
            assert!(lines.iter().any(|it| it.starts_with(part)), "the entry of {code} has no line `{part}..`");
        }
    }
}

#[test]
fn codes_are_found_in_match_arms_and_bare() {
    let source = "impl A {\n    pub fn code(&self) -> &'static str {\n        match self {\n            Self::B => \"B_1\",\n            \
                  Self::C(it) => it.code(),\n        }\n    }\n    fn other() { \"NOT_A_CODE\" }\n}\nimpl D {\n    \
                  pub fn code(&self) -> &'static str {\n        \"D_1\"\n    }\n    pub fn code(&self) -> Option<&str> {\n        \
                  \"NO\"\n    }\n}\n";
    assert_eq!(codes_in(source), ["B_1", "D_1"]);
}
