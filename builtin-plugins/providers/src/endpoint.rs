//! What the address and the headers of a provider say about it, and how it is asked.

use linn_services::llm::wire::{Endpoint, KeyKind};
use linn_services::providers::{EndpointDraft, ProviderSpec};
use secrecy::{ExposeSecret as _, SecretString};

use crate::fetch::Get;
use crate::presets::{ANTHROPIC, OPENAI};

/// Headers that carry a key.
const KEY_HEADERS: &[&str] = &["authorization", "x-api-key", "api-key"];

/// What the wire of Claude models calls itself.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The kind as it is spelled here: `openai` if there is none.
pub(crate) fn kind_of(kind: &str) -> String {
    match kind.trim().to_ascii_lowercase().as_str() {
        "" => OPENAI.to_owned(),
        "claude" => ANTHROPIC.to_owned(),
        kind => kind.to_owned(),
    }
}

/// A provider in canonical form: no space around what is not a secret, and a kind.
pub(crate) fn canonical(spec: ProviderSpec) -> ProviderSpec {
    ProviderSpec {
        name: spec.name.trim().to_owned(),
        base_url: spec.base_url.trim().trim_end_matches('/').to_owned(),
        kind: kind_of(&spec.kind),
        ..spec
    }
}

/// A provider that is asked once.
pub(crate) fn spec_of(draft: &EndpointDraft, name: &str) -> ProviderSpec {
    canonical(ProviderSpec {
        name: name.to_owned(),
        base_url: draft.base_url.clone(),
        kind: draft.kind.clone(),
        api_key: draft.api_key.clone(),
        headers: draft.headers.clone(),
        ..ProviderSpec::default()
    })
}

/// The host of an address in lower case; empty if it is none of the web.
pub(crate) fn host_of(base_url: &str) -> String {
    Endpoint::new("", base_url, [""]).host()
}

/// Whether an address can be asked at all.
pub(crate) fn is_web(base_url: &str) -> bool {
    !host_of(base_url).is_empty()
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(base_url: &str) -> bool {
    let host = host_of(base_url);
    let is_ipv4 = host.starts_with("127.") && host.split('.').count() == 4 && host.split('.').all(is_octet);
    is_ipv4 || matches!(&*host, "localhost" | "[::1]")
}

fn is_octet(text: &str) -> bool {
    text.parse::<u8>().is_ok()
}

/// Whether an address is one of a domain.
pub(crate) fn is_below(base_url: &str, domain: &str) -> bool {
    let host = host_of(base_url);
    host == domain || host.strip_suffix(domain).is_some_and(|it| it.ends_with('.'))
}

/// Whether a header of the provider carries a key.
pub(crate) fn has_key_header(spec: &ProviderSpec) -> bool {
    let is_key = |name: &String| KEY_HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name));
    spec.headers.iter().any(|(name, value)| is_key(name) && !value.expose_secret().is_empty())
}

/// Whether a provider cannot be asked without a key: not if it is on this machine and names no variable, not if it names an
/// empty one, and not if a header carries a key.
pub(crate) fn needs_key(spec: &ProviderSpec) -> bool {
    let wants_key = match spec.api_key_env.as_deref() {
        Some(variable) => !variable.is_empty(),
        None => !is_loopback(&spec.base_url),
    };
    wants_key && !has_key_header(spec)
}

/// The key of a request, if there is one, and how it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) secret: Option<&'a SecretString>,
    pub(crate) kind: KeyKind,
}

impl<'a> Key<'a> {
    /// A key as a user has it.
    pub(crate) fn api(secret: Option<&'a SecretString>) -> Self {
        Self { secret, kind: KeyKind::Api }
    }
}

/// A request to a provider: with its key and its headers.
pub(crate) fn get(spec: &ProviderSpec, key: Key<'_>, url: String, limit_bytes: usize) -> Get {
    let mut headers = vec![("accept".to_owned(), SecretString::from("application/json"))];
    if spec.kind == ANTHROPIC {
        headers.push(("anthropic-version".to_owned(), ANTHROPIC_VERSION.into()));
    }
    let Key { secret, kind } = key;
    let key = secret.filter(|it| !it.expose_secret().is_empty());
    if let Some(key) = key {
        headers.push(match (&*spec.kind, kind) {
            (ANTHROPIC, KeyKind::Api) => ("x-api-key".to_owned(), key.clone()),
            _ => ("authorization".to_owned(), format!("Bearer {}", key.expose_secret()).into()),
        });
    }
    let is_second_key = |name: &str| key.is_some() && KEY_HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name));
    headers.extend(spec.headers.iter().filter(|(name, _)| !is_second_key(name)).cloned());
    let secrets = key.into_iter().chain(spec.headers.iter().map(|(_, value)| value)).cloned().collect();
    Get { url, headers, limit_bytes, secrets }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(base_url: &str, api_key_env: Option<&str>) -> ProviderSpec {
        ProviderSpec {
            base_url: base_url.to_owned(),
            api_key_env: api_key_env.map(str::to_owned),
            ..ProviderSpec::default()
        }
    }

    #[test]
    fn addresses_on_this_machine_are_known() {
        for (url, is_local) in [
            ("http://localhost:11434/v1", true),
            ("http://LOCALHOST/v1", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.8.8.8", true),
            ("http://[::1]:9", true),
            ("http://127.evil.example", false),
            ("http://localhost.example", false),
            ("http://user@localhost:1/", true),
            ("http://localhost@evil.example/", false),
            ("http://10.0.0.1", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_loopback(url), is_local, "{url}");
        }
    }

    #[test]
    fn a_key_is_needed_but_for_local_and_keyless_endpoints() {
        for (url, env, is_needed) in [
            ("https://api.example.com", None, true),
            ("https://api.example.com", Some("KEY"), true),
            ("https://api.example.com", Some(""), false),
            ("http://localhost:1", None, false),
            ("http://localhost:1", Some(""), false),
            ("http://localhost:1", Some("KEY"), true),
        ] {
            assert_eq!(needs_key(&spec(url, env)), is_needed, "{url} {env:?}");
        }
        let mut by_header = spec("https://api.example.com", Some("KEY"));
        by_header.headers = vec![("Authorization".to_owned(), "Token x".into())];
        assert!(!needs_key(&by_header));
        by_header.headers = vec![("Authorization".to_owned(), "".into())];
        assert!(needs_key(&by_header));
    }

    #[test]
    fn domains_are_compared_by_whole_labels() {
        assert!(is_below("https://api.code.umans.ai/v1", "umans.ai"));
        assert!(is_below("https://umans.ai", "umans.ai"));
        assert!(!is_below("https://notumans.ai", "umans.ai"));
        assert!(!is_below("https://umans.ai.example", "umans.ai"));
    }

    #[test]
    fn one_key_is_sent_in_the_manner_of_the_wire() {
        let headers = |kind: &str, key: Option<&str>| {
            let mut spec = spec("https://h", None);
            spec.kind = kind.to_owned();
            spec.headers = vec![("X-Api-Key".to_owned(), "mine".into()), ("x-team".to_owned(), "t".into())];
            let sent =
                get(&spec, Key::api(key.map(SecretString::from).as_ref()), "https://h/models".to_owned(), 1).headers;
            let text = |(name, value): &(String, SecretString)| format!("{name}={}", value.expose_secret());
            sent.iter().map(text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(headers("openai", Some("k")), "accept=application/json authorization=Bearer k x-team=t");
        assert_eq!(headers("openai", Some("")), "accept=application/json X-Api-Key=mine x-team=t");
        let version = "anthropic-version=2023-06-01";
        assert_eq!(headers("anthropic", Some("k")), format!("accept=application/json {version} x-api-key=k x-team=t"));
    }
}
