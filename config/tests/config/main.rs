//! The crate through its public interface: layers, existing clients, the plugin tree, writing back, secrets.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod clients;
mod includes;
mod laws;
mod layers;
mod runtime;
mod secrets;
mod system;
mod table;
mod writing;

use linn_config::{BuiltIn, Change, Config, MemoryFiles, Sources};

/// Home folder of every test, and the files in it.
const HOME: &str = "/h";
/// Folder that the program is started in, which is the workspace if nobody says otherwise.
const FOLDER: &str = "/w";
const USER: &str = "/h/.config/linn/linn.toml";
const WORKSPACE: &str = "/w/.linn/linn.toml";
const CONFIG: &str = "/h/.config/catalyst-code/config.json";
const SETTINGS: &str = "/h/.config/catalyst-code/settings.json";
const PROJECT: &str = "/w/settings.json";
const PROJECT_LOCAL: &str = "/w/settings.local.json";

/// Sources with `files`, `variables` and the `arguments` of a line.
fn sources(files: &[(&str, &str)], variables: &[(&str, &str)], arguments: &str) -> Sources {
    Sources {
        home: Some(HOME.into()),
        variables: variables.iter().copied().collect(),
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
        ..Sources::in_memory(FOLDER, MemoryFiles::new(files.iter().copied()))
    }
}

fn built_in() -> Vec<BuiltIn> {
    let open = BuiltIn { repository: Change::ALL.to_vec(), ..BuiltIn::plugin("web") };
    vec![BuiltIn::plugin("approval"), BuiltIn::plugin("git"), open]
}

fn load(files: &[(&str, &str)], variables: &[(&str, &str)], arguments: &str) -> Config {
    Config::load(sources(files, variables, arguments), &built_in())
}

/// The value of a key and who set it.
fn said(config: &Config, name: &str) -> String {
    let listed = config.listing().into_iter().find(|it| it.key.name == name).unwrap();
    format!("{} {}", config.get_json(name).unwrap(), listed.origin)
}

/// The problems of a configuration, one a line.
fn problems(config: &Config) -> String {
    config.problems().iter().map(|it| format!("{it}\n")).collect()
}

/// A configuration without problems, in which each key of `expected` has that value from there.
#[track_caller]
fn check(config: &Config, expected: &[(&str, &str)]) {
    assert_eq!(problems(config), "");
    for (name, text) in expected {
        assert_eq!(said(config, name), *text, "{name}");
    }
}
