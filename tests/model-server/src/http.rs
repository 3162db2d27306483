//! As much of HTTP/1.1 as a test server needs.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::answer::{Answer, End, Framing, Step};
use crate::gate::Gate;

/// What a client asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(crate) async fn read_request(connection: &mut BufReader<TcpStream>) -> io::Result<Request> {
    let mut line = String::new();
    connection.read_line(&mut line).await?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Err(malformed("no request line")) };
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").map_or(Ok(0), str::parse).map_err(|_| malformed("no length"))?;
    request.body.resize(length, 0);
    connection.read_exact(&mut request.body).await?;
    Ok(request)
}

/// Waits at a gate; false if the client went away meanwhile.
async fn pass(gate: &Gate, connection: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let mut byte = [0];
    tokio::select! {
        () = gate.pass() => Ok(true),
        read = connection.read(&mut byte) => match read? {
            0 => Ok(false),
            _ => Err(malformed("a second request before the first was answered")),
        },
    }
}

/// Sends the answer; ready when the client has all of it, or is gone.
pub(crate) async fn write_answer(connection: &mut BufReader<TcpStream>, answer: Answer) -> io::Result<()> {
    if let Some(gate) = &answer.before_head
        && !pass(gate, connection).await?
    {
        return Ok(());
    }
    let is_chunked = answer.framing != Framing::UntilClosed;
    let mut head = format!("HTTP/1.1 {}\r\nconnection: close\r\n", answer.status);
    if is_chunked {
        head.push_str("transfer-encoding: chunked\r\n");
    }
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    connection.write_all(format!("{head}\r\n").as_bytes()).await?;
    connection.flush().await?;
    for step in answer.steps {
        match step {
            Step::Wait(gate) => {
                if !pass(&gate, connection).await? {
                    return Ok(());
                }
            }
            Step::Send(bytes) => {
                let size = if answer.framing == Framing::Bytes { 1 } else { bytes.len().max(1) };
                for piece in bytes.chunks(size) {
                    let framed = match is_chunked {
                        true => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
                        false => piece.to_vec(),
                    };
                    connection.write_all(&framed).await?;
                    connection.flush().await?;
                }
            }
        }
    }
    match answer.end {
        End::Whole if is_chunked => connection.write_all(b"0\r\n\r\n").await?,
        End::Whole | End::Dropped => {}
        // Reads until the client closes the connection.
        End::Open => drop(connection.read_to_end(&mut Vec::new()).await?),
    }
    connection.flush().await
}
