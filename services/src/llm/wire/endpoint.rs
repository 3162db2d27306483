//! Where models are asked, as a config says it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::ids::ModelId;

/// A server that answers for models.
///
/// `Debug` shows neither keys, nor values of headers, nor the address, which may hold a key.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Name, for errors and listings.
    pub name: String,
    /// Where the paths of the wire begin, such as `https://api.example.com/v1`.
    pub base_url: String,
    /// The key; none for a server that wants none.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// What the key is, for wires that send a token from a login in another way.
    #[serde(default)]
    pub key_kind: KeyKind,
    /// More headers for every request. One that carries a key is left out if `api_key` is set.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// What stands before the names of its models in Linn alone, such as `local:`; it tells models of one name apart.
    #[serde(default)]
    pub prefix: String,
    /// The models it answers for.
    pub models: Vec<EndpointModel>,
    /// How long a stream may be silent, in milliseconds, before the call fails; 120000 by default.
    #[serde(default = "default_idle_timeout_ms")]
    pub idle_timeout_ms: u64,
}

fn default_idle_timeout_ms() -> u64 {
    120_000
}

/// What the key of an endpoint is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum KeyKind {
    /// A key of the vendor's interface.
    #[default]
    Api,
    /// A token from a login.
    OAuth,
}

/// A model of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointModel {
    /// The name the endpoint knows it by; with `*` at its end it stands for all that begin so.
    pub id: String,
    /// The words for how hard it can think, in the spelling of the endpoint; empty if they are not known.
    #[serde(default)]
    pub effort_levels: Vec<String>,
    /// Limit of an answer, in tokens, where the request has none.
    #[serde(default)]
    pub max_tokens: Option<u32>,
}

/// What is wrong with an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It has no name.
    #[error("an endpoint has no name; give it one under `name`")]
    NoName,
    /// Two have one name.
    #[error("there are two endpoints named `{name}`; name one of them otherwise")]
    Twice {
        /// The name.
        name: String,
    },
    /// The address is none of the web.
    #[error("`base_url` of endpoint `{name}` has to begin with `https://` or `http://` and to name a host")]
    BadUrl {
        /// The endpoint.
        name: String,
    },
    /// It answers for no model.
    #[error("endpoint `{name}` has no models; name them under `models`, or give the one id `*`")]
    NoModels {
        /// The endpoint.
        name: String,
    },
    /// A header cannot be sent.
    #[error(
        "header `{header}` of endpoint `{name}` cannot be sent: names are tokens, values have no control characters"
    )]
    BadHeader {
        /// The endpoint.
        name: String,
        /// The name of the header.
        header: String,
    },
    /// The key cannot be sent.
    #[error("the key of endpoint `{name}` cannot be sent: it has characters that no header has")]
    BadKey {
        /// The endpoint.
        name: String,
    },
}

impl EndpointError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoName => "ENDPOINT_WITHOUT_NAME",
            Self::Twice { .. } => "ENDPOINT_TWICE",
            Self::BadUrl { .. } => "ENDPOINT_BAD_URL",
            Self::NoModels { .. } => "ENDPOINT_WITHOUT_MODELS",
            Self::BadHeader { .. } => "ENDPOINT_BAD_HEADER",
            Self::BadKey { .. } => "ENDPOINT_BAD_KEY",
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("host", &self.host())
            .field("has_key", &self.key().is_some())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("prefix", &self.prefix)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint without a key that answers for the models of these ids.
    pub fn new<T: Into<String>>(
        name: impl Into<String>,
        base_url: impl Into<String>,
        models: impl IntoIterator<Item = T>,
    ) -> Self {
        let models = models.into_iter().map(|id| EndpointModel { id: id.into(), ..EndpointModel::default() });
        Self {
            name: name.into(),
            base_url: base_url.into(),
            api_key: None,
            key_kind: KeyKind::Api,
            headers: BTreeMap::new(),
            prefix: String::new(),
            models: models.collect(),
            idle_timeout_ms: default_idle_timeout_ms(),
        }
    }

    /// Looks at all of them.
    ///
    /// # Errors
    ///
    /// What is wrong with the first that cannot be used.
    pub fn check_all(endpoints: &[Self]) -> Result<(), EndpointError> {
        for (at, endpoint) in endpoints.iter().enumerate() {
            endpoint.check()?;
            if endpoints[..at].iter().any(|it| it.name == endpoint.name) {
                return Err(EndpointError::Twice { name: endpoint.name.clone() });
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), EndpointError> {
        let name = self.name.clone();
        if name.is_empty() {
            return Err(EndpointError::NoName);
        }
        if self.host().is_empty() || self.base_url.contains(|it: char| it.is_whitespace() || it.is_control()) {
            return Err(EndpointError::BadUrl { name });
        }
        if self.models.is_empty() {
            return Err(EndpointError::NoModels { name });
        }
        let is_token = |it: &str| {
            !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&it))
        };
        let is_value =
            |it: &SecretString| it.expose_secret().bytes().all(|it| it == b'\t' || (it >= 0x20 && it != 0x7f));
        if let Some((header, _)) = self.headers.iter().find(|(header, value)| !is_token(header) || !is_value(value)) {
            return Err(EndpointError::BadHeader { name, header: header.clone() });
        }
        if self.key().is_some_and(|it| !is_value(it)) {
            return Err(EndpointError::BadKey { name });
        }
        Ok(())
    }

    /// The key, if there is one that is not empty.
    pub fn key(&self) -> Option<&SecretString> {
        self.api_key.as_ref().filter(|it| !it.expose_secret().is_empty())
    }

    /// What must not be shown to anybody.
    pub fn secrets(&self) -> Vec<SecretString> {
        self.key().into_iter().chain(self.headers.values()).cloned().collect()
    }

    /// The names its models have in Linn.
    pub fn model_ids(&self) -> Vec<ModelId> {
        self.models.iter().map(|it| format!("{}{}", self.prefix, it.id).into()).collect()
    }

    /// The name by which the endpoint knows a model.
    pub fn name_of<'a>(&self, model: &'a str) -> &'a str {
        model.strip_prefix(&self.prefix).unwrap_or(model)
    }

    /// What is known of a model that the endpoint knows as `name`: the entry that fits longest.
    pub fn model(&self, name: &str) -> Option<&EndpointModel> {
        let fit = |it: &EndpointModel| match it.id.strip_suffix('*') {
            Some(start) => name.starts_with(start).then_some(start.len()),
            None => (name == it.id).then_some(usize::MAX),
        };
        self.models.iter().filter(|it| fit(it).is_some()).max_by_key(|it| fit(it))
    }

    /// The address of a path of the wire. A query of the base stays behind it.
    pub fn url(&self, path: &str) -> String {
        let (base, query) = self.base_url.split_at(self.base_url.find(['?', '#']).unwrap_or(self.base_url.len()));
        format!("{}{path}{query}", base.trim_end_matches('/'))
    }

    /// The host of the address in lower case, without a port; empty if the address is none of the web.
    pub fn host(&self) -> String {
        let (authority, _) = self.split_url();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let end = match host.find(']') {
            Some(end) => end + 1,
            None => host.find(':').unwrap_or(host.len()),
        };
        host[..end].to_ascii_lowercase()
    }

    /// The path of the address, without a slash at its end.
    pub fn path(&self) -> &str {
        let path = self.split_url().1;
        path[..path.find(['?', '#']).unwrap_or(path.len())].trim_end_matches('/')
    }

    fn split_url(&self) -> (&str, &str) {
        let scheme = |it: &str| {
            let start = self.base_url.get(..it.len())?;
            start.eq_ignore_ascii_case(it).then(|| &self.base_url[it.len()..])
        };
        let rest = scheme("https://").or_else(|| scheme("http://")).unwrap_or_default();
        rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
    }

    /// Headers of every request: what a stream needs, and those of the config but for `without`, names in lower case.
    pub fn stream_headers(&self, without: &[&str]) -> Vec<(String, SecretString)> {
        let fixed = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("accept-encoding", "identity"),
            ("cache-control", "no-cache"),
        ];
        let is_fixed = |name: &str| fixed.iter().any(|(it, _)| name.eq_ignore_ascii_case(it));
        let own = self
            .headers
            .iter()
            .filter(|(name, _)| !is_fixed(name) && !without.iter().any(|it| name.eq_ignore_ascii_case(it)));
        let fixed = fixed.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value)));
        fixed.chain(own.map(|(name, value)| (name.clone(), value.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_url: &str) -> Endpoint {
        Endpoint::new("e", base_url, ["*"])
    }

    #[test]
    fn host_and_path_are_found() {
        for (url, host, path) in [
            ("https://API.z.ai/api/v4/", "api.z.ai", "/api/v4"),
            ("http://127.0.0.1:8080/cursor/v1", "127.0.0.1", "/cursor/v1"),
            ("http://[::1]:80", "[::1]", ""),
            ("HTTPS://user:sk-1@h.invalid?x=1", "h.invalid", ""),
            ("https://h/a/?x=/1", "h", "/a"),
            ("ftp://h", "", ""),
            ("h/v1", "", ""),
            ("é", "", ""),
        ] {
            assert_eq!((at(url).host().as_str(), at(url).path()), (host, path), "{url}");
        }
        assert_eq!(at("https://h/v1/").url("/models"), "https://h/v1/models");
        assert_eq!(at("https://h/v1/?x=/1").url("/models"), "https://h/v1/models?x=/1");
    }

    #[test]
    fn models_are_found_by_the_entry_that_fits_longest() {
        let mut endpoint = Endpoint::new("e", "https://h", ["*", "big-*", "big-1"]);
        endpoint.prefix = "local:".to_owned();
        assert_eq!(endpoint.model_ids(), ["local:*", "local:big-*", "local:big-1"].map(ModelId::from));
        for (name, found) in [("small", "*"), ("big-2", "big-*"), ("big-1", "big-1")] {
            assert_eq!(endpoint.model(endpoint.name_of(&format!("local:{name}"))).unwrap().id, found);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let code = |change: fn(&mut Endpoint)| {
            let mut endpoint = at("https://h/v1");
            change(&mut endpoint);
            Endpoint::check_all(&[endpoint]).err().map(|it| it.code())
        };
        assert_eq!(code(|_| ()), None);
        assert_eq!(code(|it| it.name.clear()), Some("ENDPOINT_WITHOUT_NAME"));
        assert_eq!(code(|it| it.base_url = "h".into()), Some("ENDPOINT_BAD_URL"));
        assert_eq!(code(|it| it.base_url = "https:///v1".into()), Some("ENDPOINT_BAD_URL"));
        assert_eq!(code(|it| it.base_url.push('\n')), Some("ENDPOINT_BAD_URL"));
        assert_eq!(code(|it| it.models.clear()), Some("ENDPOINT_WITHOUT_MODELS"));
        assert_eq!(code(|it| it.api_key = Some("a\nb".into())), Some("ENDPOINT_BAD_KEY"));
        assert_eq!(code(|it| drop(it.headers.insert("a b".into(), "c".into()))), Some("ENDPOINT_BAD_HEADER"));
        assert_eq!(code(|it| drop(it.headers.insert("a".into(), "b\r\nc: d".into()))), Some("ENDPOINT_BAD_HEADER"));
        let twice = Endpoint::check_all(&[at("https://h"), at("https://i")]);
        assert_eq!(twice.unwrap_err().code(), "ENDPOINT_TWICE");
    }

    #[test]
    fn r139_debug_shows_no_secret() {
        let mut endpoint = at("https://user:sk-1@h.invalid/sk-2?key=sk-3");
        endpoint.api_key = Some("sk-4".into());
        endpoint.headers.insert("x-key".into(), "sk-5".into());
        let shown = format!("{endpoint:?}");
        assert!(shown.contains("h.invalid") && shown.contains("x-key"), "{shown}");
        assert!(!shown.contains("sk-"), "{shown}");
    }
}
