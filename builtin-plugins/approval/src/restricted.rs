//! Paths that are asked about even where a call only reads.

use crate::subject::{PathUnit, Subject};

/// Tools that it concerns. Those that search and list are not among them.
const TOOLS: &[&str] = &["read_file", "write_file", "edit", "patch", "delete", "mkdir", "rename"];

/// Folders: they and all that is in them.
const FOLDERS: &[&str] = &[".git", ".ssh", ".gnupg"];

/// Files, in any folder.
const FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    "id_rsa",
    "id_ed25519",
    ".env",
    ".env.local",
    ".env.production",
];

/// The path of a call that is restricted, if one is.
pub(crate) fn restricted_path(subject: &Subject) -> Option<&str> {
    if !TOOLS.contains(&subject.tool.as_str()) && !subject.tool.starts_with("bulk_") {
        return None;
    }
    subject.paths().find(|it| is_restricted(it)).map(|it| it.written.as_str())
}

fn is_restricted(path: &PathUnit) -> bool {
    [Some(&path.written), Some(&path.plain), path.resolved.as_ref()]
        .into_iter()
        .flatten()
        .any(|it| is_restricted_text(it))
}

fn is_restricted_text(path: &str) -> bool {
    let parts: Vec<String> =
        path.split(['/', '\\']).filter(|it| !it.is_empty() && *it != ".").map(str::to_lowercase).collect();
    let is_file = parts.last().is_some_and(|it| FILES.contains(&it.as_str()));
    is_file || parts.iter().any(|it| FOLDERS.contains(&it.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_found(tool: &str, path: &str) -> bool {
        restricted_path(&Subject::of(tool, None, &json!({ "path": path }))).is_some()
    }

    #[test]
    fn restricted_paths_are_found_at_any_depth_and_in_any_case() {
        for path in [
            ".git/config",
            ".git",
            "a/.GIT/hooks/x",
            ".ssh/known_hosts",
            "home/.gnupg/x",
            ".bashrc",
            "x/.Zshrc",
            "./.env",
            ".env.local",
            "a/b/.env.production",
            "keys/id_rsa",
            "ID_ED25519",
            "x/../.env",
            ".env/.",
        ] {
            assert!(is_found("read_file", path), "{path}");
        }
        for path in [".github/workflows/ci.yml", ".gitignore", ".env.example", "env", "id_rsa.pub", "src/git/a.rs"] {
            assert!(!is_found("read_file", path), "{path}");
        }
    }

    #[test]
    fn it_concerns_the_tools_that_read_and_change_single_files() {
        for tool in ["read_file", "WRITE_FILE", "edit", "patch", "delete", "mkdir", "rename", "bulk_read"] {
            assert!(is_found(tool, ".env"), "{tool}");
        }
        for tool in ["grep", "glob", "list_dir", "bash"] {
            assert!(!is_found(tool, ".env"), "{tool}");
        }
        let moved = Subject::of("rename", None, &json!({ "from": "a", "to": ".git/hooks/pre-commit" }));
        assert_eq!(restricted_path(&moved), Some(".git/hooks/pre-commit"));
        let many = Subject::of("bulk_write", None, &json!({ "files": [{ "path": "a" }, { "path": ".env" }] }));
        assert_eq!(restricted_path(&many), Some(".env"));
    }

    #[test]
    fn a_link_is_as_restricted_as_what_it_leads_to() {
        let mut subject = Subject::of("read_file", None, &json!({ "path": "notes.txt" }));
        if let crate::subject::Unit::Path(path) = &mut subject.units[0] {
            path.resolved = Some(".env".to_owned());
        }
        assert_eq!(restricted_path(&subject), Some("notes.txt"));
    }
}
