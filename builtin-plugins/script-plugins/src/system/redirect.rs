//! The place on this machine that a browser comes back to after a login, and the way to open that browser.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use linn_bus::{BoxFuture, Clock};
use linn_process::{Launch, Leader, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::system::working_folder;

/// How long a browser may take to send its request.
const CONNECTION: Duration = Duration::from_secs(10);

/// How long the head of a request may be.
const HEAD_BYTES: usize = 16 * 1024;

/// How many connections are open at the same time.
const MAX_CONNECTIONS: usize = 16;

/// Where a browser comes back to: a port of this machine that nobody else on the network reaches.
#[derive(Debug)]
pub(crate) struct Redirect {
    v4: TcpListener,
    v6: Option<TcpListener>,
    port: u16,
}

/// Why a browser came back without a code.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoCode(pub(crate) String);

/// What one connection came to.
enum Came {
    /// Nothing that concerns the login.
    Nothing,
    Code(String),
    Refused(String),
}

impl Redirect {
    /// Takes a port, on both loopback addresses if that is possible.
    pub(crate) async fn bind() -> io::Result<Self> {
        let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = v4.local_addr()?.port();
        let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok();
        Ok(Self { v4, v6, port })
    }

    /// The address that a browser is sent back to.
    pub(crate) fn uri(&self) -> String {
        format!("http://localhost:{}/callback", self.port)
    }

    /// Waits for the browser and gives its code, or why there is none. Requests that are for something else, or carry
    /// another state, are answered and change nothing.
    ///
    /// Cancel safe.
    pub(crate) async fn code(&self, state: Option<&str>, clock: &Arc<dyn Clock>) -> Result<String, NoCode> {
        let mut open = FuturesUnordered::new();
        loop {
            let is_full = open.len() >= MAX_CONNECTIONS;
            let accept = async { if is_full { std::future::pending().await } else { self.accept().await } };
            let next = async {
                match open.next().await {
                    Some(came) => came,
                    None => std::future::pending().await,
                }
            };
            let first = match select(Box::pin(accept), Box::pin(next)).await {
                Either::Left((accepted, _)) => Either::Left(accepted),
                Either::Right((came, _)) => Either::Right(came),
            };
            match first {
                Either::Left(Ok(connection)) => {
                    open.push(answer(connection, state.map(str::to_owned), clock.sleep(CONNECTION)));
                }
                Either::Left(Err(_)) => clock.sleep(Duration::from_millis(50)).await,
                Either::Right(Came::Nothing) => {}
                Either::Right(Came::Code(code)) => return Ok(code),
                Either::Right(Came::Refused(why)) => return Err(NoCode(why)),
            }
        }
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        match &self.v6 {
            Some(v6) => match select(Box::pin(self.v4.accept()), Box::pin(v6.accept())).await {
                Either::Left((accepted, _)) | Either::Right((accepted, _)) => Ok(accepted?.0),
            },
            None => Ok(self.v4.accept().await?.0),
        }
    }
}

async fn answer(mut connection: TcpStream, state: Option<String>, limit: BoxFuture<'static, ()>) -> Came {
    let exchange = async {
        let head = read_head(&mut connection).await?;
        let (status, title, text, came) = judge(&head, state.as_deref());
        let page = format!("<!doctype html><meta charset=utf-8><title>{title}</title><h1>{title}</h1><p>{text}</p>\n");
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        // The code counts, whether or not the browser waits for the page.
        drop(connection.write_all(answer.as_bytes()).await);
        drop(connection.shutdown().await);
        Some(came)
    };
    match select(Box::pin(exchange), limit).await {
        Either::Left((came, _)) => came.unwrap_or(Came::Nothing),
        Either::Right(_) => Came::Nothing,
    }
}

async fn read_head(connection: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        let n = connection.read(&mut buffer).await.ok()?;
        if n == 0 || head.len() + n > HEAD_BYTES {
            return None;
        }
        head.extend_from_slice(&buffer[..n]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Status, title and text of the page, and what the request means.
fn judge(head: &str, state: Option<&str>) -> (&'static str, &'static str, &'static str, Came) {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != "/callback" {
        return ("404 Not Found", "Nothing here", "This is where a login comes back to.", Came::Nothing);
    }
    if method != "GET" {
        return ("405 Method Not Allowed", "Nothing here", "A login comes back with GET.", Came::Nothing);
    }
    let fields = fields_of(query);
    if query.is_empty() || state.is_some_and(|it| fields.get("state").map(String::as_str) != Some(it)) {
        let text = "This does not belong to the login that is under way.";
        return ("400 Bad Request", "Another login", text, Came::Nothing);
    }
    match fields.get("code").filter(|it| !it.is_empty()) {
        Some(code) => ("200 OK", "Login complete", "You can close this page.", Came::Code(code.clone())),
        None => {
            let why = fields.get("error_description").or_else(|| fields.get("error"));
            let why = why.map_or("no code in redirect".to_owned(), |it| format!("no code in redirect: {it}"));
            ("400 Bad Request", "Login failed", "The provider sent no code. Begin the login anew.", Came::Refused(why))
        }
    }
}

/// The fields of a query, decoded; of two of one name the first counts.
fn fields_of(query: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        fields.entry(decoded(name)).or_insert_with(|| decoded(value));
    }
    fields
}

/// Percent signs and plus signs of a query as what they stand for.
fn decoded(text: &str) -> String {
    let hex = |it: Option<&u8>| it.and_then(|it| char::from(*it).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, width) = match (bytes[at], hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'+', ..) => (b' ', 1),
            (b'%', Some(high), Some(low)) => (u8::try_from(high * 16 + low).unwrap_or(b'?'), 3),
            (byte, ..) => (byte, 1),
        };
        out.push(byte);
        at += width;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Has the system open a page, and waits until its opener is done. Whatever fails is no error: the page is shown as text
/// as well.
pub(crate) async fn open_url(url: &str, environment: &BTreeMap<OsString, OsString>) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let launch = Launch {
        program: program.into(),
        arguments: vec![url.into()],
        cwd: working_folder(&[]).0,
        environment: environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        stdin: Stream::Null,
        outputs: Stream::Null,
    };
    // A browser that is opened for a human outlives the harness.
    let Ok(mut opener) = Leader::start(&launch) else { return };
    opener.exited().await;
    opener.reap();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(target: &str, state: Option<&str>) -> String {
        let (status, _, _, came) = judge(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"), state);
        let came = match came {
            Came::Nothing => "nothing".to_owned(),
            Came::Code(code) => format!("code {code}"),
            Came::Refused(why) => why,
        };
        format!("{}: {came}", &status[..3])
    }

    #[test]
    fn script_20_18_only_the_callback_of_this_login_counts() {
        for (target, state, expected) in [
            ("/callback?code=a%20b+c&state=s", Some("s"), "200: code a b c"),
            ("/callback?code=x", None, "200: code x"),
            ("/favicon.ico", Some("s"), "404: nothing"),
            ("/other?code=x&state=s", Some("s"), "404: nothing"),
            ("/callback", None, "400: nothing"),
            ("/callback?code=x&state=t", Some("s"), "400: nothing"),
            ("/callback?code=x", Some("s"), "400: nothing"),
            ("/callback?error=denied&state=s", Some("s"), "400: no code in redirect: denied"),
            ("/callback?state=s", Some("s"), "400: no code in redirect"),
            ("/callback?code=%zz%e4&state=s", Some("s"), "200: code %zz\u{fffd}"),
        ] {
            assert_eq!(came(target, state), expected, "{target}");
        }
    }
}
