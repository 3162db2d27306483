//! One scripted answer.

use crate::gate::Gate;

/// How the bytes of a body are cut on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A piece of the script is a chunk.
    Pieces,
    /// A byte is a chunk.
    Bytes,
    /// No chunks and no length: the body ends with the connection.
    UntilClosed,
}

/// What is done next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Gate),
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    Dropped,
    Open,
}

/// One scripted answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) status: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) before_head: Option<Gate>,
    pub(crate) steps: Vec<Step>,
    pub(crate) framing: Framing,
    pub(crate) end: End,
}

impl Answer {
    /// A success that streams these pieces, which may be any bytes.
    pub fn stream<T: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self {
            status: "200 OK".to_owned(),
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            before_head: None,
            steps: pieces.into_iter().map(|it| Step::Send(it.into())).collect(),
            framing: Framing::Pieces,
            end: End::Whole,
        }
    }

    /// Another status, such as `429 Too Many Requests`, with a body.
    pub fn status(status: &str, body: &str) -> Self {
        Self { status: status.to_owned(), headers: Vec::new(), ..Self::stream([body]) }
    }

    /// A success with JSON.
    pub fn json(value: &serde_json::Value) -> Self {
        Self::status("200 OK", &value.to_string()).header("content-type", "application/json")
    }

    /// The same with a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, and more pieces.
    pub fn and<T: Into<Vec<u8>>>(mut self, pieces: impl IntoIterator<Item = T>) -> Self {
        self.steps.extend(pieces.into_iter().map(|it| Step::Send(it.into())));
        self
    }

    /// The same; it waits at `gate` with what came so far already sent.
    pub fn and_wait(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// The same; it waits at `gate` before anything is sent.
    pub fn held_at(mut self, gate: &Gate) -> Self {
        self.before_head = Some(gate.clone());
        self
    }

    /// The same, cut in another way.
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// The same; behind the last piece the connection closes, and the body has no end.
    pub fn dropped(self) -> Self {
        Self { end: End::Dropped, ..self }
    }

    /// The same; behind the last piece nothing comes, and the connection stays until the client closes it.
    pub fn open(self) -> Self {
        Self { end: End::Open, ..self }
    }
}
