//! `docs/config.md` lists the keys as they are declared. `UPDATE_DOCS=1` writes the list anew.

use std::path::Path;

use linn_config::key_table;

const BEGIN: &str =
    "<!-- Generated from config/src/keys.rs; `UPDATE_DOCS=1 cargo test -p linn-config` writes it anew. -->\n\n";

#[test]
fn the_list_of_keys_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (guide, _) = page.split_once(BEGIN).expect("the page has the line that the list begins with");
    let table = key_table();
    let expected = format!("{guide}{BEGIN}{}\n", table.trim_end());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/config.md is stale; run `UPDATE_DOCS=1 cargo test -p linn-config`");
}

#[test]
fn every_code_of_a_problem_is_in_the_guide() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md")).unwrap();
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/problem.rs")).unwrap();
    let codes: Vec<&str> = source.split('"').filter(|it| it.starts_with("CONFIG_")).collect();
    assert_eq!(codes.len(), 14);
    for code in codes {
        assert!(page.contains(&format!("| `{code}` |")), "{code}");
    }
}
