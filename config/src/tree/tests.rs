//! Merging of entries: what patches do, and what they may not do.

use super::*;
use crate::read_toml;

/// A tree of `a`, group `g` with `b` and `c` in it, and `d`, of which `d` is open to repositories.
fn built_in() -> Vec<BuiltIn> {
    let inside = |it: &str| BuiltIn { parent: Some("g".into()), ..BuiltIn::plugin(it) };
    let open = BuiltIn { repository: Change::ALL.to_vec(), ..BuiltIn::plugin("d") };
    vec![BuiltIn::plugin("a"), BuiltIn::group("g"), inside("b"), inside("c"), open]
}

/// Merges entries written as TOML into the built-in tree. Shows it as a line, then each problem on one of its own.
fn merge(layer: Layer, entries: &str) -> String {
    let place = Place::Variable("P".into());
    let node = read_toml::read_value(&place, entries).expect("TOML");
    let Data::List(entries) = node.data else { panic!("no list") };
    let mut faults = Vec::new();
    let mut patches: Vec<Patch> = built_in().iter().map(Patch::from).collect();
    for entry in &entries {
        match Patch::read(entry, layer) {
            Ok(patch) => patches.push(patch),
            Err(problem) => faults.push(problem),
        }
    }
    let (tree, problems) = Tree::merge(patches);
    faults.extend(problems);
    let entry = |it: &Entry| {
        let parent = it.parent.as_deref().map(|it| format!("{it}/")).unwrap_or_default();
        let off = if it.is_enabled { "" } else { "-" };
        let config = it.config.to_string();
        let config = if config == "{}" { "" } else { config.as_str() };
        format!("{off}{parent}{}{config}", it.id)
    };
    let mut lines = vec![tree.entries().iter().map(entry).collect::<Vec<_>>().join(" ")];
    lines.extend(faults.iter().map(ToString::to_string));
    lines.join("\n")
}

#[track_caller]
fn check(entries: &str, expected: &str) {
    assert_eq!(merge(Layer::User, entries), expected, "{entries}");
}

#[test]
fn patches_change_entries_by_id() {
    check("[]", "a g g/b g/c d");
    check("[{id = 'b', config = {x = 1}}]", "a g g/b{x = 1} g/c d");
    check("[{id = 'b', config = {x = 1}}, {id = 'b', config = {y = 2}}]", "a g g/b{y = 2} g/c d");
    check("[{id = 'b', disabled = true}]", "a g -g/b g/c d");
    check("[{id = 'b', disabled = true}, {id = 'b', disabled = false}]", "a g g/b g/c d");
}

#[test]
fn a_disabled_group_disables_what_is_in_it() {
    check("[{id = 'g', disabled = true}]", "a -g -g/b -g/c d");
    check("[{id = 'g', disabled = true}, {id = 'a', parent = 'g'}]", "-g -g/b -g/c -g/a d");
}

#[test]
fn entries_are_inserted() {
    check("[{id = 'e', plugin = 'p'}]", "a g g/b g/c d e");
    check("[{id = 'e', plugin = 'p', parent = 'g'}]", "a g g/b g/c g/e d");
    check("[{id = 'e', plugin = 'p', before = 'b', config = {x = 1}}]", "a g g/e{x = 1} g/b g/c d");
    check("[{id = 'e', plugin = 'p', after = 'a'}]", "a e g g/b g/c d");
    check("[{id = 'h', group = true, before = 'a'}, {id = 'e', plugin = 'p', parent = 'h'}]", "h h/e a g g/b g/c d");
    check("[{id = 'e', plugin = 'p'}, {id = 'f', plugin = 'p', before = 'e'}]", "a g g/b g/c d f e");
}

#[test]
fn entries_are_moved_with_what_is_in_them() {
    check("[{id = 'd', before = 'a'}]", "d a g g/b g/c");
    check("[{id = 'a', after = 'g'}]", "g g/b g/c a d");
    check("[{id = 'g', after = 'd'}]", "a d g g/b g/c");
    check("[{id = 'c', before = 'b'}]", "a g g/c g/b d");
    check("[{id = 'c', parent = ''}]", "a g g/b d c");
    check("[{id = 'a', parent = 'g', before = 'c'}]", "g g/b g/a g/c d");
}

#[test]
fn naming_the_place_that_an_entry_has_does_not_move_it() {
    check("[{id = 'b', parent = 'g'}]", "a g g/b g/c d");
    check("[{id = 'a', parent = ''}]", "a g g/b g/c d");
}

#[test]
fn inserting_what_is_there_changes_it() {
    check("[{id = 'b', plugin = 'b', config = {x = 1}}]", "a g g/b{x = 1} g/c d");
    check(
        "[{id = 'b', plugin = 'q', config = {x = 1}}]",
        "a g g/b g/c d\n$P: entry `b` is of plugin `b`, which no later file can change to `q`; disable it and insert another id",
    );
    check("[{id = 'g', group = true}]", "a g g/b g/c d");
}

#[test]
fn a_wrong_entry_changes_nothing_and_says_what_would_be_right() {
    let problem = |entries: &str| {
        let merged = merge(Layer::User, entries);
        let (tree, problem) = merged.split_once('\n').expect("a problem");
        assert_eq!(tree, "a g g/b g/c d", "{entries}");
        problem.strip_prefix("$P: entry ").expect("at the variable").to_owned()
    };
    assert_eq!(problem("[{disabled = true}]"), "`` has no `id`; give it a text that is no other entry's");
    assert_eq!(problem("[{id = 'b', disbled = true}]"), "`b` has no field `disbled`; did you mean `disabled`?");
    assert_eq!(
        problem("[{id = 'b', disabled = 'yes'}]"),
        "`b` cannot have \"yes\" as `disabled`; it is `true` or `false`"
    );
    assert_eq!(
        problem("[{id = 'b', disabled = true, config = 'hidden'}]"),
        "`b` cannot have (not shown) as `config`; it is a table"
    );
    assert_eq!(
        problem("[{id = 'approva', disabled = true}]"),
        "`approva` changes an entry that is not there, and names no `plugin` to insert"
    );
    assert_eq!(
        problem("[{id = 'e', plugin = 'p', group = true}]"),
        "`e` is a group, which has neither `plugin` nor `config`"
    );
    assert_eq!(problem("[{id = 'g', config = {}}]"), "`g` is a group, which has neither `plugin` nor `config`");
    assert_eq!(problem("[{id = 'b', group = true}]"), "`b` is a group, which has neither `plugin` nor `config`");
    assert_eq!(problem("[{id = 'b', parent = 'a'}]"), "`b` has the parent `a`, which is no group");
    assert_eq!(problem("[{id = 'b', parent = 'x'}]"), "`b` is placed by `parent` at `x`, which is not there");
    assert_eq!(problem("[{id = 'b', after = 'x'}]"), "`b` is placed by `after` at `x`, which is not there");
    assert!(problem("[{id = 'b', after = 'a', before = 'd'}]").starts_with("`b` is placed twice"));
    assert!(problem("[{id = 'a', parent = '', before = 'b'}]").starts_with("`a` is placed twice"));
    assert_eq!(problem("[{id = 'g', before = 'b'}]"), "`g` would be inside or beside itself");
    assert_eq!(problem("[{id = 'g', parent = 'g'}]"), "`g` would be inside or beside itself");
    assert_eq!(problem("[{id = 'a', before = 'a'}]"), "`a` would be inside or beside itself");
}

#[test]
fn the_nearest_id_is_named() {
    let merged = merge(Layer::User, "[{id = 'notify', plugin = 'p'}, {id = 'notifi', disabled = true}]");
    assert!(merged.ends_with("did you mean `notify`?"), "{merged}");
}

#[test]
fn a_repository_changes_only_what_is_open_to_it() {
    let check = |entries: &str, expected: &str| assert_eq!(merge(Layer::Workspace, entries), expected, "{entries}");
    check("[{id = 'd', disabled = true, config = {x = 1}, before = 'a'}]", "-d{x = 1} a g g/b g/c");
    let closed = |field| {
        format!(
            "a g g/b g/c d\n$P: entry `b` cannot be changed by a repository in `{field}`; its user opens it by `repository = [\"{field}\"]`"
        )
    };
    check("[{id = 'b', config = {}}]", &closed("config"));
    check("[{id = 'b', disabled = true}]", &closed("disabled"));
    check("[{id = 'b', parent = ''}]", &closed("place"));
    check("[{id = 'b', after = 'a'}]", &closed("place"));
}

#[test]
fn a_repository_inserts_entries_that_need_trust() {
    let place = Place::Variable("P".into());
    let entries = "[{id = 'e', plugin = 'p'}, {id = 'e', disabled = true, config = {x = 1}}, {id = 'd', config = {}}]";
    let Data::List(entries) = read_toml::read_value(&place, entries).expect("TOML").data else { panic!("no list") };
    let own = entries.iter().map(|it| Patch::read(it, Layer::Workspace).expect("right"));
    let (tree, problems) = Tree::merge(built_in().iter().map(Patch::from).chain(own));
    assert_eq!(problems.len(), 0, "{problems:?}");
    let needy: Vec<&str> = tree.entries().iter().filter(|it| it.needs_trust()).map(|it| it.id.as_str()).collect();
    assert_eq!(needy, ["e"]);
    assert!(tree.get("e").is_some_and(|it| it.is_disabled));
}

#[test]
fn a_repository_opens_nothing_to_itself() {
    let merged = merge(Layer::Workspace, "[{id = 'b', repository = ['config']}, {id = 'b', config = {}}]");
    assert!(merged.contains("in `repository`") && merged.contains("in `config`"), "{merged}");
}

#[test]
fn a_user_opens_an_entry_to_repositories() {
    let read = |layer, text: &str| {
        let node = read_toml::read_value(&Place::Variable("P".into()), text).expect("TOML");
        Patch::read(&node, layer).expect("right")
    };
    let opened = read(Layer::User, "{id = 'b', repository = ['config']}");
    let changed = read(Layer::Workspace, "{id = 'b', config = {x = 1}}");
    let (tree, problems) = Tree::merge(built_in().iter().map(Patch::from).chain([opened, changed]));
    assert!(problems.is_empty(), "{problems:?}");
    let entry = tree.get("b").expect("b");
    assert_eq!(entry.config.to_string(), "{x = 1}");
    assert_eq!(entry.config_by.as_ref().map(|it| it.layer), Some(Layer::Workspace));
    assert_eq!(entry.inserted_by, Origin::built_in());
    assert_eq!((&entry.disabled_by, &entry.placed_by), (&None, &None));
}
