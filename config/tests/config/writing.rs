//! Writing back: to the files of existing clients, and to the user file.

use linn_config::{
    ClientFiles, Config, EntryChange, Provider, ProviderChange, ProviderKind, SearchService, SecretString, Sources,
    UserFile, Vision, keys,
};
use serde_json::json;

use crate::{CONFIG, USER, built_in, problems, said, sources};

fn text(sources: &Sources, path: &str) -> String {
    sources.files.read(path.as_ref()).unwrap()
}

fn provider(name: &str) -> Provider {
    Provider { api_key: Some(SecretString::from("k")), ..Provider::new(name, "https://x", ProviderKind::OpenAi) }
}

#[test]
fn wp_3_4_a_login_keeps_all_other_fields_of_config_json() {
    let before = r#"{
  "theme": "dark", // as it was
  "providers": [
    { "name": "a", "baseUrl": "old", "apiKey": "old", "models_endpoint": "/m", "note": [1] },
    {"name":"b","base_url":"b"}
  ],
  "activeProvider": "b",
  "n": 1.50
}
"#;
    let sources = sources(&[(CONFIG, before)], &[], "");
    let change = ProviderChange {
        put: vec![Provider { models_endpoint: Some("/m".into()), ..provider("a") }, provider("c")],
        active: Some("a".into()),
        ..ProviderChange::default()
    };
    let path = ClientFiles::new(&sources).change_providers(&change).unwrap();
    assert_eq!(path, std::path::Path::new(CONFIG));
    let after = text(&sources, CONFIG);
    assert!(after.contains("\"theme\": \"dark\", // as it was") && after.contains("\"n\": 1.50"), "{after}");
    assert!(after.contains(r#"{"name":"b","base_url":"b"}"#), "{after}");
    let config = Config::load(sources, &[]);
    assert_eq!(problems(&config), "");
    let stored: Vec<String> = config
        .get(&keys::PROVIDERS)
        .iter()
        .map(|it| format!("{} {} {:?} {}", it.name, it.base_url, it.models_endpoint, json!(it.others)))
        .collect();
    assert_eq!(stored, [r#"a https://x Some("/m") {"note":[1]}"#, r#"b b None {}"#, r#"c https://x None {}"#]);
    assert_eq!(config.active_provider().name, "a");
    assert!(!after.contains("old"), "{after}");
}

#[test]
fn wp_3_4_config_json_is_made_where_there_is_none() {
    let sources = sources(&[], &[], "");
    let change = ProviderChange { put: vec![provider("a")], ..ProviderChange::default() };
    ClientFiles::new(&sources).change_providers(&change).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text(&sources, CONFIG)).unwrap();
    let stored = json!({"name": "a", "base_url": "https://x", "kind": "openai", "api_key": "k"});
    assert_eq!(file, json!({"providers": [stored], "activeProvider": "a"}));
}

#[test]
fn wp_4_4_a_logout_leaves_the_first_that_remains_active() {
    let before = r#"{"providers": [{"name": "a", "base_url": "u"}, {"name": "a2", "base_url": "u"}, {"name": "b", "base_url": "u"}], "activeProvider": "a", "active_provider": "a"}"#;
    let sources = sources(&[(CONFIG, before)], &[], "");
    let files = ClientFiles::new(&sources);
    files
        .change_providers(&ProviderChange { remove: vec!["a".into(), "a2".into()], ..ProviderChange::default() })
        .unwrap();
    let config = Config::load(sources.clone(), &[]);
    assert_eq!(config.active_provider().name, "b");
    assert_eq!(problems(&config), "");
    files.change_providers(&ProviderChange { remove: vec!["b".into()], ..ProviderChange::default() }).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text(&sources, CONFIG)).unwrap();
    assert_eq!(file, json!({"providers": []}));
}

#[test]
fn wp_4_4_search_keys_are_kept_in_config_json() {
    let sources = sources(&[(CONFIG, r#"{"search_keys": {"tavily": "t"}, "x": 1}"#)], &[], "");
    let files = ClientFiles::new(&sources);
    assert_eq!(SearchService::from_name(" EXA "), Some(SearchService::Exa));
    assert_eq!(SearchService::from_name("bing"), None);
    files.set_search_key(SearchService::Exa, Some(&SecretString::from("e"))).unwrap();
    files.set_search_key(SearchService::Tavily, None).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text(&sources, CONFIG)).unwrap();
    assert_eq!(file, json!({"search_keys": {"exa": "e"}, "x": 1}));
}

#[test]
fn wp_4_5_vision_settings_are_kept_in_the_workspace() {
    let sources = sources(&[("/w/.catalyst-code/vision.json", r#"{"enabled": false, "extra": 1}"#)], &[], "");
    let files = ClientFiles::new(&sources);
    assert_eq!(files.vision("/v".as_ref()).unwrap(), None);
    assert_eq!(files.vision("/w".as_ref()).unwrap(), Some(Vision { is_enabled: false, ..Vision::default() }));
    let vision = Vision { is_enabled: true, vision_models: vec!["m".into()], vision_model: Some("m".into()) };
    files.set_vision("/w".as_ref(), &vision).unwrap();
    assert_eq!(files.vision("/w".as_ref()).unwrap(), Some(vision.clone()));
    files.set_vision("/w".as_ref(), &Vision { vision_model: Some(String::new()), ..vision }).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text(&sources, "/w/.catalyst-code/vision.json")).unwrap();
    assert_eq!(file, json!({"enabled": true, "vision_models": ["m"], "vision_model": null, "extra": 1}));
}

#[test]
fn a_file_that_cannot_be_read_is_not_written() {
    for broken in ["{\"providers\": [", "[]", "{\"a\": 1} {"] {
        let sources = sources(&[(CONFIG, broken)], &[], "");
        let problem = ClientFiles::new(&sources).change_providers(&ProviderChange::default()).unwrap_err();
        assert_eq!(problem.code(), "CONFIG_SYNTAX");
        assert_eq!(text(&sources, CONFIG), broken);
    }
    let sources = sources(&[(USER, "a = ")], &[], "");
    let problem = UserFile::new(&sources).unwrap().set("model", &json!("m")).unwrap_err();
    assert_eq!(problem.code(), "CONFIG_SYNTAX");
    assert_eq!(text(&sources, USER), "a = ");
    let homeless = Sources { home: None, ..sources };
    assert_eq!(UserFile::new(&homeless).unwrap_err().code(), "CONFIG_NO_HOME");
    assert_eq!(
        ClientFiles::new(&homeless).change_providers(&ProviderChange::default()).unwrap_err().code(),
        "CONFIG_NO_HOME"
    );
}

/// Writes to a user file and compares what is there afterwards.
#[track_caller]
fn check(before: &str, write: impl FnOnce(&UserFile<'_>), after: &str) {
    let sources = sources(&[(USER, before)], &[], "");
    write(&UserFile::new(&sources).unwrap());
    assert_eq!(text(&sources, USER), after);
    assert_eq!(problems(&Config::load(sources, &built_in())), "");
}

#[test]
fn keys_are_set_and_comments_stay() {
    check(
        "# mine\nmodel = 'a' # why\n\n[shell] # sh\n# secs\ntimeout_secs = 5\n",
        |file| {
            file.set("model", &json!("b")).unwrap();
            file.set("shell.timeout_secs", &json!(6)).unwrap();
            file.set("shell.deny", &json!(["x"])).unwrap();
            file.set("approval", &json!("always")).unwrap();
        },
        "# mine\nmodel = \"b\" # why\napproval = \"always\"\n\n[shell] # sh\n# secs\ntimeout_secs = 6\ndeny = [\"x\"]\n",
    );
    check(
        "shell.timeout_secs = 5\n",
        |file| file.set("shell.deny", &json!([])).unwrap(),
        "shell.timeout_secs = 5\nshell.deny = []\n",
    );
    check(
        "shell = { timeout_secs = 5 }\n",
        |file| file.set("shell.timeout_secs", &json!(7)).unwrap(),
        "shell = { timeout_secs = 7 }\n",
    );
    check("", |file| file.set("sandbox.cpus", &json!(4)).unwrap(), "[sandbox]\ncpus = 4\n");
    check("", |file| file.set("context.compact_at", &json!(0.5)).unwrap(), "[context]\ncompact_at = 0.5\n");
}

#[test]
fn keys_are_unset() {
    check(
        "model = 'a'\n# s\n[shell]\ntimeout_secs = 5\ndeny = []\n",
        |file| {
            file.unset("model").unwrap();
            file.unset("shell.timeout_secs").unwrap();
            file.unset("sandbox.cpus").unwrap();
            file.set("shell.program", &serde_json::Value::Null).unwrap_err();
        },
        "# s\n[shell]\ndeny = []\n",
    );
}

#[test]
fn wrong_values_are_not_written() {
    let sources = sources(&[(USER, "# mine\n")], &[], "");
    let file = UserFile::new(&sources).unwrap();
    let code = |name: &str, value: serde_json::Value| file.set(name, &value).unwrap_err().code();
    assert_eq!(code("modle", json!("m")), "CONFIG_UNKNOWN_KEY");
    assert_eq!(code("shell", json!({})), "CONFIG_UNKNOWN_KEY");
    assert_eq!(code("sandbox.cpus", json!(99)), "CONFIG_WRONG_VALUE");
    assert_eq!(code("script_plugins.trust_project", json!(true)), "CONFIG_NOT_FOR_FILES");
    assert_eq!(file.unset("modle").unwrap_err().code(), "CONFIG_UNKNOWN_KEY");
    let no_table = EntryChange { config: Some(json!([1])), ..EntryChange::default() };
    assert_eq!(file.change_entry("git", &no_table).unwrap_err().code(), "CONFIG_ENTRY");
    assert_eq!(text(&sources, USER), "# mine\n");
}

fn disabled(it: bool) -> EntryChange {
    EntryChange { disabled: Some(it), ..EntryChange::default() }
}

#[test]
fn entries_are_changed_in_either_form_of_the_list() {
    check(
        "# p\n[[plugins]]\nid = 'git' # g\ndisabled = false # d\n",
        |file| file.change_entry("git", &disabled(true)).unwrap(),
        "# p\n[[plugins]]\nid = 'git' # g\ndisabled = true # d\n",
    );
    check(
        "plugins = [{ id = 'git' }]\n",
        |file| file.change_entry("git", &disabled(true)).unwrap(),
        "plugins = [{ id = 'git' , disabled = true }]\n",
    );
    check(
        "",
        |file| file.change_entry("web", &disabled(true)).unwrap(),
        "[[plugins]]\nid = \"web\"\ndisabled = true\n",
    );
    let new = EntryChange {
        plugin: Some("notes".into()),
        config: Some(json!({"a": {"b": 1}, "c": null})),
        ..EntryChange::default()
    };
    check(
        "[[plugins]]\nid = 'git'\n",
        |file| file.change_entry("notes", &new).unwrap(),
        "[[plugins]]\nid = 'git'\n\n[[plugins]]\nid = \"notes\"\nplugin = \"notes\"\n\n[plugins.config]\na = { b = 1 }\n",
    );
}

#[test]
fn entries_are_removed() {
    check(
        "[[plugins]]\nid = 'git'\n[[plugins]]\nid = 'web'\n",
        |file| {
            assert!(file.remove_entry("git").unwrap());
            assert!(!file.remove_entry("git").unwrap());
        },
        "[[plugins]]\nid = 'web'\n",
    );
    check(
        "plugins = [{ id = 'git' }, { id = 'web' }]\n",
        |file| assert!(file.remove_entry("web").unwrap()),
        "plugins = [{ id = 'git' }]\n",
    );
    check("model = 'm'\n", |file| assert!(!file.remove_entry("git").unwrap()), "model = 'm'\n");
}

#[test]
fn what_is_written_is_what_is_read() {
    let sources = sources(&[], &[], "");
    let file = UserFile::new(&sources).unwrap();
    file.set("provider_keys", &json!({"p": "k"})).unwrap();
    file.set("providers", &json!([{"name": "p", "base_url": "u", "models_override": [{"id": "m", "max_tokens": 5}]}]))
        .unwrap();
    file.set("provider", &json!("p")).unwrap();
    file.change_entry(
        "git",
        &EntryChange { config: Some(json!({"a": [1, "x", {"y": 1.5}]})), ..EntryChange::default() },
    )
    .unwrap();
    let config = Config::load(sources.clone(), &built_in());
    assert_eq!(problems(&config), "");
    assert_eq!(config.tree().get("git").unwrap().config.to_json(), json!({"a": [1, "x", {"y": 1.5}]}));
    assert_eq!(config.active_provider().models[0].id, "m");
    assert!(said(&config, "provider").ends_with("(user)"));
}
