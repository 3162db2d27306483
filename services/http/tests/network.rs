//! The client over the loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_http::{HttpError, Network, NetworkConfig, ReadError, Redirects, Request};
use linn_services::llm::wire::{HttpRequest, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A server that gives these answers, one a connection, and then hands out what it was asked.
struct Server {
    at: String,
    listener: TcpListener,
}

impl Server {
    async fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        Self { at, listener }
    }

    /// Answers as many connections as there are answers; what they asked, as text.
    async fn answers(&self, answers: &[String]) -> Vec<String> {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = self.listener.accept().await.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !is_whole(&request) {
                let n = stream.read(&mut buffer).await.unwrap();
                assert_ne!(n, 0, "the request breaks off: {}", String::from_utf8_lossy(&request));
                request.extend_from_slice(&buffer[..n]);
            }
            asked.push(String::from_utf8(request).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
        asked
    }
}

/// Whether a request has come with its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nx-more: yes\r\n\r\n{body}", body.len())
}

fn leads_to(url: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n")
}

fn following() -> Network {
    Network::new(NetworkConfig { redirects: Redirects::Followed(2), ..NetworkConfig::default() })
}

#[tokio::test(flavor = "current_thread")]
async fn a_request_carries_its_headers_and_its_body() {
    let server = Server::open().await;
    let network = Network::new(NetworkConfig { user_agent: Some("linn-test/1"), ..NetworkConfig::default() });
    let headers = vec![("content-type".to_owned(), "application/json".into()), ("x-key".to_owned(), "k".into())];
    let request = Request::post(format!("{}/a?b=c", server.at), "{}").headers(headers);
    assert_eq!(format!("{request:?}"), r#"Request { headers: ["content-type", "x-key"], n_bytes: Some(2), .. }"#);
    let answers = [ok("yes")];
    let (asked, answer) = tokio::join!(server.answers(&answers), network.send(request));
    let answer = answer.unwrap();
    assert_eq!((answer.status, answer.reason.as_str(), answer.length_bytes), (200, "OK", Some(3)));
    assert_eq!((answer.header("x-more"), answer.header("x-less")), (Some("yes"), None));
    assert_eq!(answer.whole(3).await.unwrap(), b"yes");
    let asked = asked[0].to_lowercase();
    assert!(asked.starts_with("post /a?b=c http/1.1\r\n"), "{asked}");
    for part in ["content-type: application/json\r\n", "x-key: k\r\n", "user-agent: linn-test/1\r\n", "\r\n\r\n{}"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn adapters_post_through_it() {
    let server = Server::open().await;
    let (url, headers) = (server.at.clone(), vec![("authorization".to_owned(), "Bearer k".into())]);
    let request = Arc::new(HttpRequest { url, headers, body: "{}".into(), secrets: Vec::new() });
    let network = Network::default();
    let answers = [ok("data: 1\n\n")];
    let (asked, response) = tokio::join!(server.answers(&answers), network.post(request));
    let mut response = response.unwrap();
    assert_eq!((response.status, response.header("x-more")), (200, Some("yes")));
    assert_eq!(response.body.next().await.unwrap().unwrap(), "data: 1\n\n");
    assert!(asked[0].starts_with("POST / "), "{asked:?}");
    assert!(asked[0].contains("authorization: Bearer k\r\n"), "{asked:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_redirect_is_the_answer_unless_it_is_to_be_followed() {
    let server = Server::open().await;
    let answers = [leads_to("http://127.0.0.1:1/elsewhere")];
    let network = Network::default();
    let (_, answer) = tokio::join!(server.answers(&answers), network.send(Request::get(&server.at)));
    let answer = answer.unwrap();
    assert_eq!((answer.status, answer.header("location")), (302, Some("http://127.0.0.1:1/elsewhere")));
}

#[tokio::test(flavor = "current_thread")]
async fn a_followed_redirect_takes_no_key_to_another_host() {
    let (first, second) = (Server::open().await, Server::open().await);
    let request = Request::get(&first.at).headers(vec![("authorization".to_owned(), "Bearer k".into())]);
    let (network, elsewhere, yes) = (following(), [leads_to(&second.at)], [ok("yes")]);
    let (asked, asked_then, answer) =
        tokio::join!(first.answers(&elsewhere), second.answers(&yes), network.send(request));
    assert_eq!(answer.unwrap().whole(10).await.unwrap(), b"yes");
    assert!(asked[0].contains("authorization: Bearer k\r\n"), "{asked:?}");
    assert!(!asked_then[0].contains("authorization"), "{asked_then:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn redirects_without_end_are_an_error() {
    let server = Server::open().await;
    let answers = vec![leads_to(&server.at); 3];
    let network = following();
    let (_, answer) = tokio::join!(server.answers(&answers), network.send(Request::get(&server.at)));
    let HttpError(why) = answer.unwrap_err();
    assert!(why.contains("it was sent elsewhere too often"), "{why}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_body_that_is_too_large_is_not_read_to_its_end() {
    let server = Server::open().await;
    let network = Network::default();
    let answers = [ok("12345")];
    let (_, answer) = tokio::join!(server.answers(&answers), network.send(Request::get(&server.at)));
    assert_eq!(answer.unwrap().whole(4).await.unwrap_err(), ReadError::TooLarge { size_bytes: 5 });

    // Nobody says how long it is.
    let answers = ["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n12345".to_owned()];
    let (_, answer) = tokio::join!(server.answers(&answers), network.send(Request::get(&server.at)));
    let answer = answer.unwrap();
    assert_eq!(answer.length_bytes, None);
    assert!(matches!(answer.whole(4).await.unwrap_err(), ReadError::TooLarge { size_bytes: 5 }));
}

#[tokio::test(flavor = "current_thread")]
async fn errors_hold_no_address() {
    let server = Server::open().await;
    let at = format!("{}/?key=hidden", server.at);
    drop(server);
    let HttpError(why) = Network::default().send(Request::get(at)).await.unwrap_err();
    assert!(!why.contains("hidden") && !why.contains("127.0.0.1:"), "{why}");
    let HttpError(why) = Network::default().send(Request::get("http://[hidden")).await.unwrap_err();
    assert!(!why.contains("hidden"), "{why}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_header_that_cannot_be_sent_is_named_without_its_value() {
    let request = Request::get("http://127.0.0.1:1").headers(vec![("x-key".to_owned(), "hid\nden".into())]);
    let error = Network::default().send(request).await.unwrap_err();
    assert_eq!(error, HttpError("header `x-key` cannot be sent".to_owned()));
}

#[tokio::test(flavor = "current_thread")]
async fn an_answer_that_does_not_come_in_time_is_given_up() {
    let server = Server::open().await;
    let timeout = Some(Duration::from_millis(1));
    let network = Network::new(NetworkConfig { timeout, ..NetworkConfig::default() });
    // The connection is made by the system, and nobody answers on it.
    let HttpError(why) = network.send(Request::get(&server.at)).await.unwrap_err();
    assert!(why.contains("timed out"), "{why}");
}
