//! Laws of merging, held against random layers and entries.

use linn_config::{BuiltIn, Config, Entry, Layer, keys};
use proptest::prelude::*;

use crate::{CONFIG, SETTINGS, USER, WORKSPACE, sources};

/// Keys that every layer may set, with what clients call them.
const KEYS: [(&str, &str, &str, &str); 3] = [
    ("shell.timeout_secs", "bash_timeout_secs", "CATALYST_CODE_BASH_TIMEOUT", "--bash-timeout"),
    ("fetch.timeout_secs", "fetch_timeout_secs", "CATALYST_CODE_FETCH_TIMEOUT", "--fetch-timeout"),
    ("session.max_tokens", "max_session_tokens", "CATALYST_CODE_MAX_SESSION_TOKENS", "--max-session-tokens"),
];

/// The sources of a value, lowest first, with their layer.
const LAYERS: [Layer; 8] = [
    Layer::Client,
    Layer::Client,
    Layer::Client,
    Layer::Client,
    Layer::User,
    Layer::Workspace,
    Layer::Environment,
    Layer::CommandLine,
];

/// A configuration in which `set[source][key]` says whether that source sets that key, to `100 * (source + 1) + key`.
fn layered(set: &[[bool; 3]; 8], is_wrong: &[[bool; 3]; 8]) -> Config {
    let mut parts = vec![Vec::new(); 8];
    for (source, part) in parts.iter_mut().enumerate() {
        for (at, (name, client, variable, flag)) in KEYS.iter().enumerate() {
            if set[source][at] {
                let value = if is_wrong[source][at] {
                    "\"no-number\"".to_owned()
                } else {
                    (100 * (source + 1) + at).to_string()
                };
                let bare = value.trim_matches('"').to_owned();
                part.push(match source {
                    0 | 1 => format!("\"{client}\": {value}"),
                    2 => format!("{variable} {bare}"),
                    3 => format!("{flag} {bare}"),
                    4 | 5 => format!("{name} = {value}"),
                    6 => format!("LINN_{} {bare}", name.replace('.', "_").to_uppercase()),
                    _ => format!("--set {name}={bare}"),
                });
            }
        }
    }
    let json = |at: usize| format!("{{{}}}", parts[at].join(", "));
    let toml = |at: usize| parts[at].join("\n");
    let variables: Vec<(&str, &str)> =
        [2, 6].iter().flat_map(|at| &parts[*at]).filter_map(|it| it.split_once(' ')).collect();
    let arguments = [parts[3].join(" "), parts[7].join(" ")].join(" ");
    let files = [(CONFIG, json(0)), (SETTINGS, json(1)), (USER, toml(4)), (WORKSPACE, toml(5))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    Config::load(sources(&files, &variables, &arguments), &[])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_highest_source_of_a_right_value_wins_per_key(set: [[bool; 3]; 8], is_wrong: [[bool; 3]; 8]) {
        let config = layered(&set, &is_wrong);
        let wrong = (0..8).flat_map(|source| (0..3).map(move |at| (source, at))).filter(|(source, at)| set[*source][*at] && is_wrong[*source][*at]);
        prop_assert_eq!(config.problems().len(), wrong.count());
        for (at, (name, ..)) in KEYS.iter().enumerate() {
            let highest = (0..8).rev().find(|source| set[*source][at] && !is_wrong[*source][at]);
            let key = keys::all().iter().find(|it| it.name == *name).unwrap();
            let origin = config.origin(key);
            match highest {
                Some(source) => {
                    prop_assert_eq!(config.get_json(name), Some((100 * (source + 1) + at).into()));
                    prop_assert_eq!(origin.layer, LAYERS[source]);
                }
                None => prop_assert_eq!(origin.layer, Layer::BuiltIn),
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(toml in ".{0,60}", json in ".{0,60}", arguments in proptest::collection::vec("(--(set|plugin|config|approval|enable))?[ -~]{0,8}", 0..6), value in ".{0,20}") {
        let files = [(USER, toml.as_str()), (WORKSPACE, toml.as_str()), (CONFIG, json.as_str())];
        let variables = [("LINN_PLUGINS", value.as_str()), ("UMANS_PROVIDERS", value.as_str()), ("LINN_PROVIDERS", value.as_str())];
        let mut sources = sources(&files, &variables, "");
        sources.arguments = arguments;
        let config = Config::load(sources, &tree());
        prop_assert!(config.tree().entries().len() >= 4);
    }

    #[test]
    fn near_toml_does_not_make_it_panic(parts in proptest::collection::vec(part(), 0..12)) {
        let text = parts.concat();
        let config = Config::load(sources(&[(USER, &text), (WORKSPACE, &text)], &[], ""), &tree());
        prop_assert!(config.tree().entries().len() >= 4);
    }

    #[test]
    fn a_patch_twice_is_a_patch_once(before in proptest::collection::vec(patch(), 0..6), patch in patch()) {
        let once = merged([before.clone(), vec![patch.clone()]].concat());
        let twice = merged([before, vec![patch.clone(), patch]].concat());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn patches_of_different_entries_commute(patches in proptest::collection::vec(patch(), 0..8), seed: u64) {
        // What places an entry depends on where others are, so only changes in place are unrelated.
        let mut patches: Vec<TestPatch> = patches.into_iter().map(|it| TestPatch { place: String::new(), ..it }).collect();
        patches.sort_by_key(|it| it.id);
        patches.dedup_by_key(|it| it.id);
        patches.retain(|it| it.id < 4);
        let straight = merged(patches.clone());
        let mut shuffled = patches;
        let mut state = seed;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, usize::try_from(state >> 33).unwrap() % (at + 1));
        }
        prop_assert_eq!(straight, merged(shuffled));
    }

    #[test]
    fn a_later_patch_of_one_field_wins(patches in proptest::collection::vec(patch(), 1..10)) {
        let config = load(&patches);
        for (id, name) in IDS.iter().enumerate().take(4) {
            // Only right patches count, and what is wrong with them depends on the place alone.
            let last = patches.iter().rev().find(|it| it.id == id && it.place.is_empty() && !it.is_group_config());
            let Some(last) = last else { continue };
            let placed_after = patches.iter().rev().take_while(|it| *it != last).any(|it| it.id == id);
            if placed_after {
                continue;
            }
            prop_assert_eq!(config.tree().get(name).unwrap().is_disabled, last.is_disabled);
            if let Some(value) = last.config {
                let config = config.tree().get(name).unwrap().config.to_json();
                prop_assert_eq!(config, serde_json::json!({ "v": value }));
            }
        }
    }

    #[test]
    fn the_tree_is_whole_whatever_the_patches(patches in proptest::collection::vec(patch(), 0..16)) {
        let config = load(&patches);
        let entries = config.tree().entries();
        let mut seen: Vec<&str> = Vec::new();
        for entry in entries {
            prop_assert!(!seen.contains(&entry.id.as_str()));
            let parent = entry.parent.as_deref();
            prop_assert!(parent.is_none_or(|it| seen.contains(&it)));
            let parent = parent.map(|it| config.tree().get(it).unwrap());
            prop_assert!(parent.is_none_or(|it| it.plugin.is_none()));
            prop_assert_eq!(entry.is_enabled, !entry.is_disabled && parent.is_none_or(|it| it.is_enabled));
            seen.push(&entry.id);
        }
        for built_in in tree() {
            prop_assert!(seen.contains(&built_in.id.as_str()));
        }
    }

    #[test]
    fn a_wrong_entry_changes_nothing_wherever_it_stands(patches in proptest::collection::vec(patch(), 0..8), at: proptest::sample::Index, wrong in 0..4_usize) {
        let good: Vec<String> = patches.iter().map(TestPatch::text).collect();
        let wrong = ["{disabled = true}", "{id = 'a', disbled = true, config = {v = 9}}", "{id = 'a', config = 1, disabled = true}", "{id = 'nobody', disabled = true}"][wrong];
        let mut bad = good.clone();
        bad.insert(at.index(good.len() + 1), wrong.to_owned());
        let (with, without) = (load_text(&bad.join(", ")), load_text(&good.join(", ")));
        prop_assert_eq!(shown(with.tree().entries()), shown(without.tree().entries()));
        prop_assert_eq!(with.problems().len(), without.problems().len() + 1);
    }
}

/// Pieces from which files that are nearly right are made.
fn part() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "include = ['linn.toml']\n",
        "[[plugins]]\n",
        "id = 'a'\n",
        "config = {v = 1}\n",
        "config = 3\n",
        "plugins = 1\n",
        "[shell]\n",
        "timeout_secs = 5\n",
        "deny = ['x', 1]\n",
        "[[providers]]\n",
        "name = 'p'\n",
        "base_url = 'u'\n",
        "headers = [['a']]\n",
        "models_override = [1]\n",
        "model = '${env:'\n",
        "[provider_keys]\n",
        "p = 1\n",
        "before = 'g'\n",
        "parent = 'g'\n",
        "group = true\n",
        "x = nan\n",
        "[shell.timeout_secs]\n",
    ])
}

/// Ids in use: those of the built-in tree, then one that has to be inserted.
const IDS: [&str; 5] = ["a", "b", "g", "h", "new"];

/// Plugins `a` and `b`, and groups `g` and `h`.
fn tree() -> Vec<BuiltIn> {
    vec![BuiltIn::plugin("a"), BuiltIn::plugin("b"), BuiltIn::group("g"), BuiltIn::group("h")]
}

#[derive(Debug, Clone, PartialEq)]
struct TestPatch {
    id: usize,
    is_disabled: bool,
    config: Option<u8>,
    place: String,
}

impl TestPatch {
    /// Whether it sets the config of a group, which has none.
    fn is_group_config(&self) -> bool {
        self.config.is_some() && matches!(self.id, 2 | 3)
    }

    fn text(&self) -> String {
        let config = self.config.map(|it| format!(", config = {{v = {it}}}")).unwrap_or_default();
        let plugin = if IDS[self.id] == "new" { ", plugin = 'p'" } else { "" };
        format!("{{id = '{}', disabled = {}{config}{plugin}{}}}", IDS[self.id], self.is_disabled, self.place)
    }
}

fn patch() -> impl Strategy<Value = TestPatch> {
    let id = 0..IDS.len();
    let place = (0..4_usize, id.clone()).prop_map(|(how, other)| match how {
        0 => String::new(),
        1 => format!(", before = '{}'", IDS[other]),
        2 => format!(", after = '{}'", IDS[other]),
        _ => format!(", parent = '{}'", if other == 4 { "" } else { IDS[other] }),
    });
    (id, any::<bool>(), proptest::option::of(0..3_u8), place).prop_map(|(id, is_disabled, config, place)| TestPatch {
        id,
        is_disabled,
        config,
        place,
    })
}

fn load_text(entries: &str) -> Config {
    Config::load(sources(&[(USER, &format!("plugins = [{entries}]"))], &[], ""), &tree())
}

fn load(patches: &[TestPatch]) -> Config {
    load_text(&patches.iter().map(TestPatch::text).collect::<Vec<_>>().join(", "))
}

fn merged(patches: Vec<TestPatch>) -> String {
    shown(load(&patches).tree().entries())
}

/// The tree without who said what of it.
fn shown(entries: &[Entry]) -> String {
    let entry = |it: &Entry| {
        format!("{:?}/{} {:?} {} {} {}\n", it.parent, it.id, it.plugin, it.is_disabled, it.is_enabled, it.config)
    };
    entries.iter().map(entry).collect()
}
