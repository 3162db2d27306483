//! The web, over a network that answers from a table, and over the loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use linn_bus::{BoxFuture, Context, Demand, Fault, NeedList, Plugin, Root, ServiceError, Svc, TokioRuntime, provider};
use linn_bus_test::{leak_check, run};
use linn_plugin_web::{Ask, Head, Http, HttpError, WebConfig, WebPlugin, WebServicePlugin, WebToolsPlugin};
use linn_services::model::{ContentBlock, text_of};
use linn_services::settings::{ProviderChange, ProviderMemory, Settings, SettingsError};
use linn_services::tools::{ToolClass, ToolExecutionInput, Tools, ToolsPlugin};
use linn_services::web::{Web, WebRequest};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How an address answers: status, kind, where it leads, and the pieces of its body.
#[derive(Clone, Default)]
struct Answer {
    status: u16,
    kind: &'static str,
    location: Option<&'static str>,
    pieces: Vec<Vec<u8>>,
    is_open: bool,
}

#[derive(Clone, Default)]
struct Net(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    answers: BTreeMap<&'static str, Answer>,
    asked: Vec<Ask>,
}

impl Net {
    fn page(self, url: &'static str, kind: &'static str, body: &str) -> Self {
        self.put(url, Answer { status: 200, kind, pieces: vec![body.as_bytes().to_vec()], ..Answer::default() })
    }
    fn leads(self, url: &'static str, to: &'static str) -> Self {
        self.put(url, Answer { status: 302, location: Some(to), ..Answer::default() })
    }
    fn put(self, url: &'static str, answer: Answer) -> Self {
        self.0.lock().unwrap().answers.insert(url, answer);
        self
    }
    fn asked(&self) -> Vec<Ask> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

impl Http for Net {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Head, HttpError>> {
        let answer = self.0.lock().unwrap().answers.get(&*ask.url).cloned();
        self.0.lock().unwrap().asked.push(ask);
        Box::pin(async move {
            let answer = answer.ok_or_else(|| HttpError("refused".to_owned()))?;
            let pieces = stream::iter(answer.pieces.into_iter().map(Ok));
            let body = if answer.is_open { pieces.chain(stream::pending()).boxed() } else { pieces.boxed() };
            let location = answer.location.map(str::to_owned);
            Ok(Head { status: answer.status, content_type: answer.kind.to_owned(), location, body })
        })
    }
}

/// Settings that hold keys of search services and nothing else.
struct Keys(BTreeMap<&'static str, &'static str>);

#[provider]
impl Settings for Keys {
    fn get(&self, _: &str) -> Result<Option<Value>, ServiceError> {
        Ok(None)
    }
    fn set(&self, name: &str, _: &Value) -> Result<Value, SettingsError> {
        Err(SettingsError::Unknown { name: name.to_owned(), nearest: None })
    }
    fn variable(&self, _: &str) -> Result<Option<SecretString>, ServiceError> {
        Ok(None)
    }
    async fn save_providers(&self, _: ProviderChange) -> Result<(), SettingsError> {
        Ok(())
    }
    fn provider_memory(&self) -> Result<ProviderMemory, ServiceError> {
        Ok(ProviderMemory::default())
    }
    fn remember_providers(&self, _: ProviderMemory) -> Result<(), ServiceError> {
        Ok(())
    }
    fn search_key(&self, service: &str) -> Result<Option<SecretString>, ServiceError> {
        Ok(self.0.get(service).map(|it| (*it).into()))
    }
    async fn save_search_key(&self, _: &str, _: Option<SecretString>) -> Result<(), SettingsError> {
        Ok(())
    }
}

struct KeysPlugin;

impl Plugin for KeysPlugin {
    const NAME: &'static str = "keys";
    type Config = BTreeMap<&'static str, &'static str>;
    type Needs = ();
    fn provides(list: &mut NeedList) {
        list.add::<dyn Settings>(Demand::Required);
    }
    async fn start(ctx: &Context, keys: Self::Config, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Settings>(Arc::new(Keys(keys)))?;
        Ok(())
    }
}

async fn tools(root: &Root, config: WebConfig, keys: &[(&'static str, &'static str)]) -> Svc<dyn Tools> {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<KeysPlugin>(keys.iter().copied().collect()).unwrap().running().await.unwrap();
    root.mount::<WebServicePlugin>(config).unwrap().running().await.unwrap();
    root.mount::<WebToolsPlugin>(()).unwrap().running().await.unwrap();
    root.get().unwrap()
}

fn over(net: &Net) -> WebConfig {
    WebConfig { http: Some(Arc::new(net.clone())), ..WebConfig::default() }
}

/// The text of a result, without the mark of a failure.
fn words_of(content: &[ContentBlock]) -> String {
    let text = text_of(content);
    text.strip_prefix("Error: ").unwrap_or(&text).to_owned()
}

/// The text of a result, and its code if it failed with one.
async fn call(tools: &Svc<dyn Tools>, name: &str, arguments: Value) -> (String, bool, Option<String>) {
    let result = tools.execute(ToolExecutionInput::new("c1", name, arguments)).await.unwrap();
    (words_of(&result.content), result.is_error, result.error.map(|it| it.code))
}

#[test]
fn wp_7_2_a_page_is_told_with_its_status_and_kind() {
    run(async |root| {
        let html = "<html><body><h1>Hi</h1></body></html>";
        let net = Net::default().page("https://a.example/", "text/html", html).put(
            "https://a.example/gone",
            Answer { status: 404, kind: "text/plain", pieces: vec![b"no".to_vec()], ..Answer::default() },
        );
        let tools = tools(&root, over(&net), &[]).await;
        let told = call(&tools, "fetch", json!({ "url": "https://a.example/" })).await;
        assert!(
            told.0.starts_with("HTTP 200  text/html\n") && told.0.contains("Hi") && !told.0.contains("<h1>"),
            "{}",
            told.0
        );
        let told = call(&tools, "fetch", json!({ "url": " https://a.example ", "raw": true })).await;
        assert_eq!(told, (format!("HTTP 200  text/html\n{html}"), false, None));
        let told = call(&tools, "fetch", json!({ "url": "https://a.example/gone" })).await;
        assert_eq!(told, ("HTTP 404  text/plain\nno".to_owned(), true, None));

        let fetch = tools.get(None, &"fetch".into()).unwrap().unwrap();
        assert_eq!((fetch.class, fetch.is_parallel), (ToolClass::Destructive, true));
        let search = tools.get(None, &"web_search".into()).unwrap().unwrap();
        assert_eq!((search.class, search.is_parallel), (ToolClass::ReadOnly, true));
    });
}

#[test]
fn redirects_are_followed_to_hosts_that_may_be_asked() {
    run(async |root| {
        let net = Net::default()
            .leads("https://a.example/", "/next")
            .leads("https://a.example/next", "https://b.example/end")
            .page("https://b.example/end", "text/plain", "end")
            .leads("https://a.example/away", "https://c.example/")
            .leads("https://a.example/file", "file:///etc/passwd")
            .leads("https://a.example/loop", "/loop");
        let config = WebConfig { allowlist: vec!["a.example".into(), "b.example".into()], ..over(&net) };
        let tools = tools(&root, config, &[]).await;
        let told = call(&tools, "fetch", json!({ "url": "https://a.example" })).await;
        assert_eq!(told.0, "HTTP 200  text/plain\nend");
        for (url, code) in [
            ("https://a.example/away", "WEB_NOT_ALLOWED"),
            ("https://c.example/", "WEB_NOT_ALLOWED"),
            ("https://a.example@c.example/", "WEB_NOT_ALLOWED"),
            ("https://a.example/file", "WEB_BAD_URL"),
            ("file:///etc/passwd", "WEB_BAD_URL"),
            ("not an address", "WEB_BAD_URL"),
            ("https://a.example/loop", "WEB_REDIRECTS"),
            ("https://b.example/nobody", "WEB_CONNECTION"),
        ] {
            let told = call(&tools, "fetch", json!({ "url": url })).await;
            assert_eq!(told.2.as_deref(), Some(code), "{url}");
            assert!(told.0.starts_with("fetch failed: "), "{}", told.0);
        }
        assert!(net.asked().iter().all(|it| !it.url.contains("c.example")), "it was never asked");
    });
}

#[test]
fn a_page_is_read_as_far_as_its_limit_and_its_time_go() {
    run(async |root| {
        let endless = Answer {
            status: 200,
            kind: "text/plain",
            pieces: vec![b"abc".to_vec(), b"def".to_vec()],
            is_open: true,
            ..Answer::default()
        };
        let net = Net::default()
            .put("https://a.example/", endless.clone())
            .put("https://a.example/exact", Answer { is_open: false, pieces: vec![b"abcde".to_vec()], ..endless });
        let config = WebConfig { max_bytes: 5, timeout_s: 3, ..over(&net) };
        let tools = tools(&root, config, &[]).await;
        let told = call(&tools, "fetch", json!({ "url": "https://a.example/" })).await;
        assert_eq!(told.0, "HTTP 200  text/plain\nabcde\n...[only the first 5 bytes were read]...");
        let told = call(&tools, "fetch", json!({ "url": "https://a.example/exact" })).await;
        assert_eq!(told.0, "HTTP 200  text/plain\nabcde");
        let web = root.get::<dyn Web>().unwrap();
        let request = WebRequest { limit_bytes: Some(100), ..WebRequest::new("https://a.example/") };
        assert_eq!(web.fetch(request).await.unwrap_err().to_string(), "no answer within 3s");
    });
}

#[test]
fn wp_7_2_the_first_service_with_a_key_is_searched() {
    run(async |root| {
        let found = r#"{"results":[{"title":"One","url":"https://1","highlights":["first"],"content":"first"},{"title":"Two","url":"https://2"}]}"#;
        let net = Net::default().page("https://api.exa.ai/search", "application/json", found).page(
            "https://api.tavily.com/search",
            "application/json",
            found,
        );
        let tools = tools(&root, over(&net), &[("exa", "ke"), ("tavily", "kt")]).await;
        let told = call(&tools, "web_search", json!({ "query": " rust ", "count": 1, "region": "us-en" })).await;
        assert_eq!(told, ("1. One\n   https://1\n   first".to_owned(), false, None));
        let asked = net.asked().remove(0);
        let body: Value = serde_json::from_str(asked.json.as_deref().unwrap()).unwrap();
        assert_eq!(
            (&body["query"], &body["numResults"], &body["userLocation"]),
            (&json!("rust"), &json!(1), &json!("US"))
        );
        assert_eq!((&*asked.headers[0].0, asked.headers[0].1.expose_secret()), ("x-api-key", "ke"));
        assert!(!format!("{asked:?}").contains("ke\""), "{asked:?}");
    });
}

#[test]
fn wp_7_2_tavily_is_searched_where_it_alone_has_a_key() {
    run(async |root| {
        let net = Net::default().page("https://api.tavily.com/search", "application/json", r#"{"results":[]}"#);
        let tools = tools(&root, over(&net), &[("tavily", "kt")]).await;
        assert_eq!(call(&tools, "web_search", json!({ "query": "q" })).await.0, "(no results)");
        let asked = net.asked().remove(0);
        let body: Value = serde_json::from_str(asked.json.as_deref().unwrap()).unwrap();
        assert_eq!(body, json!({ "query": "q", "max_results": 8 }));
        assert_eq!(asked.headers[0].1.expose_secret(), "Bearer kt");
        assert_eq!(call(&tools, "web_search", json!({ "query": " " })).await.2.as_deref(), Some("INVALID_ARGUMENTS"));
    });
}

#[test]
fn wp_3_2_a_service_whose_searches_of_the_month_are_used_up_is_passed_over() {
    run(async |root| {
        let found = r#"{"results":[{"title":"One","url":"https://1"}]}"#;
        let exa = Net::default().page("https://api.exa.ai/search", "application/json", found);
        let net = exa.page("https://api.tavily.com/search", "application/json", found);
        let limits = [("exa".to_owned(), 1), ("tavily".to_owned(), 1)].into();
        let config = WebConfig { monthly_limits: limits, ..over(&net) };
        let tools = tools(&root, config, &[("exa", "k1"), ("tavily", "k2")]).await;
        for engine in ["api.exa.ai", "api.tavily.com"] {
            assert!(!call(&tools, "web_search", json!({ "query": "x" })).await.1);
            assert!(net.asked().remove(0).url.contains(engine));
        }
        let (told, is_error, _) = call(&tools, "web_search", json!({ "query": "x" })).await;
        assert!(is_error && told.contains("the 1 searches of this month are used up"), "{told}");
    });
}

#[test]
fn without_a_key_nobody_is_searched() {
    run(async |root| {
        let tools = tools(&root, over(&Net::default()), &[]).await;
        let told = call(&tools, "web_search", json!({ "query": "q" })).await;
        assert_eq!(told.0, "web_search failed: no search service has a key; set one for exa or tavily");
        assert_eq!(told.2.as_deref(), Some("WEB_NO_SEARCH"));
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let web = ctx.mount::<WebPlugin>(over(&Net::default())).unwrap();
            web.running().await.unwrap();
            web.dispose().await.unwrap();
        })
        .await;
        let wrong = root.mount::<WebPlugin>(WebConfig { timeout_s: 0, ..WebConfig::default() }).unwrap();
        assert!(format!("{:#}", wrong.running().await.unwrap_err()).contains("timeout_s"));
    });
}

#[tokio::test]
async fn pages_come_over_the_network() {
    let root = Root::new(TokioRuntime::seams());
    root.mount::<WebPlugin>(WebConfig::default()).unwrap().running().await.unwrap();
    let web = root.get::<dyn Web>().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        for answer in [
            "HTTP/1.1 301 Moved\r\nlocation: /there\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
        ] {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(connection.read_u8().await.unwrap());
            }
            connection.write_all(answer.as_bytes()).await.unwrap();
            connection.shutdown().await.unwrap();
        }
    };
    let (page, ()) = tokio::join!(web.fetch(WebRequest::new(format!("http://{address}/here"))), serve);
    let page = page.unwrap();
    assert_eq!((page.status, &*page.content_type, &page.body[..]), (200, "text/plain", &b"hi"[..]));
    assert_eq!(page.url, format!("http://{address}/there"));
    root.fiber().dispose().await.unwrap();
}
