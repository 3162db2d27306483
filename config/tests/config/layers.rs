//! Precedence of layers, provenance, and what may be set where.

use linn_config::{Config, Layer, Sources, keys};

use crate::{CONFIG, FOLDER, HOME, USER, WORKSPACE, check, load, problems, said, sources};

#[test]
fn each_layer_wins_over_those_below() {
    let client = (CONFIG, r#"{"bash_timeout_secs": 1}"#);
    let user = (USER, "[shell]\ntimeout_secs = 2");
    let workspace = (WORKSPACE, "shell = {timeout_secs = 3}");
    let variable = [("LINN_SHELL_TIMEOUT_SECS", "4")];
    let name = "shell.timeout_secs";
    check(&load(&[], &[], ""), &[(name, "30 built-in default")]);
    check(&load(&[client], &[], ""), &[(name, "1 /h/.config/catalyst-code/config.json:1:23 (client)")]);
    check(&load(&[client, user], &[], ""), &[(name, "2 /h/.config/linn/linn.toml:2:16 (user)")]);
    check(&load(&[client, user, workspace], &[], ""), &[(name, "3 /w/.linn/linn.toml:1:25 (workspace)")]);
    check(&load(&[client, user, workspace], &variable, ""), &[(name, "4 $LINN_SHELL_TIMEOUT_SECS (environment)")]);
    let all = load(&[client, user, workspace], &variable, "--set shell.timeout_secs=5");
    check(&all, &[(name, "5 --set (command line)")]);
    let listed = all.listing().into_iter().find(|it| it.key.name == name).unwrap();
    let shadowed: Vec<String> =
        listed.shadowed.iter().map(|(origin, shown)| format!("{shown} {}", origin.layer.name())).collect();
    assert_eq!(shadowed, ["\"4\" environment", "3 workspace", "2 user", "1 client", "30 built-in"]);
    assert_eq!(listed.to_string(), "shell.timeout_secs = \"5\"  # --set (command line)");
}

#[test]
fn flags_of_clients_are_below_the_user_file() {
    let config = load(&[(USER, "approval = 'always'")], &[("CATALYST_CODE_APPROVAL", "never")], "--approval never");
    check(&config, &[("approval", r#""always" /h/.config/linn/linn.toml:1:12 (user)"#)]);
    assert_eq!(config.overruled_by(keys::APPROVAL.declaration(), Layer::Client).map(|it| it.layer), Some(Layer::User));
    assert_eq!(config.overruled_by(keys::APPROVAL.declaration(), Layer::User), None);
}

#[test]
fn a_wrong_value_is_left_out_and_the_one_below_holds() {
    let config = load(
        &[(CONFIG, r#"{"bash_timeout_secs": 7}"#), (USER, "model = 'm'\nshell.timeout_secs = 'x'\nprovider = 3")],
        &[],
        "",
    );
    assert_eq!(said(&config, "shell.timeout_secs"), "7 /h/.config/catalyst-code/config.json:1:23 (client)");
    assert_eq!(said(&config, "model"), r#""m" /h/.config/linn/linn.toml:1:9 (user)"#);
    assert_eq!(
        problems(&config),
        "/h/.config/linn/linn.toml:2:22: `shell.timeout_secs` cannot be \"x\"; it is a whole number from 1 on\n\
         /h/.config/linn/linn.toml:3:12: `provider` cannot be 3; it is text that is not empty\n"
    );
}

#[test]
fn a_rule_that_cannot_be_read_is_told_with_its_place_and_stays() {
    let file = "[permissions]\ndeny = ['bash(rm *)', 'bash(git push', 'touch it']\nallow = ['read_file']";
    let config = load(&[(USER, file)], &[("LINN_PERMISSIONS_ASK", "bash(")], "");
    let expected = "it is a list of rules, each `tool` or `tool(pattern)`, such as `bash(git *)`";
    assert_eq!(
        problems(&config),
        format!(
            "/h/.config/linn/linn.toml:2:23: `permissions.deny` cannot be \"bash(git push\"; {expected}\n\
             /h/.config/linn/linn.toml:2:40: `permissions.deny` cannot be \"touch it\"; {expected}\n\
             $LINN_PERMISSIONS_ASK: `permissions.ask` cannot be \"bash(\"; {expected}\n"
        )
    );
    // Whoever heeds the rules asks about all calls then.
    assert_eq!(config.get(&keys::PERMISSIONS_DENY), ["bash(rm *)", "bash(git push", "touch it"]);
    assert_eq!(config.get(&keys::PERMISSIONS_ASK), ["bash("]);
}

#[test]
fn unknown_keys_name_the_nearest() {
    let file = "aproval = 'never'\nbash_timeout_secs = 3\nshell = 'zsh'\n[sandbox]\ncpu = 2\n[frobnication]\nx = 1\n[[plugin]]\nid = 'a'";
    let config = load(&[(USER, file)], &[("LINN_MODLE", "m")], "--set shel.timeout_secs=3");
    assert_eq!(
        problems(&config),
        "/h/.config/linn/linn.toml:1:11: there is no key `aproval`; did you mean `approval`?\n\
         /h/.config/linn/linn.toml:2:21: there is no key `bash_timeout_secs`; did you mean `shell.timeout_secs`?\n\
         /h/.config/linn/linn.toml:3:9: `shell` cannot be \"zsh\"; it is a table of keys\n\
         /h/.config/linn/linn.toml:5:7: there is no key `sandbox.cpu`; did you mean `sandbox.cpus`?\n\
         /h/.config/linn/linn.toml:6:1: there is no key `frobnication`\n\
         /h/.config/linn/linn.toml:8:1: there is no key `plugin`; did you mean `plugins`?\n\
         $LINN_MODLE: there is no key `LINN_MODLE`; did you mean `LINN_MODEL`?\n\
         --set: there is no key `shel.timeout_secs`; did you mean `shell.timeout_secs`?\n"
    );
    assert!(config.problems().iter().all(|it| it.place().is_some()));
}

#[test]
fn a_repository_sets_what_it_may() {
    let config = load(
        &[(
            WORKSPACE,
            "model = 'm'\napproval = 'never'\n[sandbox]\nmode = 'none'\n[script_plugins]\ntrust_project = true",
        )],
        &[],
        "",
    );
    assert_eq!(said(&config, "model"), r#""m" /w/.linn/linn.toml:1:9 (workspace)"#);
    assert_eq!(said(&config, "approval"), r#""destructive" built-in default"#);
    assert_eq!(
        problems(&config),
        "/w/.linn/linn.toml:2:12: a repository cannot set `approval`; set it in ~/.config/linn/linn.toml\n\
         /w/.linn/linn.toml:4:8: a repository cannot set `sandbox.mode`; set it in ~/.config/linn/linn.toml\n\
         /w/.linn/linn.toml:6:17: no file can set `script_plugins.trust_project`; set it at the start by \
         `--trust-project-plugins`, `--set script_plugins.trust_project=..`, `LINN_SCRIPT_PLUGINS_TRUST_PROJECT`, \
         `CATALYST_CODE_TRUST_PROJECT_PLUGINS`\n"
    );
}

#[test]
fn what_has_to_be_asked_for_at_each_start_is_in_no_file() {
    let name = "script_plugins.trust_project";
    let config = load(&[(USER, "script_plugins.trust_project = true")], &[], "");
    assert_eq!(config.problems()[0].code(), "CONFIG_NOT_FOR_FILES");
    assert_eq!(config.get_json(name), Some(false.into()));
    check(&load(&[], &[], "--trust-project-plugins"), &[(name, "true --trust-project-plugins (client)")]);
    check(
        &load(&[], &[("CATALYST_CODE_TRUST_PROJECT_PLUGINS", "1")], ""),
        &[(name, "true $CATALYST_CODE_TRUST_PROJECT_PLUGINS (client)")],
    );
    check(
        &load(&[], &[("LINN_SCRIPT_PLUGINS_TRUST_PROJECT", "on")], ""),
        &[(name, "true $LINN_SCRIPT_PLUGINS_TRUST_PROJECT (environment)")],
    );
}

#[test]
fn the_workspace_file_is_the_one_of_the_workspace() {
    let other = ("/v/.linn/linn.toml", "model = 'other'");
    let here = (WORKSPACE, "model = 'here'");
    let model = |config: &Config| config.get(&keys::MODEL).unwrap();
    let workspace = |config: &Config| config.workspace().display().to_string();
    for (files, variables, arguments) in [
        (vec![here, other], vec![], "--workspace /v"),
        (vec![here, other], vec![], "--workspace ../v/"),
        (vec![here, other, (USER, "workspace = '/v'")], vec![], "--workspace ."),
        (vec![here, other, (USER, "workspace = '/x'")], vec![("LINN_WORKSPACE", "/v")], ""),
        (vec![here, other], vec![("LINN_WORKSPACE", "/x")], "--set workspace=/v"),
    ] {
        let config = load(&files, &variables, arguments);
        if arguments.contains("..") {
            assert_eq!(workspace(&config), "/w/../v");
        } else {
            assert_eq!((model(&config).as_str(), workspace(&config).as_str()), ("other", "/v"), "{arguments}");
        }
    }
    let config = load(&[here, other], &[], "--workspace .");
    assert_eq!((model(&config).as_str(), workspace(&config).as_str()), ("here", "/w"));
}

#[test]
fn paths_are_absolute() {
    let config = load(&[(USER, "session.file = '~/s.jsonl'\ndebug.log = 'd.jsonl'")], &[], "--workspace /v");
    let path = |it: Option<std::path::PathBuf>| it.unwrap().display().to_string();
    assert_eq!(path(config.get(&keys::SESSION_FILE)), "/h/s.jsonl");
    assert_eq!(path(config.debug_log()), "/w/d.jsonl");
    assert_eq!(path(Some(config.get(&keys::SCRIPT_PLUGINS_DIR))), "/v/.catalyst-code/plugins");
}

#[test]
fn variables_and_flags_hold_lists_and_tables_too() {
    let variables = [("LINN_SHELL_DENY", "a, b"), ("LINN_PERMISSIONS_DENY", r#"["x,y"]"#), ("LINN_MODEL", "")];
    let config = load(&[], &variables, "--set subagents.overrides={scout={model='m'}}");
    check(
        &config,
        &[
            ("shell.deny", r#"["a","b"] $LINN_SHELL_DENY (environment)"#),
            ("permissions.deny", r#"["x,y"] $LINN_PERMISSIONS_DENY (environment)"#),
            ("model", "null built-in default"),
            ("subagents.overrides", r#"{"scout":{"model":"m"}} --set (command line)"#),
        ],
    );
}

#[test]
fn the_plugin_tree_takes_entries_from_each_layer() {
    let user =
        "[[plugins]]\nid = 'git'\nconfig = {depth = 3}\n[[plugins]]\nid = 'notes'\nplugin = 'notes'\nbefore = 'git'";
    let workspace = "[[plugins]]\nid = 'web'\ndisabled = true\n[[plugins]]\nid = 'approval'\ndisabled = true";
    let config = load(
        &[(USER, user), (WORKSPACE, workspace)],
        &[("LINN_PLUGINS", "[{id = 'git', config = {depth = 4}}]")],
        "--enable web --disable notes --plugin {id='git',after='web'}",
    );
    let shown: Vec<String> = config
        .tree()
        .entries()
        .iter()
        .map(|it| format!("{}{} {}", if it.is_enabled { "" } else { "-" }, it.id, it.config))
        .collect();
    assert_eq!(shown, ["approval {}", "-notes {}", "web {}", "git {depth = 4}"]);
    let git = config.tree().get("git").unwrap();
    assert_eq!(git.config_by.as_ref().unwrap().to_string(), "$LINN_PLUGINS (environment)");
    assert_eq!(git.placed_by.as_ref().unwrap().to_string(), "--plugin (command line)");
    let notes = config.tree().get("notes").unwrap();
    assert_eq!(notes.inserted_by.to_string(), "/h/.config/linn/linn.toml:4:1 (user)");
    assert_eq!(notes.disabled_by.as_ref().unwrap().to_string(), "--disable (command line)");
    assert_eq!(
        problems(&config),
        "/w/.linn/linn.toml:4:1: entry `approval` cannot be changed by a repository in `disabled`; its user opens it by `repository = [\"disabled\"]`\n"
    );
}

#[test]
fn the_config_of_an_entry_knows_where_its_fields_are() {
    let config = load(&[(USER, "[[plugins]]\nid = 'git'\n[plugins.config]\nremote = {url = 'u'}\n")], &[], "");
    let git = &config.tree().get("git").unwrap().config;
    assert_eq!(git.to_json(), serde_json::json!({"remote": {"url": "u"}}));
    assert_eq!(git.place_of("remote.url").unwrap().to_string(), "/h/.config/linn/linn.toml:4:17");
    assert_eq!(git.place_of("remote.uri"), None);
}

#[test]
fn thresholds_stay_in_order() {
    let config = load(&[(USER, "context.compact_at = 0.6\ncontext.digest_at = 0.8")], &[], "");
    assert_eq!(config.get(&keys::CONTEXT_DIGEST_AT), 0.0);
    assert_eq!(
        problems(&config),
        "/h/.config/linn/linn.toml:2:21: `context.digest_at` is 0.8, but has to be below `context.compact_at`, which is 0.6\n"
    );
    let mut config = load(&[(USER, "context.compact_at = 0.6")], &[], "");
    check(&config, &[("context.digest_at", "0.0 built-in default")]);
    config.set("context.compact_at", &0.8.into(), "x").unwrap();
    assert_eq!(config.get(&keys::CONTEXT_DIGEST_AT), 0.7);
}

#[test]
fn without_a_home_there_are_no_user_files() {
    let config = Config::load(
        Sources { home: None, ..sources(&[(USER, "model = 'm'"), (CONFIG, "{\"model\": \"c\"}")], &[], "") },
        &[],
    );
    check(&config, &[("model", "null built-in default")]);
    assert_eq!((HOME, FOLDER), ("/h", "/w"));
}

#[test]
fn r049_a_byte_order_mark_and_line_ends_of_other_systems_are_read() {
    let config = load(
        &[
            (USER, "\u{feff}model = 'm'\r\napproval = 'always'\r\n"),
            (CONFIG, "\u{feff}{\r\n\"fetch_max_bytes\": 9\r\n}\r\n"),
        ],
        &[],
        "",
    );
    check(
        &config,
        &[
            ("approval", r#""always" /h/.config/linn/linn.toml:2:12 (user)"#),
            ("fetch.max_bytes", "9 /h/.config/catalyst-code/config.json:2:20 (client)"),
        ],
    );
}
