//! The server as clients see it, over plain sockets.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use linn_model_server::{Answer, Framing, Gate, ModelServer, Wire};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn connect(server: &ModelServer, request: &str) -> TcpStream {
    let base_url = server.base_url();
    let address = base_url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

fn post(body: &str) -> String {
    format!("POST /v1/x HTTP/1.1\r\nContent-Length: {}\r\nX-Key: a: b\r\n\r\n{body}", body.len())
}

/// Head and body of an answer, up to the end of the connection.
async fn ask(server: &ModelServer, request: &str) -> (String, String) {
    let mut answer = String::new();
    connect(server, request).await.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn the_script_is_answered_in_order_and_requests_are_kept() {
    let server = ModelServer::start([
        Answer::stream(["ab", "c"]),
        Answer::stream(["ab"]).framed(Framing::Bytes),
        Answer::stream(["ab"]).framed(Framing::UntilClosed),
        Answer::stream(["ab"]).dropped(),
        Answer::status("429 Too Many Requests", "slow").header("retry-after", "1"),
    ])
    .unwrap();
    assert_eq!(ask(&server, &post("{\"a\":1}")).await.1, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    assert_eq!(ask(&server, &post("")).await.1, "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    let (head, body) = ask(&server, &post("")).await;
    assert!(!head.contains("chunked"), "{head}");
    assert_eq!(body, "ab");
    assert_eq!(ask(&server, &post("")).await.1, "2\r\nab\r\n");
    let (head, _) = ask(&server, &post("")).await;
    assert!(head.starts_with("HTTP/1.1 429 Too Many Requests\r\n") && head.contains("retry-after: 1"), "{head}");
    assert_eq!(server.n_left(), 0);
    assert!(ask(&server, &post("")).await.1.contains("the script has no answer left"));
    server.otherwise(Answer::stream(["z"]));
    assert!(ask(&server, &post("")).await.1.contains('z'));

    let requests = server.requests();
    assert_eq!(requests.len(), 7);
    assert_eq!((requests[0].path.as_str(), requests[0].header("x-key")), ("/v1/x", Some("a: b")));
    assert_eq!(requests[0].json(), json!({ "a": 1 }));
    server.asked(7).await;
    server.closed(7).await;
}

#[tokio::test]
async fn models_are_told_by_path() {
    let server = ModelServer::start([]).unwrap();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n\r\n");
    assert!(ask(&server, &get("/v1/models/info")).await.1.contains("mock-model"));
    server.on_get("/v1/models", Answer::json(&json!({ "data": [{ "id": "m1" }] })));
    server.on_get("*", Answer::status("404 Not Found", "no"));
    assert!(ask(&server, &get("/v1/models?x=1")).await.1.contains("m1"));
    assert!(ask(&server, &get("/v1/models/info")).await.0.starts_with("HTTP/1.1 404"));
    assert_eq!((server.gets().len(), server.requests().len()), (3, 0));
}

#[tokio::test]
async fn an_answer_waits_at_its_gates() {
    let (head, middle) = (Gate::new(), Gate::new());
    let answer = Answer::stream(["one"]).and_wait(&middle).and(["two"]).held_at(&head);
    let server = ModelServer::start([answer]).unwrap();
    let mut connection = connect(&server, &post("")).await;
    head.reached().await;
    head.open();
    middle.reached().await;
    let mut first = [0; 200];
    let mut n = 0;
    while !first[..n].ends_with(b"3\r\none\r\n") {
        n += connection.read(&mut first[n..]).await.unwrap();
    }
    middle.open();
    let mut rest = String::new();
    connection.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed() {
    let (gate, never) = (Gate::new(), Gate::new());
    let server = ModelServer::start([
        Answer::stream(["a"]).open(),
        Answer::stream(["a"]).and_wait(&gate),
        Answer::stream(["a"]).held_at(&never),
    ])
    .unwrap();
    for n in 1..=3 {
        let connection = connect(&server, &post("")).await;
        server.asked(n).await;
        drop(connection);
        server.closed(n).await;
    }
}

#[test]
fn it_needs_no_runtime_and_closes_its_port_when_it_is_dropped() {
    let server = ModelServer::start([Wire::Anthropic.text(&["hi"])]).unwrap();
    let base_url = server.base_url();
    let address = base_url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap().to_owned();
    drop(server);
    std::net::TcpStream::connect(address).unwrap_err();
}
