//! What commands change while the program runs.

use linn_config::{Config, ExposeSecret, Provider, ProviderKey, ProviderKind, SecretString, keys};
use serde_json::{Value as Json, json};

use crate::{CONFIG, USER, built_in, load, problems, said, sources};

fn set_config(config: &mut Config, key: &str, value: &Json) -> String {
    match config.set_by_client_name(key, value) {
        Ok(value) => value.to_string(),
        Err(problem) => problem.to_string(),
    }
}

#[test]
fn wp_4_5_set_config_knows_its_keys_and_coerces() {
    let mut config = load(&[(USER, "shell.timeout_secs = 5")], &[], "--set context.auto_compact=false");
    let mut set = |key: &str, value: Json| set_config(&mut config, key, &value);
    assert_eq!(set("bash_timeout_secs", json!(60)), "60");
    assert_eq!(set("bash_timeout_secs", json!("61")), "61");
    for (value, expected) in
        [("1", "true"), ("off", "false"), ("0", "false"), ("on", "true"), ("false", "false"), ("true", "true")]
    {
        assert_eq!(set("auto_compact", json!(value)), expected);
    }
    assert_eq!(set("sandbox", json!(true)), "\"microsandbox\"");
    assert_eq!(set("sandbox", json!("none")), "\"none\"");
    assert_eq!(set("advisor.enabled", json!(true)), "true");
    assert_eq!(set("advisor.model", json!("m")), "\"m\"");
    assert_eq!(set("advisor.model", json!(" ")), "null");
    assert_eq!(set("advisor.subagents", json!(true)), "true");
    assert_eq!(set("advisor.subagent_model", json!("n")), "\"n\"");
    assert_eq!(said(&config, "shell.timeout_secs"), "61 command set_config (runtime)");
    assert_eq!(said(&config, "context.auto_compact"), "true command set_config (runtime)");
    assert_eq!(said(&config, "advisor.model"), "null command set_config (runtime)");
}

#[test]
fn wp_4_5_set_config_leaves_the_setting_when_it_cannot_coerce() {
    let mut config = load(&[], &[], "");
    let problem = set_config(&mut config, "bash_timeout_secs", &json!("soon"));
    assert_eq!(problem, "command set_config: `shell.timeout_secs` cannot be \"soon\"; it is a whole number from 1 on");
    assert_eq!(said(&config, "shell.timeout_secs"), "30 built-in default");
    let unknown = set_config(&mut config, "bash_timeout", &json!(1));
    assert_eq!(unknown, "command set_config: there is no key `bash_timeout`; did you mean `bash_timeout_secs`?");
    assert!(set_config(&mut config, "approval", &json!("never")).contains("there is no key"));
}

#[test]
fn wp_4_5_set_approval_is_lenient() {
    let mut config = load(&[(USER, "approval = 'always'")], &[], "");
    let mut set = |mode: &str| config.set("approval", &json!(mode), "set_approval").unwrap();
    assert_eq!([set("never"), set("always"), set("whatever")], [json!("never"), json!("always"), json!("destructive")]);
    assert_eq!(said(&config, "approval"), r#""destructive" command set_approval (runtime)"#);
}

#[test]
fn wp_4_4_set_provider_turns_an_unknown_one_down() {
    let mut config = load(
        &[(CONFIG, r#"{"providers": [{"name": "a", "base_url": "1"}, {"name": "b", "base_url": "2"}]}"#)],
        &[],
        "",
    );
    config.set("provider", &json!("b"), "set_provider").unwrap();
    assert_eq!(config.active_provider().name, "b");
    let problem = config.set("provider", &json!("c"), "set_provider").unwrap_err();
    assert_eq!(problem.code(), "CONFIG_UNKNOWN_PROVIDER");
    assert_eq!(config.active_provider().name, "b");
}

#[test]
fn wp_4_4_set_key_wins_until_it_is_blank() {
    let mut config = load(&[(CONFIG, r#"{"providers": [{"name": "a", "base_url": "1", "api_key": "own"}]}"#)], &[], "");
    let key = |config: &Config| match config.provider_key(&config.active_provider()) {
        ProviderKey::Key(it) => it.expose_secret().to_owned(),
        other => format!("{other:?}"),
    };
    config.set_provider_key("a", SecretString::from("set"));
    assert_eq!(key(&config), "set");
    config.set_provider_key("a", SecretString::from(""));
    assert_eq!(key(&config), "own");
}

#[test]
fn providers_come_and_go_and_survive_a_reload() {
    let names = |config: &Config| config.get(&keys::PROVIDERS).into_iter().map(|it| it.name).collect::<Vec<_>>();
    let file = (CONFIG, r#"{"providers": [{"name": "a", "base_url": "1"}]}"#);
    let mut config = load(&[file], &[], "");
    config.put_provider(Provider::new("b", "2", ProviderKind::Anthropic));
    config.set_provider_key("b", SecretString::from("k"));
    config.set("provider", &json!("b"), "login").unwrap();
    assert!(config.remove_provider("a"));
    assert!(!config.remove_provider("c"));
    assert_eq!(names(&config), ["b"]);

    let config = config.reloaded(sources(&[file, (USER, "model = 'm'\nprovider = 'a'")], &[], ""), &built_in());
    assert_eq!(names(&config), ["b"]);
    assert_eq!(config.active_provider().name, "b");
    assert!(matches!(config.provider_key(&config.active_provider()), ProviderKey::Key(_)));
    let listed: Vec<String> =
        config.listing().iter().filter(|it| it.key.name.starts_with("provider")).map(|it| it.shown.clone()).collect();
    assert_eq!(listed, ["\"b\"", "{b = (not shown)}", "[\"b\"]"]);
    assert_eq!(said(&config, "model"), r#""m" /h/.config/linn/linn.toml:1:9 (user)"#);
    assert_eq!(problems(&config), "");

    let mut config = config;
    config.put_provider(Provider::new("a", "3", ProviderKind::OpenAi));
    assert_eq!(names(&config), ["b", "a"]);
}

#[test]
fn set_says_what_is_wrong_and_changes_nothing() {
    let mut config = load(&[], &[], "");
    let problem = config.set("modle", &json!("m"), "x").unwrap_err();
    assert_eq!(problem.to_string(), "command x: there is no key `modle`; did you mean `model`?");
    assert!(config.set("shell.deny", &json!([1]), "x").is_err());
    config.set("session.file", &json!("s.jsonl"), "x").unwrap();
    assert_eq!(said(&config, "session.file"), r#""/w/s.jsonl" command x (runtime)"#);
    config.set("session.file", &Json::Null, "x").unwrap();
    assert_eq!(config.get(&keys::SESSION_FILE), None);
}
