//! Holds the repository to docs/ARCHITECTURE.md: its layers, its rules for Rust files, its texts.
//!
//! Each rule is a function from what it looks at to what it finds; beside it stands a test that gives it something to
//! find. The exceptions are data in `places.rs`, the arrows in `layers.rs`.

mod conformance;
mod layers;
mod places;
mod repository;
mod rules;
mod source;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use cargo_metadata::{Metadata, MetadataCommand};

use crate::layers::Crate;
use crate::source::SourceFile;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn files() -> &'static [String] {
    static FILES: OnceLock<Vec<String>> = OnceLock::new();
    FILES.get_or_init(|| repository::files(top()))
}

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(top().join("Cargo.toml")).no_deps();
    command.exec().expect("the workspace has metadata")
}

fn assert_none<T: Display>(rule: &str, found: impl IntoIterator<Item = T>) {
    let found: Vec<String> = found.into_iter().map(|it| format!("  {it}")).collect();
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn crates_depend_downwards_only() {
    let crates: Vec<Crate> = metadata().workspace_packages().into_iter().map(Crate::from).collect();
    assert_none("the layers", crates.iter().flat_map(layers::broken_edges));
    assert_none("outside crates", crates.iter().flat_map(layers::broken_outside_edges));
}

#[test]
fn rust_files_follow_the_rules() {
    // What a compile-fail test feeds to the compiler may break any rule; that is its purpose.
    let is_rust = |path: &&String| path.ends_with(".rs") && !path.contains("/tests/ui/");
    let sources: Vec<SourceFile> =
        files().iter().filter(is_rust).map(|path| SourceFile::new(path, &read(path))).collect();
    assert!(sources.len() > 5, "the walk found {} Rust files", sources.len());
    let found = rules::RULES.iter().flat_map(|(name, rule)| {
        let found = sources.iter().flat_map(rule);
        found.map(move |it| format!("{it} ({name})"))
    });
    assert_none("Rust files", found);
}

#[test]
fn crate_roots_carry_their_attributes() {
    let metadata = metadata();
    let roots = metadata.workspace_packages().into_iter().flat_map(|package| {
        let is_documented = places::DOCUMENTED_CRATES.contains(&package.name.as_str());
        let shipped =
            package.targets.iter().filter(|it| it.is_lib() || it.is_bin() || it.is_proc_macro() || it.is_dylib());
        shipped.map(move |it| (it.src_path.clone(), is_documented))
    });
    let found = roots.flat_map(|(path, is_documented)| {
        let path = path.strip_prefix(top()).expect("members are inside the workspace");
        rules::missing_root_attributes(&SourceFile::new(path.as_str(), &read(path.as_str())), is_documented)
    });
    assert_none("crate roots", found);
}

#[test]
fn crates_take_the_lints_of_the_workspace() {
    // Libraries of plugins are outside of the workspace on purpose.
    let is_library = |path: &str| path.starts_with("examples/plugins/") || path.starts_with("loader/tests/libraries/");
    let is_member = |path: &&String| path.ends_with("Cargo.toml") && !is_library(path);
    let manifests = files().iter().filter(is_member);
    assert_none(
        "without `[lints] workspace = true`",
        manifests.filter(|path| !repository::inherits_lints(&read(path))),
    );
}

#[test]
fn the_top_is_the_layout() {
    assert_none("not part of the layout", repository::unknown_at_top(files()));
}

#[test]
fn texts_name_no_machine() {
    let found = files().iter().flat_map(|path| {
        // What is not UTF-8 is no text.
        let text = fs::read_to_string(top().join(path)).unwrap_or_default();
        repository::machine_paths(&text).into_iter().map(move |line| format!("{path}:{line}"))
    });
    assert_none("paths of one machine", found);
}

#[test]
fn every_case_is_a_test_or_a_row_that_says_what_is_otherwise() {
    let rust = files().iter().filter(|path| path.ends_with(".rs"));
    let mut covered = BTreeSet::new();
    for path in rust {
        // What must not compile is a file of its own.
        if path.contains("/tests/ui/") {
            let name = Path::new(path).file_stem().and_then(|it| it.to_str()).unwrap_or_default();
            covered.extend(conformance::of_name(name));
        }
        covered.extend(conformance::tests_of(&read(path)).into_iter().flat_map(conformance::of_name));
    }
    let mut problems = Vec::new();
    for page in conformance::PAGES {
        let (rows, unknown) = conformance::rows_of(&read(page));
        assert!(rows.len() > 10, "{page} has {} rows of cases", rows.len());
        covered.extend(rows.into_keys());
        problems.extend(unknown.into_iter().map(|it| format!("{page}, {it}")));
    }
    let missing = conformance::all().into_iter().filter(|it| !covered.contains(it));
    problems.extend(missing.map(|it| format!("{} is no test and no row", conformance::written(it))));
    assert_none("cases", problems);
}

#[test]
fn every_point_weakness_and_input_of_script_plugins_has_tests_that_are_there() {
    let rust: Vec<String> = files().iter().filter(|path| path.ends_with(".rs")).map(|path| read(path)).collect();
    let tests: BTreeSet<&str> = rust.iter().flat_map(|text| conformance::tests_of(text)).collect();
    let page = read("docs/conformance.md");
    let tables = conformance::tables_of_tests(&page);
    let mut problems = Vec::new();
    for (table, row, names) in tables.iter().flat_map(|(table, rows)| rows.iter().map(move |it| (table, it.0, it.1))) {
        if names.is_empty() {
            problems.push(format!("{table} {row} has no test"));
        }
        let unknown = names.iter().filter(|it| !tests.contains(*it));
        problems.extend(unknown.map(|it| format!("{table} {row}: `{it}` is no test")));
    }
    // The points are where the plugin declares them.
    let declared = read("builtin-plugins/script-plugins/src/hooks.rs");
    let declared = declared.split("points! {").nth(1).and_then(|it| it.split('}').next()).unwrap_or_default();
    let points = declared.split('"').skip(1).step_by(2).map(str::to_owned);
    let weaknesses = (1..=25).map(|it| it.to_string());
    let inputs = (32..=55).map(|it| conformance::written(("R", it)));
    let wanted =
        [("hook point", points.collect::<Vec<_>>()), ("weakness", weaknesses.collect()), ("input", inputs.collect())];
    for (table, rows) in wanted {
        assert!(rows.len() >= 18, "{table}: {rows:?}");
        let there = tables.get(table);
        let missing = rows.iter().filter(|row| !there.is_some_and(|it| it.contains_key(row.as_str())));
        problems.extend(missing.map(|row| format!("{table} {row} is missing")));
    }
    assert_none("tests of script plugins", problems);
}

#[test]
fn ci_runs_the_commands_of_the_readme() {
    let readme = read("README.md");
    let commands = repository::commands_below(&readme, "## Test");
    assert_eq!(commands.len(), 1, "the README names one test command");
    let script = read(".ci/run");
    assert_none("not in .ci/run", commands.iter().filter(|it| !repository::runs(&script, it)));
}
