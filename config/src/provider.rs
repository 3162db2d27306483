//! A provider of models as it is configured.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value as Json};

use crate::node::{Data, NOT_SHOWN, Node};
use crate::origin::{Origin, Place};
use crate::problem::{Problem, nearest};

/// The wire that a provider speaks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// As OpenAI's chat completions.
    OpenAi,
    /// As Anthropic's messages.
    Anthropic,
    /// One that a plugin brings, by its name.
    Other(String),
}

impl ProviderKind {
    /// The name on the wire and in files.
    pub fn name(&self) -> &str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Other(name) => name,
        }
    }

    /// The kind of this name, in any case; `claude` is `anthropic`.
    pub fn from_name(name: &str) -> Self {
        match name.trim().to_lowercase().as_str() {
            "" | "openai" => Self::OpenAi,
            "anthropic" | "claude" => Self::Anthropic,
            _ => Self::Other(name.trim().to_owned()),
        }
    }
}

/// A provider. `Debug` shows what cannot be a secret: of its URL the host, of its headers the names.
#[derive(Clone)]
pub struct Provider {
    /// Its name, which no other has.
    pub name: String,
    /// Where requests go, as written.
    pub base_url: String,
    /// The wire it speaks.
    pub kind: ProviderKind,
    /// Its key, if one is written down.
    pub api_key: Option<SecretString>,
    /// The variable that holds its key; empty if it needs none.
    pub api_key_env: Option<String>,
    /// Headers of every request, in order. Their values may be secrets.
    pub headers: Vec<(String, SecretString)>,
    /// Context of its models in tokens, where they do not say themselves.
    pub context_window: Option<u64>,
    /// What it says of its models, or what they are.
    pub models: Vec<ModelOverride>,
    /// Path that is appended to `base_url` to list models.
    pub models_endpoint: Option<String>,
    /// Fields that Linn does not know, kept for whoever wrote them.
    pub others: Map<String, Json>,
    /// Where it is configured.
    pub origin: Origin,
}

/// What a provider says of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOverride {
    /// The id that requests name.
    pub id: String,
    /// `context_window`, `max_tokens`, `reasoning`, `thinking_levels` and what else is written, as written.
    pub facts: Map<String, Json>,
}

/// Fields of a provider with the second spelling that clients use.
const FIELDS: &[(&str, &str)] = &[
    ("name", "name"),
    ("base_url", "baseUrl"),
    ("kind", "kind"),
    ("api_key", "apiKey"),
    ("api_key_env", "apiKeyEnv"),
    ("headers", "headers"),
    ("context_window", "contextWindow"),
    ("models_override", "modelsOverride"),
    ("models_endpoint", "modelsEndpoint"),
];

/// Whether Linn knows a field of this name, in either spelling.
pub(crate) fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|(snake, camel)| *snake == name || *camel == name)
}

impl Provider {
    /// A provider with nothing but what every provider has.
    pub fn new(name: impl Into<String>, base_url: impl Into<String>, kind: ProviderKind) -> Self {
        Self {
            name: name.into(),
            base_url: base_url.into(),
            kind,
            api_key: None,
            api_key_env: None,
            headers: Vec::new(),
            context_window: None,
            models: Vec::new(),
            models_endpoint: None,
            others: Map::new(),
            origin: Origin::built_in(),
        }
    }

    /// Whether `base_url` is on this machine: `localhost`, `127.0.0.1` or `::1`.
    pub fn is_loopback(&self) -> bool {
        matches!(self.host().to_lowercase().as_str(), "localhost" | "127.0.0.1" | "::1")
    }

    /// The host of `base_url`, without port and credentials.
    fn host(&self) -> &str {
        let rest = self.base_url.split_once("://").map_or(self.base_url.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            // More than one colon is an address without brackets.
            None if host.matches(':').count() > 1 => host,
            None => host.split(':').next().unwrap_or_default(),
        }
    }

    /// The provider as clients store it, key and headers included.
    pub(crate) fn to_stored(&self) -> Map<String, Json> {
        let mut stored = self.others.clone();
        let mut put = |name: &str, value: Json| stored.insert(name.to_owned(), value);
        put("name", Json::from(self.name.as_str()));
        put("base_url", Json::from(self.base_url.as_str()));
        put("kind", Json::from(self.kind.name()));
        if let Some(key) = &self.api_key {
            put("api_key", Json::from(key.expose_secret()));
        }
        if let Some(variable) = &self.api_key_env {
            put("api_key_env", Json::from(variable.as_str()));
        }
        if !self.headers.is_empty() {
            let headers = self.headers.iter().map(|(name, it)| (name.clone(), Json::from(it.expose_secret())));
            put("headers", Json::Object(headers.collect()));
        }
        if let Some(tokens) = self.context_window {
            put("context_window", Json::from(tokens));
        }
        if !self.models.is_empty() {
            let model = |it: &ModelOverride| {
                let mut facts = it.facts.clone();
                facts.insert("id".to_owned(), Json::from(it.id.as_str()));
                Json::Object(facts)
            };
            put("models_override", self.models.iter().map(model).collect());
        }
        if let Some(path) = &self.models_endpoint {
            put("models_endpoint", Json::from(path.as_str()));
        }
        stored
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("host", &self.host())
            .field("kind", &self.kind)
            .field("api_key", &self.api_key.as_ref().map(|_| NOT_SHOWN))
            .field("api_key_env", &self.api_key_env)
            .field("headers", &headers)
            .field("context_window", &self.context_window)
            .field("models", &self.models)
            .field("models_endpoint", &self.models_endpoint)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// Reads a provider. Without a name or a URL there is none; any other wrong field is left out.
pub(crate) fn read(node: &Node, origin: Origin, problems: &mut Vec<Problem>) -> Option<Provider> {
    let Data::Table(fields) = &node.data else {
        problems.push(wrong(&node.place, "providers", node.shown(), "a table with a `name` and a `base_url`"));
        return None;
    };
    let name = required(node, "name", problems)?;
    let base_url = required(node, "base_url", problems)?;
    let mut reader = Reader { node, name: &name, problems };
    let api_key = reader.text("api_key").map(SecretString::from);
    let kind = reader.text("kind").map_or(ProviderKind::OpenAi, |it| ProviderKind::from_name(&it));
    let api_key_env = reader.text("api_key_env");
    let context_window = reader.tokens("context_window");
    let models_endpoint = reader.text("models_endpoint");
    let headers = reader.headers();
    let models = reader.models();
    let is_linn = origin.layer != crate::origin::Layer::Client;
    let unknown = fields.iter().filter(|(field, _)| !is_field(field));
    let mut others = Map::new();
    for (field, value) in unknown {
        if is_linn {
            let key = format!("providers.{name}.{field}");
            let similar = nearest(field, FIELDS.iter().map(|(it, _)| *it));
            problems.push(Problem::UnknownKey { place: value.place.clone(), key, similar });
        }
        others.insert(field.clone(), value.to_json());
    }
    Some(Provider {
        base_url,
        kind,
        // An empty key is how clients say that there is none.
        api_key: api_key.filter(|it| !it.expose_secret().is_empty()),
        api_key_env,
        headers,
        context_window,
        models,
        models_endpoint,
        others,
        origin,
        name,
    })
}

fn wrong(place: &Place, key: impl Into<String>, value: String, expected: &str) -> Problem {
    Problem::WrongValue {
        place: place.clone(),
        key: key.into(),
        value: value.into(),
        expected: expected.into(),
        similar: None,
    }
}

/// The field in either spelling; that of Linn wins.
fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let camel = FIELDS.iter().find(|(it, _)| *it == name).map(|(_, camel)| *camel);
    let found = node.field(name).or_else(|| node.field(camel?));
    found.filter(|it| !matches!(it.data, Data::Null))
}

fn required(node: &Node, name: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let found = field(node, name);
    let text = found.and_then(Node::as_text).map(str::trim).filter(|it| !it.is_empty());
    if text.is_none() {
        let place = found.map_or(&node.place, |it| &it.place);
        let value = found.map_or("missing".to_owned(), Node::shown);
        problems.push(wrong(place, format!("providers.{name}"), value, "text that is not empty"));
    }
    text.map(str::to_owned)
}

struct Reader<'a> {
    node: &'a Node,
    name: &'a str,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn wrong(&mut self, field: &str, it: &Node, expected: &str) {
        let value = if crate::node::names_secret(field) { NOT_SHOWN.to_owned() } else { it.shown() };
        self.problems.push(wrong(&it.place, format!("providers.{}.{field}", self.name), value, expected));
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let found = field(self.node, name)?;
        if found.as_text().is_none() {
            self.wrong(name, found, "text");
        }
        found.as_text().map(str::to_owned)
    }

    fn tokens(&mut self, name: &str) -> Option<u64> {
        let found = field(self.node, name)?;
        match found.data {
            Data::Integer(it) if it > 0 => u64::try_from(it).ok(),
            _ => {
                self.wrong(name, found, "a whole number from 1 on");
                None
            }
        }
    }

    /// `{name: value}`, `[[name, value]]` or `[{name, value}]`.
    fn headers(&mut self) -> Vec<(String, SecretString)> {
        let Some(found) = field(self.node, "headers") else {
            return Vec::new();
        };
        let pairs: Option<Vec<(&str, &str)>> = match &found.data {
            Data::Table(fields) => fields.iter().map(|(name, it)| Some((name.as_str(), it.as_text()?))).collect(),
            Data::List(items) => items.iter().map(header).collect(),
            _ => None,
        };
        if pairs.is_none() {
            self.wrong("headers", found, "a table of texts");
        }
        let pairs = pairs.unwrap_or_default();
        pairs.into_iter().map(|(name, value)| (name.to_owned(), SecretString::from(value))).collect()
    }

    /// `{id: facts}` or `[{id, ..facts}]`.
    fn models(&mut self) -> Vec<ModelOverride> {
        let Some(found) = field(self.node, "models_override") else {
            return Vec::new();
        };
        let models: Option<Vec<ModelOverride>> = match (&found.data, found.to_json()) {
            (Data::Table(fields), Json::Object(facts)) => {
                // Names in the order written, which a map of JSON does not keep.
                let model = |id: &String| {
                    let facts = facts.get(id)?.as_object()?.clone();
                    Some(ModelOverride { id: id.clone(), facts })
                };
                fields.keys().map(model).collect()
            }
            (_, Json::Array(items)) => items.into_iter().map(model).collect(),
            _ => None,
        };
        if models.is_none() {
            self.wrong("models_override", found, "a table of models by id, or a list of tables with an `id`");
        }
        models.unwrap_or_default()
    }
}

fn header(node: &Node) -> Option<(&str, &str)> {
    match &node.data {
        Data::List(pair) => match pair.as_slice() {
            [name, value] => Some((name.as_text()?, value.as_text()?)),
            _ => None,
        },
        Data::Table(_) => Some((node.field("name")?.as_text()?, node.field("value")?.as_text()?)),
        _ => None,
    }
}

fn model(json: Json) -> Option<ModelOverride> {
    match json {
        Json::Object(mut facts) => match facts.remove("id")? {
            Json::String(id) => Some(ModelOverride { id, facts }),
            _ => None,
        },
        Json::String(id) => Some(ModelOverride { id, facts: Map::new() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Layer;
    use serde_json::json;

    fn from(json: &Json) -> (Option<Provider>, Vec<String>) {
        let mut problems = Vec::new();
        let origin = Origin::new(Layer::Client, Place::BuiltIn);
        let provider = read(&Node::from_json(json, &Place::BuiltIn), origin, &mut problems);
        (provider, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn wp_3_5_a_provider_is_read_in_all_its_spellings() {
        let snake = json!({
            "name": "a", "base_url": "u", "kind": "claude", "api_key": "k", "api_key_env": "V", "headers": {"H": "1"},
            "context_window": 9, "models_override": {"m": {"max_tokens": 1}}, "models_endpoint": "/m", "extra": [1],
        });
        let camel = json!({
            "name": "a", "baseUrl": "u", "kind": "anthropic", "apiKey": "k", "apiKeyEnv": "V", "headers": [["H", "1"]],
            "contextWindow": 9, "modelsOverride": [{"id": "m", "max_tokens": 1}], "modelsEndpoint": "/m", "extra": [1],
        });
        let stored = |json: &Json| from(json).0.expect("a provider").to_stored();
        assert_eq!(stored(&snake), stored(&camel));
        assert_eq!(stored(&snake)["models_endpoint"], json!("/m"));
        assert_eq!(stored(&snake)["extra"], json!([1]));
        assert_eq!(
            stored(&json!({"name": "a", "base_url": "u", "headers": [{"name": "H", "value": "1"}]}))["headers"],
            json!({"H": "1"})
        );
    }

    #[test]
    fn wp_3_5_a_provider_without_name_or_url_is_left_out() {
        let (provider, problems) = from(&json!({"name": "a"}));
        assert!(provider.is_none());
        assert_eq!(
            problems,
            ["built-in default: `providers.base_url` cannot be missing; it is text that is not empty"]
        );
        assert!(from(&json!({"base_url": "u"})).0.is_none());
        assert!(from(&json!("a")).0.is_none());
    }

    #[test]
    fn a_wrong_field_costs_the_field_only() {
        let (provider, problems) =
            from(&json!({"name": "a", "base_url": "u", "context_window": "big", "api_key": ["hidden"]}));
        assert!(provider.is_some_and(|it| it.context_window.is_none()));
        assert_eq!(
            problems,
            [
                "built-in default: `providers.a.api_key` cannot be (not shown); it is text",
                "built-in default: `providers.a.context_window` cannot be \"big\"; it is a whole number from 1 on",
            ]
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let json = json!({"name": "a", "base_url": "https://u:hidden@host/hidden", "api_key": "hidden", "headers": {"Authorization": "hidden"}, "others": "hidden"});
        let text = format!("{:?}", from(&json).0);
        assert!(!text.contains("hidden") && text.contains("Authorization"), "{text}");
    }

    #[test]
    fn wp_3_5_loopback_urls_are_known() {
        let is_loopback = |url: &str| Provider::new("a", url, ProviderKind::OpenAi).is_loopback();
        for url in [
            "http://localhost",
            "http://LOCALHOST:1/v1",
            "http://127.0.0.1:8080/v1",
            "http://[::1]:1/",
            "http://u:p@localhost/",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://localhost.example.org",
            "http://example.org/localhost",
            "http://localhost@example.org",
            "http://127.0.0.10",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
