//! The network itself, on the loopback.

use std::sync::Arc;

use linn_bus::{Root, TokioRuntime};
use linn_plugin_providers::{ProvidersConfig, ProvidersPlugin};
use linn_services::llm::LlmPlugin;
use linn_services::providers::{EndpointDraft, Providers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers one request after another with what `answer` makes of its head, until the connection of the test is gone.
async fn serve(listener: TcpListener, answers: Vec<String>) -> Vec<String> {
    let mut heads = Vec::new();
    for answer in answers {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
        heads.push(String::from_utf8(head).unwrap());
        // The other side may have seen enough before the end.
        let _ = connection.write_all(answer.as_bytes()).await;
        let _ = connection.shutdown().await;
    }
    heads
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

async fn providers(root: &Root) -> linn_bus::Svc<dyn Providers> {
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    let mut config = ProvidersConfig { catalogue_url: String::new(), ..ProvidersConfig::default() };
    // Nobody listens there.
    config.default.base_url = "http://127.0.0.1:9".to_owned();
    root.mount::<ProvidersPlugin>(config).unwrap().running().await.unwrap();
    root.get().unwrap()
}

#[tokio::test]
async fn models_come_over_the_network() {
    let root = Root::new(TokioRuntime::seams());
    let providers = providers(&root).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answers = vec![http("404 Not Found", "", "{}"), http("200 OK", "", r#"{"data":[{"id":"m"}]}"#)];
    let draft = EndpointDraft { base_url, api_key: Some("k".into()), ..EndpointDraft::default() };
    let (models, heads) = tokio::join!(providers.preview(draft), serve(listener, answers));
    assert_eq!(models.unwrap()[0].id, "m");
    assert!(heads[0].starts_with("GET /v1/models/info HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[1].starts_with("GET /v1/models HTTP/1.1\r\n"), "{}", heads[1]);
    assert!(heads[1].to_ascii_lowercase().contains("authorization: bearer k\r\n"), "{}", heads[1]);
    root.fiber().dispose().await.unwrap();
}

#[tokio::test]
async fn r139_a_key_goes_to_no_other_address() {
    let root = Root::new(TokioRuntime::seams());
    let providers = providers(&root).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let away = http("302 Found", "location: http://127.0.0.1:9/elsewhere\r\n", "");
    let draft = EndpointDraft { base_url, api_key: Some("k".into()), ..EndpointDraft::default() };
    let (models, heads) = tokio::join!(providers.preview(draft), serve(listener, vec![away.clone(), away]));
    let error = models.unwrap_err().to_string();
    assert!(error.contains("HTTP 302"), "{error}");
    assert_eq!(heads.len(), 2);
    root.fiber().dispose().await.unwrap();
}

#[tokio::test]
async fn a_body_without_end_is_given_up() {
    let root = Root::new(TokioRuntime::seams());
    let providers = providers(&root).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let long = Arc::new(http("200 OK", "", &" ".repeat((8 << 20) + 1)));
    let draft = EndpointDraft { base_url, ..EndpointDraft::default() };
    let (models, _) = tokio::join!(providers.preview(draft), serve(listener, vec![long.to_string(), long.to_string()]));
    let error = models.unwrap_err().to_string();
    assert!(error.contains("more than 8388608 bytes"), "{error}");
    root.fiber().dispose().await.unwrap();
}

#[tokio::test]
async fn nobody_who_listens_is_an_error_in_words() {
    let root = Root::new(TokioRuntime::seams());
    let providers = providers(&root).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let draft = EndpointDraft { base_url: format!("{base_url}/?key=sk-1"), ..EndpointDraft::default() };
    let error = providers.preview(draft).await.unwrap_err();
    let linn_services::providers::ProvidersError::NoModels { why, .. } = &error else { panic!("{error}") };
    assert!(why.starts_with("no connection") && !why.contains("sk-1"), "{why}");
    root.fiber().dispose().await.unwrap();
}
