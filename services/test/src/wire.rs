//! An endpoint that answers from a script, for adapters that are tested without a network.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use linn_bus::BoxFuture;
use linn_services::llm::wire::{HttpRequest, HttpResponse, Transport, TransportError};

/// How a scripted body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Dropped,
    Open,
}

/// One scripted answer over HTTP.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    status: Option<u16>,
    reason: String,
    headers: Vec<(String, String)>,
    pieces: Vec<Bytes>,
    end: End,
}

impl HttpAnswer {
    /// A success whose body comes in these pieces.
    pub fn stream<T: AsRef<[u8]>>(pieces: impl IntoIterator<Item = T>) -> Self {
        let pieces = pieces.into_iter().map(|it| Bytes::copy_from_slice(it.as_ref())).collect();
        Self { status: Some(200), reason: "OK".to_owned(), headers: Vec::new(), pieces, end: End::Closed }
    }

    /// Another status, with a body.
    pub fn status(status: u16, reason: &str, body: &str) -> Self {
        Self { status: Some(status), reason: reason.to_owned(), ..Self::stream([body]) }
    }

    /// No connection.
    pub fn refused() -> Self {
        Self { status: None, ..Self::stream::<&[u8]>([]) }
    }

    /// The same with a header; names are in lower case.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same; behind the last piece the connection breaks.
    pub fn dropped(self) -> Self {
        Self { end: End::Dropped, ..self }
    }

    /// The same; behind the last piece nothing comes any more, and the connection stays.
    pub fn open(self) -> Self {
        Self { end: End::Open, ..self }
    }
}

/// A transport that answers from a script, one answer a request, and keeps what it was asked. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct ScriptedTransport(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    script: VecDeque<HttpAnswer>,
    requests: Vec<Arc<HttpRequest>>,
}

impl ScriptedTransport {
    /// A transport with a script.
    pub fn new(script: impl IntoIterator<Item = HttpAnswer>) -> Self {
        Self(Arc::new(Mutex::new(State { script: script.into_iter().collect(), requests: Vec::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<Arc<HttpRequest>> {
        self.state().requests.clone()
    }
}

impl Transport for ScriptedTransport {
    fn post(&self, request: Arc<HttpRequest>) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let answer = {
            let mut state = self.state();
            state.requests.push(request);
            state.script.pop_front()
        };
        Box::pin(async move {
            let refused = |why: &str| TransportError(why.to_owned());
            let answer = answer.ok_or_else(|| refused("the script has no answer left"))?;
            let status = answer.status.ok_or_else(|| refused("connection refused"))?;
            let body = stream::iter(answer.pieces.into_iter().map(Ok));
            let body = match answer.end {
                End::Closed => body.boxed(),
                End::Dropped => body.chain(stream::iter([Err(refused("connection reset"))])).boxed(),
                End::Open => body.chain(stream::pending()).boxed(),
            };
            Ok(HttpResponse { status, reason: answer.reason, headers: answer.headers, body })
        })
    }
}
