//! The arrows between the crates of the workspace, and what the bus may take from outside.

use cargo_metadata::{Dependency, DependencyKind, Package};

/// Which crates of ours a crate may depend on. A crate that is not here has no place in the layers yet.
const EDGES: &[(&str, &[&str])] = &[
    ("linn-bus-macros", &[]),
    ("linn-bus", &["linn-bus-macros", "linn-fingerprint"]),
    ("linn-bus-test", &["linn-bus"]),
    ("linn-config", &[]),
    ("linn-fingerprint", &[]),
    ("linn-http", &["linn-bus", "linn-services"]),
    ("linn-process", &["linn-bus"]),
    ("linn-services", &["linn-bus", "linn-fingerprint"]),
    ("linn-services-test", &["linn-bus", "linn-services"]),
    ("linn-model-server", &[]),
    ("linn-bridge", &["linn-bus", "linn-services"]),
    ("linn-loader", &["linn-bus", "linn-services", "linn-config"]),
    ("linn-sdk", &["linn-bus", "linn-services"]),
    ("linn-sources", &[]),
];

/// What every crate `linn-plugin-*` may depend on.
const PLUGIN_EDGES: &[&str] = &["linn-bus", "linn-services"];

/// Mechanics that plugins share which meet the same part of the system, and which plugins those are.
const SHARED: &[(&str, &[&str])] = &[
    (
        "linn-http",
        &[
            "linn-plugin-llm-anthropic",
            "linn-plugin-llm-openai",
            "linn-plugin-providers",
            "linn-plugin-script-plugins",
            "linn-plugin-web",
        ],
    ),
    ("linn-process", &["linn-plugin-script-plugins", "linn-plugin-shell"]),
];

/// What tests may name on top: the test kit, and what mounts a plugin for real.
const DEV_EDGES: &[&str] = &["linn-bus-test", "linn-services-test", "linn-model-server", "linn-loader", "linn-config"];

/// What tests of the bridge may name on top: the plugins that a turn takes.
const BRIDGE_DEV_EDGES: &[&str] = &[
    "linn-plugin-agent-loop",
    "linn-plugin-approval",
    "linn-plugin-compaction",
    "linn-plugin-files",
    "linn-plugin-finish",
    "linn-plugin-interaction",
    "linn-plugin-session-store",
    "linn-plugin-shell",
    "linn-plugin-stuck",
    "linn-plugin-todo",
];

/// The crate that composes all others and may name each of them.
const ROOT: &str = "linn";

/// Outside crates that a program can use the bus without.
const NOT_IN_BUS: &[&str] = &["schemars", "serde", "serde_json", "tokio"];

/// A crate of the workspace with what the rules look at.
#[derive(Debug)]
pub(crate) struct Crate {
    name: String,
    dependencies: Vec<Edge>,
}

/// One line of a dependency table.
#[derive(Debug)]
struct Edge {
    to: String,
    is_dev: bool,
    is_optional: bool,
    is_ours: bool,
}

impl From<&Package> for Crate {
    fn from(package: &Package) -> Self {
        Self { name: package.name.to_string(), dependencies: package.dependencies.iter().map(Edge::from).collect() }
    }
}

impl From<&Dependency> for Edge {
    fn from(dependency: &Dependency) -> Self {
        Self {
            to: dependency.name.clone(),
            is_dev: dependency.kind == DependencyKind::Development,
            is_optional: dependency.optional,
            is_ours: dependency.path.is_some(),
        }
    }
}

/// What `it` depends on and may not.
pub(crate) fn broken_edges(it: &Crate) -> Vec<String> {
    let Some(allowed) = allowed_edges(&it.name) else {
        return vec![format!("{}: the layers have no such crate; give it a place in `layers.rs`", it.name)];
    };
    let is_allowed = |edge: &Edge| {
        // A crate names itself in its dev-dependencies to switch on a feature for its tests.
        let to = edge.to.as_str();
        let of_bridge = it.name == "linn-bridge" && BRIDGE_DEV_EDGES.contains(&to);
        let by_tests = edge.is_dev && (DEV_EDGES.contains(&to) || of_bridge || edge.to == it.name);
        let is_shared = SHARED.iter().any(|(shared, users)| *shared == to && users.contains(&it.name.as_str()));
        by_tests || is_shared || allowed.is_none_or(|it| it.contains(&edge.to.as_str()))
    };
    let ours = it.dependencies.iter().filter(|edge| edge.is_ours && !is_allowed(edge));
    ours.map(|edge| format!("{} -> {} is no arrow of docs/ARCHITECTURE.md", it.name, edge.to)).collect()
}

/// `None` if the crate is unknown, `Some(None)` if it may name all.
fn allowed_edges(name: &str) -> Option<Option<&'static [&'static str]>> {
    if name == ROOT {
        return Some(None);
    }
    if name.starts_with("linn-plugin-") {
        return Some(Some(PLUGIN_EDGES));
    }
    EDGES.iter().find(|(it, _)| *it == name).map(|(_, edges)| Some(*edges))
}

/// What the bus takes from outside without asking.
///
/// Who may use which other outside crate is in `deny.toml`.
pub(crate) fn broken_outside_edges(it: &Crate) -> Vec<String> {
    let is_bus = it.name == "linn-bus";
    let forced = it
        .dependencies
        .iter()
        .filter(|edge| is_bus && !edge.is_dev && !edge.is_optional && NOT_IN_BUS.contains(&edge.to.as_str()));
    forced.map(|edge| format!("{} -> {} must be optional", it.name, edge.to)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Edge = Edge { to: String::new(), is_dev: false, is_optional: false, is_ours: true };

    fn krate(name: &str, edge: Edge, to: &str) -> Crate {
        let to = to.to_owned();
        Crate { name: name.to_owned(), dependencies: vec![Edge { to, ..edge }] }
    }

    fn edge_is_broken(name: &str, edge: Edge, to: &str) -> bool {
        !broken_edges(&krate(name, edge, to)).is_empty()
    }

    #[test]
    fn arrows_that_point_up_are_found() {
        assert!(edge_is_broken("linn-bus", NORMAL, "linn-services"));
        assert!(edge_is_broken("linn-services", NORMAL, "linn-config"));
        assert!(edge_is_broken("linn-bridge", NORMAL, "linn-plugin-agent-loop"));
        assert!(edge_is_broken("linn-loader", NORMAL, "linn-bus-test"));
        assert!(!edge_is_broken("linn-loader", NORMAL, "linn-config"));
        assert!(!edge_is_broken("linn", NORMAL, "linn-plugin-agent-loop"));
    }

    #[test]
    fn a_plugin_that_uses_another_is_found() {
        assert!(edge_is_broken("linn-plugin-shell", NORMAL, "linn-plugin-files"));
        assert!(edge_is_broken("linn-plugin-shell", NORMAL, "linn-config"));
        assert!(!edge_is_broken("linn-plugin-shell", NORMAL, "linn-services"));
        let dev = Edge { is_dev: true, ..NORMAL };
        assert!(edge_is_broken("linn-plugin-shell", dev, "linn-plugin-files"));
    }

    #[test]
    fn only_plugins_that_meet_the_system_share_its_mechanics() {
        assert!(edge_is_broken("linn-plugin-todo", NORMAL, "linn-http"));
        assert!(edge_is_broken("linn-plugin-web", NORMAL, "linn-process"));
        assert!(edge_is_broken("linn-process", NORMAL, "linn-services"));
        for (shared, users) in SHARED {
            for user in *users {
                assert!(!edge_is_broken(user, NORMAL, shared));
            }
        }
    }

    #[test]
    fn tests_may_name_the_kit_and_the_loader() {
        for to in DEV_EDGES {
            let dev = Edge { is_dev: true, ..NORMAL };
            assert!(!edge_is_broken("linn-plugin-shell", dev, to));
        }
    }

    #[test]
    fn only_tests_of_the_bridge_may_name_plugins() {
        for to in BRIDGE_DEV_EDGES {
            let dev = Edge { is_dev: true, ..NORMAL };
            assert!(!edge_is_broken("linn-bridge", dev, to));
            let dev = Edge { is_dev: true, ..NORMAL };
            assert!(edge_is_broken("linn-loader", dev, to));
            assert!(edge_is_broken("linn-bridge", NORMAL, to));
        }
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let found = broken_edges(&krate("linn-extras", NORMAL, "linn-bus"));
        assert_eq!(found, ["linn-extras: the layers have no such crate; give it a place in `layers.rs`"]);
    }

    #[test]
    fn a_runtime_forced_on_users_of_the_bus_is_found() {
        let is_broken = |name, edge| !broken_outside_edges(&krate(name, edge, "tokio")).is_empty();
        let outside = |is_optional, is_dev| Edge { is_ours: false, is_optional, is_dev, ..NORMAL };
        assert!(is_broken("linn-bus", outside(false, false)));
        assert!(!is_broken("linn-bus", outside(true, false)));
        assert!(!is_broken("linn-bus", outside(false, true)));
        assert!(!is_broken("linn", outside(false, false)));
    }
}
