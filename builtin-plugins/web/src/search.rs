//! Services that search the web.

use linn_services::llm::wire::error_text;
use linn_services::web::{WebError, WebHit, WebQuery};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::config::WebConfig;
use crate::http::Ask;

/// How much of a hit is shown, in characters.
const SNIPPET_CHARS: usize = 500;

/// A service that searches the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Exa,
    Tavily,
}

impl Engine {
    /// All of them; the first that has a key is asked.
    pub(crate) const ALL: [Self; 2] = [Self::Exa, Self::Tavily];

    /// The name of its key in the settings.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exa => "exa",
            Self::Tavily => "tavily",
        }
    }

    /// How it is asked.
    pub(crate) fn ask(self, config: &WebConfig, query: &WebQuery, key: &SecretString) -> Ask {
        let (url, header, body) = match self {
            Self::Exa => {
                let mut body = json!({
                    "query": query.text,
                    "numResults": query.count,
                    "contents": { "highlights": { "numSentences": 3, "highlightsPerUrl": 1 } },
                });
                if let Some(country) = query.region.as_deref().and_then(country) {
                    body["userLocation"] = country.into();
                }
                (&config.exa_url, ("x-api-key".to_owned(), key.clone()), body)
            }
            Self::Tavily => {
                let bearer = format!("Bearer {}", key.expose_secret());
                let body = json!({ "query": query.text, "max_results": query.count });
                (&config.tavily_url, ("authorization".to_owned(), bearer.into()), body)
            }
        };
        Ask { url: url.clone(), headers: vec![header], json: Some(body.to_string()) }
    }

    /// What it found.
    pub(crate) fn read(self, status: u16, body: &[u8], is_cut: bool) -> Result<Vec<WebHit>, WebError> {
        let failed = |why: String| WebError::Search { service: self.name().to_owned(), why };
        if !(200..300).contains(&status) {
            return Err(failed(format!("HTTP {status}: {}", error_text(body, &[]))));
        }
        if is_cut {
            return Err(failed("the answer is too long".to_owned()));
        }
        let answer: Value = serde_json::from_slice(body).map_err(|_| failed("the answer is no JSON".to_owned()))?;
        let results = answer.get("results").and_then(Value::as_array);
        let results = results.ok_or_else(|| failed("the answer holds no `results`".to_owned()))?;
        Ok(results.iter().filter_map(|it| self.hit(it)).collect())
    }

    fn hit(self, told: &Value) -> Option<WebHit> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
        let url = text(told.get("url"));
        let snippet = match self {
            Self::Exa => told.get("highlights").and_then(|it| it.get(0)).or_else(|| told.get("text")),
            Self::Tavily => told.get("content"),
        };
        let title = text(told.get("title"));
        let title = if title.is_empty() { url.clone() } else { title };
        (!url.is_empty()).then(|| WebHit { title, url, snippet: shortened(&text(snippet)) })
    }
}

/// The country of a region such as `us-en`, `DE` or `de-de`; nothing if it names none.
fn country(region: &str) -> Option<String> {
    let first = region.split(['-', '_']).next()?;
    let is_country = first.len() == 2 && first.bytes().all(|it| it.is_ascii_alphabetic());
    is_country.then(|| first.to_ascii_uppercase())
}

/// A text in one line, of at most some characters.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SNIPPET_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read_from_what_each_service_says() {
        let exa = br#"{"results":[{"title":"A","url":"https://a","highlights":["one\n two"]},{"url":"https://b","text":"b"},{"title":"no url"}]}"#;
        let hits = Engine::Exa.read(200, exa, false).unwrap();
        let hit = |title: &str, url: &str, snippet: &str| WebHit {
            title: title.into(),
            url: url.into(),
            snippet: snippet.into(),
        };
        assert_eq!(hits, [hit("A", "https://a", "one two"), hit("https://b", "https://b", "b")]);
        let tavily = br#"{"results":[{"title":"T","url":"https://t","content":"c"}]}"#;
        assert_eq!(Engine::Tavily.read(200, tavily, false).unwrap(), [hit("T", "https://t", "c")]);
        let long = format!(r#"{{"results":[{{"url":"u","content":"{}"}}]}}"#, "é".repeat(600));
        assert_eq!(Engine::Tavily.read(200, long.as_bytes(), false).unwrap()[0].snippet.chars().count(), 501);
    }

    #[test]
    fn r139_what_a_service_refuses_is_told_without_the_key() {
        let error = Engine::Exa.read(401, br#"{"error":"bad API key sk-1"}"#, false).unwrap_err();
        assert!(error.to_string().starts_with("exa: HTTP 401") && !error.to_string().contains("sk-1"), "{error}");
        for (body, cut, why) in [
            (&b"<html>"[..], false, "exa: the answer is no JSON"),
            (b"{}", false, "exa: the answer holds no `results`"),
            (b"{\"results\":[]}", true, "exa: the answer is too long"),
        ] {
            assert_eq!(Engine::Exa.read(200, body, cut).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_region_names_a_country_first() {
        for (region, expected) in
            [("us-en", Some("US")), ("DE", Some("DE")), ("de_DE", Some("DE")), ("world", None), ("", None)]
        {
            assert_eq!(country(region).as_deref(), expected, "{region}");
        }
    }
}
