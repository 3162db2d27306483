//! The tools `fetch` and `web_search`.

use linn_bus::Svc;
use linn_services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput};
use linn_services::web::{Web, WebHit, WebQuery, WebRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::page::text_of;

/// How many hits there are if nobody says how many, and at most.
const HITS: (u32, u32) = (8, 20);

#[derive(Deserialize, JsonSchema)]
struct Fetch {
    /// The address, with `https://` or `http://`.
    url: String,
    /// HTML as it is, instead of as text.
    #[serde(default)]
    raw: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// What to search for.
    query: String,
    /// How many hits; 8 by default.
    #[schemars(range(min = 1, max = 20))]
    count: Option<u32>,
    /// The region to search for, such as `us-en`.
    region: Option<String>,
}

/// Gets a page. It may tell others something by asking, so it is not for looking only; side by side it may run.
pub(crate) fn fetch(web: Svc<dyn Web>) -> Tool {
    let description = "Gets a page of the web and gives its status, its kind and its text. HTML is turned into text.";
    let tool = Tool::new("fetch", description, move |arguments: Fetch, call| {
        let web = web.clone();
        async move { run_fetch(&web, arguments, &call).await }
    });
    tool.parallel()
}

async fn run_fetch(web: &Svc<dyn Web>, arguments: Fetch, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
    let page = web.fetch(WebRequest::new(&arguments.url)).await.map_err(|error| failed(call, error.into()))?;
    let text = format!("HTTP {}  {}\n{}", page.status, page.content_type, text_of(&page, arguments.raw));
    let meta = json!({ "status": page.status, "url": page.url });
    let output = ToolOutput::from(text).with_meta(meta);
    Ok(if page.status >= 400 { output.failed() } else { output })
}

/// Searches the web.
pub(crate) fn search(web: Svc<dyn Web>) -> Tool {
    let description = "Searches the web and gives titles, addresses and what they say of the matter.";
    let tool = Tool::new("web_search", description, move |arguments: Search, call| {
        let web = web.clone();
        async move { run_search(&web, arguments, &call).await }
    });
    tool.read_only()
}

async fn run_search(web: &Svc<dyn Web>, arguments: Search, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
    let text = arguments.query.trim().to_owned();
    if text.is_empty() {
        let message = "web_search failed: the query is empty; say what to search for";
        return Err(ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", message));
    }
    let count = arguments.count.unwrap_or(HITS.0).clamp(1, HITS.1);
    let query = WebQuery { text, count, region: arguments.region.filter(|it| !it.is_empty()) };
    let hits = web.search(query).await.map_err(|error| failed(call, error.into()))?;
    Ok(if hits.is_empty() { "(no results)".into() } else { listed(&hits).into() })
}

fn listed(hits: &[WebHit]) -> String {
    let shown = |(at, it): (usize, &WebHit)| {
        let snippet = if it.snippet.is_empty() { String::new() } else { format!("\n   {}", it.snippet) };
        format!("{}. {}\n   {}{snippet}", at + 1, it.title, it.url)
    };
    hits.iter().enumerate().map(shown).collect::<Vec<_>>().join("\n\n")
}

fn failed(call: &ToolExecution, failure: ToolFailure) -> ToolFailure {
    ToolFailure { message: format!("{} failed: {}", call.name(), failure.message), ..failure }
}
