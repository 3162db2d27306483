//! From an assembly to text.

use linn_services::prompt::{AssembledSection, PromptAssembly, PromptError};

fn rendered(sections: &[&str], variables: &[(&str, Option<&str>)]) -> Result<Option<String>, PromptError> {
    let section =
        |(at, text): (usize, &&str)| AssembledSection { name: format!("s{at}"), order: 0, text: (*text).to_owned() };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect();
    PromptAssembly { sections: sections.iter().enumerate().map(section).collect(), tools: vec![], variables }.render()
}

fn message(text: &str) -> String {
    rendered(&[text], &[("x", Some("1")), ("gone", None)]).unwrap_err().to_string()
}

#[test]
fn sections_are_joined_by_blank_lines_and_empty_ones_left_out() {
    let text = rendered(&["a", "", "{{empty}}", "  \n", "b"], &[("empty", Some(""))]).unwrap();
    assert_eq!(text.as_deref(), Some("a\n\nb"));
    assert_eq!(rendered(&["", "{{empty}}"], &[("empty", Some(""))]).unwrap(), None);
    assert_eq!(rendered(&[], &[]).unwrap(), None);
}

#[test]
fn variables_are_put_in() {
    let text = rendered(&["{{model}} in {{cwd}}, {{model}}"], &[("model", Some("m1")), ("cwd", Some("/w"))]).unwrap();
    assert_eq!(text.as_deref(), Some("m1 in /w, m1"));
}

#[test]
fn sp_05_a_name_that_there_is_not() {
    let error = rendered(&["ok", "a {{constructor}}"], &[]).unwrap_err();
    assert_eq!(error.code(), "PROMPT_VARIABLE");
    assert_eq!(error.to_string(), "section `s1` names the variable `constructor`, which does not exist");
}

#[test]
fn sp_05_a_value_that_is_missing() {
    assert_eq!(message("{{gone}}"), "section `s0` names the variable `gone`, which has no value here");
}

#[test]
fn sp_05_groups_that_are_no_variable() {
    for (text, found) in [
        ("{{ x }}", "{{ x }}"),
        ("{{{x}}}", "{{{x}}"),
        ("{{X}}", "{{X}}"),
        ("{{}}", "{{}}"),
        ("{{1x}}", "{{1x}}"),
        ("lone {{ then {{x}}", "{{ then {{x}}"),
    ] {
        assert_eq!(message(text), format!("section `s0` holds `{found}`, which is no variable; write `{{{{name}}}}`"));
    }
}

#[test]
fn sp_05_lone_braces_stay() {
    for text in ["a {{ b", "a }} b", "{x}", "{{x", "f(){ if (1) { 2 } }"] {
        assert_eq!(rendered(&[text], &[("x", Some("1"))]).unwrap().as_deref(), Some(text));
    }
    assert_eq!(rendered(&["{{x}} {{ b"], &[("x", Some("1"))]).unwrap().as_deref(), Some("1 {{ b"));
}

#[test]
fn sp_06_what_was_put_in_is_not_looked_at_again() {
    let text = rendered(&["<{{x}}>"], &[("x", Some("{{y}} {{ z }}")), ("y", Some("no"))]).unwrap();
    assert_eq!(text.as_deref(), Some("<{{y}} {{ z }}>"));
    // Braces that only come together by what was put in are no group.
    assert_eq!(rendered(&["{{x}}y}}"], &[("x", Some("{{"))]).unwrap().as_deref(), Some("{{y}}"));
}
