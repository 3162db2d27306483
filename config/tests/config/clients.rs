//! What existing clients set, in their files, variables and flags (wire protocol, section 3).

use linn_config::{Config, ProviderKey, keys};
use linn_config::{ExposeSecret, NetworkMode, SandboxMode};

use crate::{CONFIG, PROJECT, PROJECT_LOCAL, SETTINGS, check, load, problems, said};

const ADMIN: &str = "/h/.config/catalyst-code/catalyst-code.d";

#[test]
fn wp_3_4_files_win_in_their_order() {
    let at = |path: String, value: u8| (path, format!("{{\"fetch_max_bytes\": {value}}}"));
    let texts = [
        at(CONFIG.into(), 1),
        at(format!("{ADMIN}/10.json"), 2),
        at(format!("{ADMIN}/20.json"), 3),
        at(SETTINGS.into(), 4),
        at(PROJECT.into(), 5),
        at(PROJECT_LOCAL.into(), 6),
    ];
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    for count in 1..=files.len() {
        let config = load(&files[..count], &[], "");
        check(&config, &[("fetch.max_bytes", &format!("{count} {}:1:21 (client)", files[count - 1].0))]);
    }
}

#[test]
fn wp_3_4_only_json_files_of_the_admin_are_read() {
    let text = format!("{ADMIN}/a.txt");
    check(&load(&[(&text, "{\"model\": \"m\"}")], &[], ""), &[("model", "null built-in default")]);
}

#[test]
fn wp_3_1_variables_win_over_files_and_flags_over_variables() {
    let file = (SETTINGS, r#"{"bash_timeout_secs": 1}"#);
    let variable = [("CATALYST_CODE_BASH_TIMEOUT", "2")];
    check(&load(&[file], &variable, ""), &[("shell.timeout_secs", "2 $CATALYST_CODE_BASH_TIMEOUT (client)")]);
    check(&load(&[file], &variable, "--bash-timeout 3"), &[("shell.timeout_secs", "3 --bash-timeout (client)")]);
}

#[test]
fn wp_3_1_config_replaces_the_list_of_files() {
    let files =
        [(CONFIG, r#"{"model": "a"}"#), (PROJECT, r#"{"model": "b"}"#), ("/w/own.json", r#"{"approval": "always"}"#)];
    let config = load(&files, &[], "--config own.json");
    check(&config, &[("model", "null built-in default"), ("approval", r#""always" /w/own.json:1:14 (client)"#)]);
    let config = load(&files, &[], "--config none.json");
    assert_eq!(problems(&config), "cannot read /w/none.json\n");
}

#[test]
fn wp_3_1_an_unparsable_number_keeps_the_previous_value() {
    let config = load(
        &[(CONFIG, r#"{"bash_timeout_secs": 7}"#)],
        &[("CATALYST_CODE_BASH_TIMEOUT", "soon")],
        "--bash-timeout later",
    );
    assert_eq!(said(&config, "shell.timeout_secs"), "7 /h/.config/catalyst-code/config.json:1:23 (client)");
    assert_eq!(config.problems().len(), 2);
}

#[test]
fn wp_3_1_project_files_lose_keys() {
    let stripped = r#"{
        "base_url": "http://evil", "approval": "never", "sandbox": "none", "no_network": false, "sandbox_image": "evil",
        "sandbox_network_mode": "restricted", "sandbox_network_allowlist": ["evil"], "sandbox_allow_private_networks": true,
        "sandbox_cpus": 16, "sandbox_memory_mb": 16384, "sandbox_disk_mb": 65536, "fetch_allowlist": ["evil"],
        "bash_deny": [], "bash_deny_regex": ["x"], "permissions": {"allow": ["*"]}, "api_key": "k",
        "providers": [{"name": "evil", "base_url": "http://evil"}], "provider_keys": {"a": "k"},
        "search_keys": {"exa": "k"}, "plugins": {"dir": "/evil", "disabled": ["gate"]},
        "debug_log": "/h/.bashrc", "session": "/h/.bashrc", "workspace": "/", "sandbox_env_allowlist": ["SECRET"],
        "model": "m"
    }"#;
    for path in [PROJECT, PROJECT_LOCAL] {
        let config = load(&[(path, stripped)], &[], "");
        let is_refused = |it: &linn_config::Problem| it.code() == "CONFIG_NOT_FOR_REPOSITORY";
        assert!(config.problems().iter().all(is_refused), "{}", problems(&config));
        assert_eq!(config.problems().len(), 25);
        let changed: Vec<&str> =
            config.listing().iter().filter(|it| !it.shadowed.is_empty()).map(|it| it.key.name).collect();
        assert_eq!(changed, ["model"]);
        assert!(!problems(&config).contains("evil"));
    }
}

#[test]
fn wp_3_2_every_flag_and_variable_sets_its_key() {
    let values = |kind: &linn_config::Kind| match kind {
        linn_config::Kind::Bool => ("1", "true"),
        linn_config::Kind::Integer { .. } => ("300", "300"),
        linn_config::Kind::Path { .. } => ("/p", "\"/p\""),
        linn_config::Kind::Choice { choices, .. } if choices[1].name == "microsandbox" => ("msb", "\"microsandbox\""),
        linn_config::Kind::Choice { choices, .. } if choices[1].name == "restricted" => ("allowlist", "\"allowlist\""),
        linn_config::Kind::Choice { .. } => ("all", "\"always\""),
        linn_config::Kind::List => ("a,b", r#"["a","b"]"#),
        linn_config::Kind::Secret => ("k", "null"),
        linn_config::Kind::Providers => (r#"[{"name":"p","base_url":"u"}]"#, r#"["p"]"#),
        _ => ("t", "\"t\""),
    };
    for key in keys::all() {
        let (text, json) = values(&key.kind);
        // The range of this one ends below.
        let (text, json) = if key.name == "sandbox.cpus" { ("3", "3") } else { (text, json) };
        let provider = (CONFIG, r#"{"providers": [{"name": "t", "base_url": "u"}]}"#);
        let provider = if key.name == "provider" { vec![provider] } else { vec![] };
        if let Some(variable) = key.client.variable {
            check(&load(&provider, &[(variable, text)], ""), &[(key.name, &format!("{json} ${variable} (client)"))]);
        }
        if let Some(flag) = key.client.flag {
            let line =
                if matches!(key.kind, linn_config::Kind::Bool) { flag.to_owned() } else { format!("{flag} {text}") };
            check(&load(&provider, &[], &line), &[(key.name, &format!("{json} {flag} (client)"))]);
        }
    }
}

#[test]
fn wp_3_2_the_flags_of_the_document_are_there() {
    let flags = [
        "--workspace",
        "--base-url",
        "--approval",
        "--session",
        "--provider",
        "--model",
        "--bash-timeout",
        "--max-bash-timeout",
        "--fetch-timeout",
        "--diag-timeout",
        "--idle-timeout",
        "--max-session-tokens",
        "--debug-log",
        "--debug",
        "--trust-project-plugins",
        "--sandbox",
        "--no-network",
        "--sandbox-image",
        "--sandbox-cpus",
        "--sandbox-memory-mb",
        "--sandbox-disk-mb",
        "--sandbox-network",
        "--sandbox-env-allowlist",
    ];
    let known: Vec<&str> = keys::all().iter().filter_map(|it| it.client.flag).collect();
    assert!(flags.iter().all(|it| known.contains(it)));
    assert_eq!(flags.len(), known.len());
}

#[test]
fn wp_3_2_defaults_are_those_of_the_clients() {
    let config = load(&[], &[], "");
    let expected = [
        ("approval", "\"destructive\""),
        ("base_url", "\"https://api.code.umans.ai/v1\""),
        ("shell.timeout_secs", "30"),
        ("shell.max_timeout_secs", "600"),
        ("fetch.timeout_secs", "20"),
        ("diagnostics.timeout_secs", "120"),
        ("stream.idle_timeout_secs", "120"),
        ("session.max_tokens", "0"),
        ("sandbox.mode", "\"none\""),
        ("sandbox.image", "\"ghcr.io/catalystctl/catcode-sandbox:0.1\""),
        ("sandbox.cpus", "2"),
        ("sandbox.memory_mb", "2048"),
        ("sandbox.disk_mb", "8192"),
        ("sandbox.network_mode", "\"restricted\""),
        ("sandbox.idle_timeout_secs", "900"),
        ("fetch.max_bytes", "262144"),
        ("fetch.allowlist", "[]"),
        ("shell.deny", r#"["rm -rf /","rm -rf ~","mkfs","dd if=/dev/zero of=/dev/sd",":(){:|:&};:"]"#),
        ("context.compact_at", "0.9"),
        ("context.digest_at", "0.7"),
        ("context.auto_compact", "true"),
        ("context.summarize", "true"),
        ("context.rolling_state", "true"),
        ("memory.auto_reflect", "true"),
        ("memory.auto_reflect_min_tool_calls", "1"),
        ("vision.allow", "true"),
        ("audit.log", "false"),
        ("sandbox.allow_private_networks", "false"),
        ("advisor.enabled", "false"),
        ("subagents.max_depth", "2"),
        ("subagents.max_tasks", "64"),
        ("subagents.concurrency", "4"),
        ("reasoning_effort", "\"medium\""),
        ("workspace", "\"/w\""),
        ("script_plugins.dir", "\"/w/.catalyst-code/plugins\""),
        ("loader.max_pinned", "64"),
        ("loader.dispose_grace_secs", "5"),
        ("loader.reload_grace_secs", "30"),
    ];
    for (name, value) in expected {
        assert_eq!(config.get_json(name).unwrap().to_string(), value, "{name}");
    }
}

#[test]
fn wp_3_5_nested_keys_are_read() {
    let file = r#"{
        "permissions": {"allow": ["a"], "yes": ["b"], "deny": ["c"], "no": ["d"], "false": ["e"], "ask": ["f"]},
        "advisor": {"enabled": true, "subagentModel": "m"},
        "subagents": {"maxSubagentDepth": 3, "parallel": {"maxTasks": 5}, "intercomBridge": {"mode": "x"}, "agentOverrides": {"a": {"disabled": true}}},
        "plugins": {"dir": "p", "disabled": ["x"]}, "search_keys": {"exa": "k"},
        "theme": "dark", "keybinds": {}, "advisor_model": "client's own", "model": null, "provider": "x", "active_provider": ""
    }"#;
    let config = load(&[(SETTINGS, file)], &[], "");
    assert_eq!(problems(&config), "");
    let json = |name: &str| config.get_json(name).unwrap().to_string();
    assert_eq!(json("permissions.allow"), r#"["a","b"]"#);
    assert_eq!(json("permissions.deny"), r#"["c","d","e"]"#);
    assert_eq!(json("permissions.ask"), r#"["f"]"#);
    assert_eq!(json("advisor.subagent_model"), "\"m\"");
    assert_eq!(json("subagents.max_depth"), "3");
    assert_eq!(json("subagents.max_tasks"), "5");
    assert_eq!(json("subagents.overrides"), r#"{"a":{"disabled":true}}"#);
    assert_eq!(json("script_plugins.dir"), "\"/w/p\"");
    assert_eq!([json("model"), json("provider")], ["null", "null"]);
    assert_eq!(config.get(&keys::SEARCH_EXA_KEY).unwrap().expose_secret(), "k");
}

#[test]
fn wp_3_4_a_file_that_is_no_json_is_left_out() {
    let config = load(&[(CONFIG, "{\"model\": \"a\""), (SETTINGS, "{\"model\": \"b\"}"), (PROJECT, "[1]")], &[], "");
    assert_eq!(said(&config, "model"), r#""b" /h/.config/catalyst-code/settings.json:1:11 (client)"#);
    let codes: Vec<&str> = config.problems().iter().map(linn_config::Problem::code).collect();
    assert_eq!(codes, ["CONFIG_SYNTAX", "CONFIG_SYNTAX"]);
}

#[test]
fn wp_3_5_of_two_spellings_the_second_wins() {
    let providers = r#""providers": [{"name": "a", "base_url": "u"}, {"name": "b", "base_url": "u"}]"#;
    let file = format!(r#"{{"active_provider": "b", "activeProvider": "a", {providers}}}"#);
    assert_eq!(load(&[(CONFIG, &file)], &[], "").get(&keys::PROVIDER).as_deref(), Some("b"));
}

fn names(config: &Config) -> Vec<String> {
    config.get(&keys::PROVIDERS).iter().map(|it| format!("{} {}", it.name, it.base_url)).collect()
}

#[test]
fn wp_3_4_providers_accumulate_and_the_first_name_wins() {
    let config = load(
        &[
            (CONFIG, r#"{"providers": [{"name": "a", "base_url": "1"}, {"base_url": "lost"}]}"#),
            (SETTINGS, r#"{"providers": [{"name": "a", "base_url": "2"}, {"name": "b", "base_url": "2"}]}"#),
        ],
        &[("UMANS_PROVIDERS", r#"[{"name": "b", "base_url": "3"}, {"name": "c", "base_url": "3"}]"#)],
        "",
    );
    assert_eq!(names(&config), ["a 1", "b 2", "c 3"]);
    assert_eq!(config.problems().len(), 1);
}

#[test]
fn a_provider_of_the_user_file_takes_the_place_of_its_namesake() {
    let user = "[[providers]]\nname = 'a'\nbase_url = '9'\n[[providers]]\nname = 'z'\nbase_url = '9'\nbase_urls = 1";
    let config = load(
        &[
            (CONFIG, r#"{"providers": [{"name": "a", "base_url": "1"}, {"name": "b", "base_url": "1"}]}"#),
            (USER_FILE, user),
        ],
        &[],
        "",
    );
    assert_eq!(names(&config), ["a 9", "b 1", "z 9"]);
    assert_eq!(
        problems(&config),
        "/h/.config/linn/linn.toml:7:13: there is no key `providers.z.base_urls`; did you mean `base_url`?\n"
    );
    assert_eq!(config.get(&keys::PROVIDERS)[0].origin.to_string(), "/h/.config/linn/linn.toml:1:1 (user)");
}
const USER_FILE: &str = crate::USER;

#[test]
fn wp_2_3_without_providers_there_is_default() {
    let config = load(&[(CONFIG, r#"{"api_key": "k"}"#)], &[("UMANS_API_KEY", "not used")], "--base-url http://x");
    let active = config.active_provider();
    assert_eq!((active.name.as_str(), active.base_url.as_str()), ("default", "http://x"));
    assert!(matches!(config.provider_key(&active), ProviderKey::Key(it) if it.expose_secret() == "k"));
    let config = load(&[], &[("UMANS_API_KEY", "not used")], "--provider default");
    assert!(matches!(config.provider_key(&config.active_provider()), ProviderKey::Missing));
    assert!(!config.is_logged_in(&config.active_provider()));
    assert_eq!(problems(&config), "");
}

#[test]
fn wp_3_2_the_first_provider_is_active_unless_one_is_named() {
    let file = (CONFIG, r#"{"providers": [{"name": "alpha", "base_url": "1"}, {"name": "beta", "base_url": "2"}]}"#);
    assert_eq!(load(&[file], &[], "--base-url http://x").active_provider().name, "alpha");
    assert_eq!(load(&[file], &[], "--provider beta").active_provider().name, "beta");
    assert_eq!(problems(&load(&[], &[], "--provider umans")), "");
    let config = load(&[file], &[], "--provider betta");
    assert_eq!(config.active_provider().name, "alpha");
    assert_eq!(
        problems(&config),
        "--provider (client): there is no provider `betta`; configured: alpha, beta; did you mean `beta`?\n"
    );
}

#[test]
fn wp_3_5_keys_are_found_in_their_order() {
    let provider = |more: &str| format!(r#"{{"providers": [{{"name": "p", "base_url": "https://x"{more}}}]}}"#);
    let found = |files: &[(&str, &str)]| {
        let config = load(files, &[("V", "from env")], "");
        let key = match config.provider_key(&config.active_provider()) {
            ProviderKey::Key(it) => it.expose_secret().to_owned(),
            other => format!("{other:?}"),
        };
        (key, config.is_logged_in(&config.active_provider()))
    };
    let own = provider(r#", "api_key": "own", "api_key_env": "V""#);
    let keys = r#"{"provider_keys": {"p": "seeded"}}"#;
    assert_eq!(found(&[(CONFIG, &own), (SETTINGS, keys)]), ("seeded".into(), true));
    assert_eq!(found(&[(CONFIG, &own), (SETTINGS, r#"{"provider_keys": {"p": ""}}"#)]), ("own".into(), true));
    assert_eq!(found(&[(CONFIG, &provider(r#", "api_key": "", "api_key_env": "V""#))]), ("from env".into(), true));
    assert_eq!(found(&[(CONFIG, &provider(r#", "api_key_env": "UNSET""#))]), ("Missing".into(), false));
    assert_eq!(found(&[(CONFIG, &provider(r#", "api_key_env": """#))]), ("Keyless".into(), true));
    assert_eq!(found(&[(CONFIG, &provider(""))]), ("Missing".into(), false));
    let local = r#"{"providers": [{"name": "p", "base_url": "http://localhost:1"}]}"#;
    assert_eq!(found(&[(CONFIG, local)]), ("Missing".into(), true));
}

#[test]
fn wp_3_2_no_network_forces_the_network_mode() {
    let config = load(&[(SETTINGS, r#"{"sandbox": true, "sandbox_network_mode": "allowlist"}"#)], &[], "");
    assert_eq!(
        (config.get(&keys::SANDBOX_MODE), config.network_mode()),
        (SandboxMode::Microsandbox, NetworkMode::Allowlist)
    );
    assert_eq!(load(&[], &[], "--no-network --sandbox-network allowlist").network_mode(), NetworkMode::None);
}

#[test]
fn wp_3_2_debug_alone_logs_to_the_folder_of_the_clients() {
    let log = |variables: &[(&str, &str)], line: &str| {
        load(&[], variables, line).debug_log().map(|it| it.display().to_string())
    };
    let standard = Some("/h/.config/catalyst-code/debug.jsonl".to_owned());
    assert_eq!(log(&[], ""), None);
    assert_eq!(log(&[], "--debug"), standard);
    for on in ["", "1", "true"] {
        assert_eq!(log(&[("CATALYST_CODE_DEBUG", on)], ""), standard);
    }
    assert_eq!(log(&[("CATALYST_CODE_DEBUG", "0")], ""), None);
    assert_eq!(log(&[], "--debug --debug-log l.jsonl"), Some("/w/l.jsonl".into()));
    assert_eq!(log(&[], "--debug-log l.jsonl"), Some("/w/l.jsonl".into()));
}
