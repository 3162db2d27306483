//! What a command finds in its environment.
//!
//! It is the environment of the harness without secrets, then what keeps programs from waiting for a human who is not there
//! (`GIT_TERMINAL_PROMPT=0`, pagers off, a plain terminal), then what the config sets, then what the call sets, then the
//! variable by which what was started is found again.

use std::collections::BTreeMap;
use std::ffi::OsString;

use linn_services::secrets::SecretKeeper;

use crate::config::EnvironmentConfig;

/// Names of variables that are taken for secrets.
const SECRETS: &[&str] = &[
    "*_KEY",
    "*_KEYS",
    "*APIKEY",
    "*APIKEYS",
    "*TOKEN",
    "*TOKENS",
    "*SECRET",
    "*SECRETS",
    "*PASSWORD",
    "*PASSWD",
    "*_PASS",
    "*PASSPHRASE",
    "*CREDENTIALS",
    "*_PAT",
    "*_AUTH",
    "DATABASE_URL",
    "*_DSN",
];

/// Names of variables that are the harness's own: commands do not see them, but what they hold is no secret.
const OWN: &str = "LINN_*";

/// Variables whose values are configuration of the harness with keys inside.
const KEYS_INSIDE: &[&str] = &["UMANS_PROVIDERS"];

/// Nothing runs without these, whatever stands in them.
const NEEDED: &[&str] = &["HOME", "PATH"];

/// For programs that would show a page or ask a question.
const CALM: &[(&str, &str)] = &[("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0"), ("PAGER", "cat"), ("TERM", "dumb")];

/// What goes from the environment of the harness to that of commands.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    config: EnvironmentConfig,
}

/// Variables by name.
pub(crate) type Variables = BTreeMap<OsString, OsString>;

impl Environment {
    pub(crate) fn new(config: &EnvironmentConfig) -> Self {
        Self { config: config.clone() }
    }

    /// Whether what the variable holds is a secret.
    fn is_secret(&self, name: &str) -> bool {
        let looks_secret = SECRETS.iter().any(|it| matches(it, name)) || any(&self.config.secret, name);
        looks_secret && !any(&self.config.keep, name)
    }

    /// Whether commands do not see the variable.
    fn is_hidden(&self, name: &str) -> bool {
        let is_own = matches(OWN, name) || KEYS_INSIDE.iter().any(|it| matches(it, name));
        self.is_secret(name) || (is_own && !any(&self.config.keep, name))
    }

    /// What commands get of the environment of the harness: nothing in which a secret that is known stands, unless the
    /// config keeps it.
    pub(crate) fn of_commands(
        &self,
        own: impl IntoIterator<Item = (OsString, OsString)>,
        secrets: &SecretKeeper,
    ) -> Variables {
        let is_shown = |(name, value): &(OsString, OsString)| {
            let name = name.to_string_lossy();
            let is_kept = NEEDED.contains(&&*name) || any(&self.config.keep, &name);
            !self.is_hidden(&name) && (is_kept || !secrets.is_in(&value.to_string_lossy()))
        };
        let mut variables: Variables = own.into_iter().filter(is_shown).collect();
        variables.extend(CALM.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        variables.extend(self.config.set.iter().map(|(name, value)| (name.into(), value.into())));
        variables
    }

    /// The secrets that commands do not get.
    pub(crate) fn secret_values(&self, own: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<String> {
        let secret = own.into_iter().filter(|(name, _)| self.is_secret(&name.to_string_lossy()));
        secret.filter_map(|(_, value)| value.into_string().ok()).collect()
    }
}

fn any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|it| matches(it, name))
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_uppercase(), name.to_ascii_uppercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in between.split('*').filter(|it| !it.is_empty()) {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<(OsString, OsString)> {
        let variables = [
            ("PATH", "/bin"),
            ("HOME", "/root"),
            ("OPENAI_API_KEY", "sk-openai"),
            ("model_key", "sk-test-123"),
            ("GITHUB_TOKEN", "gh-token-1"),
            ("LINN_ANYTHING", "anything"),
            ("CATALYST_CODE_APIKEY", "sk-catalyst"),
            ("PGPASSWORD", "pg-password"),
            ("HOUSE", "of my own"),
            ("KEYBOARD", "qwerty"),
        ];
        variables.map(|(name, value)| (name.into(), value.into())).to_vec()
    }

    fn names(config: &EnvironmentConfig) -> Vec<String> {
        let variables = Environment::new(config).of_commands(own(), &SecretKeeper::new());
        variables.into_keys().map(|it| it.into_string().unwrap()).collect()
    }

    #[test]
    fn r138_secrets_do_not_reach_commands() {
        let config = EnvironmentConfig::default();
        assert_eq!(
            names(&config),
            ["GIT_PAGER", "GIT_TERMINAL_PROMPT", "HOME", "HOUSE", "KEYBOARD", "PAGER", "PATH", "TERM"]
        );
        let mut secret = Environment::new(&config).secret_values(own());
        secret.sort();
        assert_eq!(secret, ["gh-token-1", "pg-password", "sk-catalyst", "sk-openai", "sk-test-123"]);
    }

    #[test]
    fn r138_what_the_config_calls_a_secret_is_one() {
        let config = EnvironmentConfig {
            secret: vec!["house".into()],
            keep: vec!["GITHUB_*".into()],
            ..EnvironmentConfig::default()
        };
        let names = names(&config);
        assert!(!names.contains(&"HOUSE".to_owned()) && names.contains(&"GITHUB_TOKEN".to_owned()), "{names:?}");
    }

    #[test]
    fn variables_with_keys_inside_do_not_reach_commands() {
        let secrets = SecretKeeper::new();
        secrets.keep("sk-inline-123");
        let own = || {
            let inside = r#"[{"api_key": "sk-inline-123"}]"#;
            [("UMANS_PROVIDERS", "[]"), ("ENDPOINTS", inside), ("KEPT", "x sk-inline-123"), ("FREE", "sk-inline")]
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        };
        let config = EnvironmentConfig { keep: vec!["KEPT".into()], ..EnvironmentConfig::default() };
        let variables = Environment::new(&config).of_commands(own(), &secrets);
        let seen = |name: &str| variables.contains_key(&OsString::from(name));
        assert_eq!(["UMANS_PROVIDERS", "ENDPOINTS", "KEPT", "FREE"].map(seen), [false, false, true, true]);
    }

    #[test]
    fn what_the_config_sets_wins() {
        let set = BTreeMap::from([("TERM".to_owned(), "xterm".to_owned()), ("A_KEY".to_owned(), "wanted".to_owned())]);
        let variables = Environment::new(&EnvironmentConfig { set, ..EnvironmentConfig::default() })
            .of_commands(own(), &SecretKeeper::new());
        assert_eq!(variables[&OsString::from("TERM")], "xterm");
        assert_eq!(variables[&OsString::from("A_KEY")], "wanted");
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("A", "A", true),
            ("A", "AB", false),
            ("A*", "AB", true),
            ("*_KEY", "MY_KEY", true),
            ("*_KEY", "MY_KEYS", false),
            ("a*b*c", "AxBxC", true),
            ("a*b*c", "acb", false),
            ("*aa*", "xaay", true),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
