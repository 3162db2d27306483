//! Checks what stands in a file, a variable or a flag against the declaration of its key.

use indexmap::IndexMap;
use secrecy::SecretString;

use crate::key::{Declaration, Kind};
use crate::node::{Data, NOT_SHOWN, Node};
use crate::origin::Origin;
use crate::problem::{Problem, nearest};
use crate::provider;
use crate::value::{Choice, Value};

/// How much a source may stray from the declared form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Linn's own files: the declared form and no other.
    Exact,
    /// Linn's own variables and flags: everything is text.
    Text,
    /// Sources of existing clients: aliases, numbers as text, switches as words, numbers outside the range moved into
    /// it.
    Client,
}

/// What became of a value. Both may be there: a value that was mended comes with what was wrong.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) value: Option<Value>,
    pub(crate) problems: Vec<Problem>,
}

impl Checked {
    fn right(value: Value) -> Self {
        Self { value: Some(value), problems: Vec::new() }
    }

    fn wrong(problem: Problem) -> Self {
        Self { value: None, problems: vec![problem] }
    }
}

/// Checks `node` as a value of the key, which is set at `origin`.
pub(crate) fn check(key: &Declaration, node: &Node, origin: &Origin, form: Form) -> Checked {
    let wrong = |similar| Checked::wrong(wrong_value(key, node, similar));
    let found = match key.kind {
        Kind::Bool => as_bool(node, form).map(Value::Bool),
        Kind::Integer { min, max } => match as_integer(node, form) {
            Some(it) if (min..=max).contains(&it) => Some(Value::Integer(it)),
            Some(it) if form == Form::Client => {
                let problems = vec![wrong_value(key, node, None)];
                return Checked { value: Some(Value::Integer(it.clamp(min, max))), problems };
            }
            _ => None,
        },
        Kind::Number { min, is_open, max } => {
            let is_in = |it: &f64| *it <= max && if is_open { *it > min } else { *it >= min };
            as_number(node, form).filter(is_in).map(Value::Number)
        }
        Kind::Text => as_text(node).map(|it| Value::Text(it.to_owned())),
        Kind::Path { .. } => as_text(node).map(|it| Value::Path(it.into())),
        Kind::Choice { choices, otherwise } => return as_choice(key, choices, otherwise, node, form),
        Kind::List => as_list(node, form).map(Value::List),
        Kind::Rules => return as_rules(key, node, form),
        Kind::Secret => as_text(node).map(|it| Value::Secret(SecretString::from(it))),
        Kind::Secrets => return as_secrets(key, node),
        Kind::Providers => return as_providers(key, node, origin),
        Kind::Table => matches!(node.data, Data::Table(_)).then(|| Value::Table(node.to_json())),
    };
    found.map_or_else(|| wrong(None), Checked::right)
}

fn wrong_value(key: &Declaration, node: &Node, similar: Option<String>) -> Problem {
    let value = if key.is_secret() { NOT_SHOWN.to_owned() } else { node.shown() };
    Problem::WrongValue {
        place: node.place.clone(),
        key: key.name.to_owned(),
        value: value.into(),
        expected: key.expected().into(),
        similar,
    }
}

/// What a source of this form says of the key, as it may be shown.
pub(crate) fn shown(key: &Declaration, node: &Node) -> String {
    match (&node.data, key.kind) {
        (_, Kind::Secret) => NOT_SHOWN.to_owned(),
        (Data::Table(fields), Kind::Secrets) => {
            let names: Vec<String> = fields.keys().map(|name| format!("{name} = {NOT_SHOWN}")).collect();
            format!("{{{}}}", names.join(", "))
        }
        (_, Kind::Secrets) => NOT_SHOWN.to_owned(),
        // Their other fields may be anybody's.
        (Data::List(items), Kind::Providers) => {
            let name = |it: &Node| it.field("name").map_or("?".to_owned(), Node::shown);
            format!("[{}]", items.iter().map(name).collect::<Vec<_>>().join(", "))
        }
        _ => node.shown(),
    }
}

fn as_bool(node: &Node, form: Form) -> Option<bool> {
    match &node.data {
        Data::Bool(it) => Some(*it),
        Data::Integer(it @ (0 | 1)) if form == Form::Client => Some(*it == 1),
        Data::Text { value, .. } if form != Form::Exact => match value.trim().to_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => Some(true),
            "0" | "false" | "off" | "no" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn as_integer(node: &Node, form: Form) -> Option<u64> {
    match &node.data {
        Data::Integer(it) => u64::try_from(*it).ok(),
        Data::Text { value, .. } if form != Form::Exact => value.trim().parse().ok(),
        _ => None,
    }
}

fn as_number(node: &Node, form: Form) -> Option<f64> {
    match &node.data {
        // Any integer that a range here admits is a small one.
        #[expect(clippy::cast_precision_loss, reason = "ranges of numbers end below 2^53")]
        Data::Integer(it) => Some(*it as f64),
        Data::Number(it) => Some(*it),
        Data::Text { value, .. } if form != Form::Exact => value.trim().parse().ok(),
        _ => None,
    }
}

fn as_text(node: &Node) -> Option<&str> {
    node.as_text().filter(|it| !it.trim().is_empty())
}

fn as_choice(
    key: &Declaration,
    choices: &'static [Choice],
    otherwise: Option<&'static str>,
    node: &Node,
    form: Form,
) -> Checked {
    let text = match &node.data {
        Data::Text { value, .. } => Some(value.trim().to_owned()),
        Data::Bool(it) if form == Form::Client => Some(it.to_string()),
        _ => None,
    };
    let named = |it: &&Choice, name: &str| match form {
        Form::Client => it.name.eq_ignore_ascii_case(name) || it.aliases.iter().any(|a| a.eq_ignore_ascii_case(name)),
        Form::Exact | Form::Text => it.name == name,
    };
    let Some(text) = text else {
        return Checked::wrong(wrong_value(key, node, None));
    };
    if let Some(choice) = choices.iter().find(|it| named(it, &text)) {
        return Checked::right(Value::Text(choice.name.to_owned()));
    }
    let is_alias = |it: &&Choice| it.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(&text));
    let similar = choices.iter().find(is_alias).map(|it| it.name.to_owned());
    let problem = wrong_value(key, node, similar.or_else(|| nearest(&text, choices.iter().map(|it| it.name))));
    let value = otherwise.filter(|_| form == Form::Client).map(|it| Value::Text(it.to_owned()));
    Checked { value, problems: vec![problem] }
}

fn as_list(node: &Node, form: Form) -> Option<Vec<String>> {
    match &node.data {
        Data::List(items) => items.iter().map(|it| it.as_text().map(str::to_owned)).collect(),
        Data::Text { value, .. } if form != Form::Exact => {
            Some(value.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect())
        }
        _ => None,
    }
}

fn as_rules(key: &Declaration, node: &Node, form: Form) -> Checked {
    let Some(rules) = as_list(node, form) else { return Checked::wrong(wrong_value(key, node, None)) };
    let problem = |at: usize, rule: &str| {
        let place = match &node.data {
            Data::List(items) => items[at].place.clone(),
            _ => node.place.clone(),
        };
        wrong_value(key, &Node::text(rule, place), None)
    };
    let wrong = rules.iter().enumerate().filter(|(_, rule)| !is_rule(rule));
    let problems = wrong.map(|(at, rule)| problem(at, rule)).collect();
    Checked { value: Some(Value::List(rules)), problems }
}

/// Whether a text is `tool` or `tool(pattern)`.
fn is_rule(text: &str) -> bool {
    let (tool, is_closed) = match text.trim().split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.ends_with(')')),
        None => (text.trim(), true),
    };
    is_closed && !tool.is_empty() && !tool.contains([' ', '\t', '\n', ')'])
}

fn as_secrets(key: &Declaration, node: &Node) -> Checked {
    let Data::Table(fields) = &node.data else {
        return Checked::wrong(wrong_value(key, node, None));
    };
    let mut secrets = IndexMap::new();
    let mut problems = Vec::new();
    for (name, field) in fields {
        match field.as_text() {
            // An empty key is how clients say that there is none.
            Some("") => {}
            Some(text) => {
                secrets.insert(name.clone(), SecretString::from(text));
            }
            None => problems.push(Problem::WrongValue {
                place: field.place.clone(),
                key: format!("{}.{name}", key.name),
                value: NOT_SHOWN.into(),
                expected: "text".into(),
                similar: None,
            }),
        }
    }
    Checked { value: Some(Value::Secrets(secrets)), problems }
}

fn as_providers(key: &Declaration, node: &Node, origin: &Origin) -> Checked {
    let Data::List(items) = &node.data else {
        return Checked::wrong(wrong_value(key, node, None));
    };
    let mut providers = Vec::new();
    let mut problems = Vec::new();
    for item in items {
        let origin = Origin::new(origin.layer, item.place.clone());
        if let Some(it) = provider::read(item, origin, &mut problems) {
            providers.push(it);
        }
    }
    Checked { value: Some(Value::Providers(providers)), problems }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::origin::{Layer, Place};

    /// Checks `json` as a value of `key`, and shows the outcome: the value, then each problem.
    fn outcome(key: &str, form: Form, json: &str) -> String {
        let key = keys::all()[keys::index_of(key).expect("a key")];
        let node = Node::from_json(&serde_json::from_str(json).expect("JSON"), &Place::BuiltIn);
        let origin = Origin::new(Layer::User, Place::BuiltIn);
        let checked = check(key, &node, &origin, form);
        let value = checked.value.map_or("-".to_owned(), |it| it.to_json().to_string());
        let problems = checked.problems.iter().map(|it| format!(" | {it}"));
        value + &problems.collect::<String>()
    }

    #[test]
    fn linn_files_take_the_declared_form_only() {
        let exact = |key, json| outcome(key, Form::Exact, json);
        assert_eq!(exact("shell.timeout_secs", "60"), "60");
        assert_eq!(
            exact("shell.timeout_secs", "\"60\""),
            "- | built-in default: `shell.timeout_secs` cannot be \"60\"; it is a whole number from 1 on"
        );
        assert_eq!(
            exact("sandbox.cpus", "99"),
            "- | built-in default: `sandbox.cpus` cannot be 99; it is a whole number from 1 to 16"
        );
        assert_eq!(
            exact("approval", "\"alway\""),
            "- | built-in default: `approval` cannot be \"alway\"; it is one of `never`, `destructive`, `always`; did you mean `always`?"
        );
        assert_eq!(
            exact("sandbox.mode", "\"msb\""),
            "- | built-in default: `sandbox.mode` cannot be \"msb\"; it is one of `none`, `microsandbox`; did you mean `microsandbox`?"
        );
        assert_eq!(exact("context.compact_at", "0.95"), "0.95");
        assert!(exact("context.compact_at", "0").starts_with("- | "));
        assert_eq!(exact("context.digest_at", "0"), "0.0");
        assert!(exact("context.auto_compact", "\"true\"").starts_with("- | "));
        assert!(exact("model", "\" \"").starts_with("- | "));
        assert_eq!(exact("shell.deny", "[\"a\", \"b\"]"), r#"["a","b"]"#);
        assert!(exact("shell.deny", "[\"a\", 1]").starts_with("- | "));
    }

    #[test]
    fn wp_3_2_clients_may_write_approval_as_they_do() {
        let client = |json| outcome("approval", Form::Client, json);
        for never in ["\"never\"", "\"off\"", "\"none\"", "\"auto\""] {
            assert_eq!(client(never), r#""never""#);
        }
        for always in ["\"always\"", "\"all\"", "\"y\"", "\"ALWAYS\""] {
            assert_eq!(client(always), r#""always""#);
        }
        assert!(client("\"whatever\"").starts_with(r#""destructive" | "#), "{}", client("\"whatever\""));
    }

    #[test]
    fn wp_3_2_clients_may_write_the_sandbox_as_they_do() {
        let client = |json: &str| outcome("sandbox.mode", Form::Client, json);
        let aliases = ["msb", "on", "true", "enabled", "firejail", "fj", "seatbelt", "macos", "sandbox-exec"];
        for alias in aliases {
            assert_eq!(client(&format!("{alias:?}")), r#""microsandbox""#);
        }
        assert_eq!(client("true"), r#""microsandbox""#);
        assert_eq!(client("false"), r#""none""#);
        assert!(client("\"jail\"").starts_with("- | "));
    }

    #[test]
    fn wp_3_1_clients_may_write_numbers_and_switches_as_text() {
        let client = |key, json| outcome(key, Form::Client, json);
        assert_eq!(client("shell.timeout_secs", "\"60\""), "60");
        assert!(client("shell.timeout_secs", "\"soon\"").starts_with("- | "));
        for on in ["true", "1", "\"1\"", "\"true\"", "\"on\""] {
            assert_eq!(client("context.auto_compact", on), "true");
        }
        for off in ["false", "0", "\"0\"", "\"false\"", "\"off\""] {
            assert_eq!(client("context.auto_compact", off), "false");
        }
        assert_eq!(client("fetch.allowlist", "\"a.org, b.org,\""), r#"["a.org","b.org"]"#);
    }

    #[test]
    fn wp_3_2_numbers_of_clients_are_moved_into_their_range() {
        let client = |key, json| outcome(key, Form::Client, json);
        assert!(client("diagnostics.timeout_secs", "2").starts_with("5 | "));
        assert!(client("stream.idle_timeout_secs", "1").starts_with("10 | "));
        assert!(client("sandbox.cpus", "99").starts_with("16 | "));
        assert!(client("sandbox.memory_mb", "1").starts_with("256 | "));
        assert!(client("sandbox.cpus", "-1").starts_with("- | "));
    }

    #[test]
    fn problems_show_no_secret() {
        for (key, json) in
            [("api_key", "[\"hidden\"]"), ("provider_keys", "\"hidden\""), ("provider_keys", "{\"a\":[\"hidden\"]}")]
        {
            let outcome = outcome(key, Form::Client, json);
            assert!(!outcome.contains("hidden") && outcome.contains(NOT_SHOWN), "{outcome}");
        }
    }
}
