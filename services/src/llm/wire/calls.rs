//! Asks an endpoint, reads its stream, and tries again where that may help.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use linn_bus::{BoxFuture, Clock, Context};
use secrecy::SecretString;

use crate::events::LlmRetry;
use crate::llm::wire::{
    Backoff, Body, Failure, Frame, HttpRequest, HttpResponse, SseParser, Transport, TransportError, clean_text,
    error_text, hint_ms, status_error,
};
use crate::llm::{ChunkStream, LlmError};
use crate::model::{FinishReason, GenerateRequest, StreamChunk};

/// Most bytes of an error answer that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Most characters of a malformed event that are shown.
const PREVIEW_CHARS: usize = 200;

/// Limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long nothing at all may come, in milliseconds.
    pub idle_ms: u64,
    /// How long to wait behind the finish for what it cost, in milliseconds.
    pub grace_ms: u64,
    /// How long to read an error answer, in milliseconds.
    pub error_body_ms: u64,
    /// How often a request is sent until the endpoint takes it.
    pub n_requests: u32,
    /// How often a stream is begun until one ends well.
    pub n_streams: u32,
    /// Whether an answer without text and calls is asked for once more, and is an error the second time.
    pub retries_empty: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle_ms: 120_000,
            grace_ms: 2000,
            error_body_ms: 5000,
            n_requests: 4,
            n_streams: 3,
            retries_empty: false,
        }
    }
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer goes on.
    Answering,
    /// The endpoint has finished; what it cost may still come.
    Finished,
    /// Nothing more comes.
    Closed,
}

/// Makes chunks of the frames of one stream.
pub trait Decoder: Send + 'static {
    /// Takes an event in.
    ///
    /// # Errors
    ///
    /// Those that the endpoint tells, and [`malformed`](Calls::malformed) ones.
    fn frame(&mut self, frame: Frame<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError>;

    /// How far the answer is.
    fn progress(&self) -> Progress;

    /// The answer has ended: what was held back, then usage, then the finish.
    fn end(&mut self, out: &mut VecDeque<StreamChunk>);
}

/// Asks endpoints through a transport.
#[derive(Clone)]
pub struct Calls {
    ctx: Context,
    transport: Arc<dyn Transport>,
    limits: Limits,
}

impl Calls {
    /// Calls that tell the events and the time of `ctx`.
    pub fn new(ctx: Context, transport: Arc<dyn Transport>, limits: Limits) -> Self {
        Self { ctx, transport, limits }
    }

    /// An event that cannot be read. `secrets` are not shown.
    pub fn malformed(data: &[u8], secrets: &[SecretString]) -> LlmError {
        let text = String::from_utf8_lossy(&data[..data.len().min(4 * PREVIEW_CHARS)]).into_owned();
        let preview: String = clean_text(&text, secrets).chars().take(PREVIEW_CHARS).collect();
        LlmError::new("MALFORMED_RESPONSE", format!("malformed provider stream event: {preview}"))
    }

    /// Sends `http`, and gives the stream of the answer once there is one. Each attempt is read by a decoder of its own.
    ///
    /// A failed attempt that another may make good is told as [`LlmRetry`]. If it passed chunks on, the next thing in the
    /// stream is [`StreamChunk::Discard`].
    ///
    /// Cancel safe: dropping the future or the stream ends the connection, and so does the signal of the request.
    ///
    /// # Errors
    ///
    /// Those of the last attempt, and `ABORTED`.
    pub async fn stream<D: Decoder>(
        &self,
        request: Arc<GenerateRequest>,
        http: HttpRequest,
        decoder: impl Fn() -> D + Send + 'static,
    ) -> Result<ChunkStream, LlmError> {
        let mut run = Box::new(Run {
            calls: self.clone(),
            request,
            http: Arc::new(http),
            decoder: Box::new(decoder),
            reading: None,
            out: VecDeque::new(),
            failure: None,
            n_streams: 0,
            has_output: false,
            is_visible: false,
            has_thought: false,
            was_empty: false,
            is_over: false,
        });
        let signal = run.request.signal.clone();
        match signal.run_until_cancelled(run.open()).await {
            Some(opened) => opened?,
            None => return Err(LlmError::aborted()),
        }
        let chunks = stream::unfold(run, async |mut run| {
            let next = run.next().await?;
            Some((next, run))
        });
        Ok(ChunkStream::around(chunks))
    }

    /// Sends the request once.
    async fn send(&self, http: &Arc<HttpRequest>) -> Result<HttpResponse, Failure> {
        let limit_ms = self.limits.idle_ms;
        let posted = self.transport.post(http.clone());
        let response = match within(posted, self.sleep(limit_ms)).await {
            Some(Ok(response)) => response,
            Some(Err(error)) => {
                let error = LlmError::new("TRANSPORT", clean_text(&error.to_string(), &http.secrets)).retryable();
                return Err(Failure { error, hint_ms: None, reason: Some("transport error") });
            }
            None => {
                let error = stalled(limit_ms).retryable();
                return Err(Failure { error, hint_ms: None, reason: Some("transport error") });
            }
        };
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let hint_ms = hint_ms(&response, self.clock().now());
        let (status, reason) = (response.status, response.reason.clone());
        let body = self.error_body(response.body).await;
        let error = status_error(status, &reason, &error_text(&body, &http.secrets));
        Err(Failure { error, hint_ms, reason: None })
    }

    /// What comes of an error answer within its limits.
    async fn error_body(&self, mut body: Body) -> Vec<u8> {
        let mut read = Vec::new();
        let reading = async {
            while let Some(Ok(bytes)) = body.next().await {
                let room = MAX_ERROR_BYTES - read.len();
                read.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if read.len() == MAX_ERROR_BYTES {
                    break;
                }
            }
        };
        // What came until then is shown.
        let _ = within(Box::pin(reading), self.sleep(self.limits.error_body_ms)).await;
        read
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.ctx.clock()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.clock().sleep(Duration::from_millis(ms))
    }
}

/// One call with all its attempts.
struct Run<D> {
    calls: Calls,
    request: Arc<GenerateRequest>,
    http: Arc<HttpRequest>,
    decoder: Box<dyn Fn() -> D + Send>,
    reading: Option<Reading<D>>,
    out: VecDeque<StreamChunk>,
    /// How the stream failed, told when all that came before it is passed on.
    failure: Option<Failure>,
    n_streams: u32,
    /// Whether this attempt passed anything on.
    has_output: bool,
    /// Whether this attempt passed text or a call on.
    is_visible: bool,
    /// Whether this attempt passed reasoning on.
    has_thought: bool,
    /// Whether an attempt came to nothing.
    was_empty: bool,
    is_over: bool,
}

/// What to do about a failed attempt.
struct Again {
    attempt: u32,
    status: Option<u16>,
    reason: Option<String>,
    backoff_ms: u64,
}

impl<D: Decoder> Run<D> {
    /// Sends the request until the endpoint takes it.
    async fn open(&mut self) -> Result<(), LlmError> {
        self.n_streams += 1;
        let mut attempt = 1;
        loop {
            let failure = match self.calls.send(&self.http).await {
                Ok(response) => {
                    self.reading = Some(Reading::new(response.body, (self.decoder)(), &self.calls, &self.http));
                    return Ok(());
                }
                Err(failure) => failure,
            };
            let limit = self.calls.limits.n_requests;
            if !failure.error.is_retryable || attempt >= limit {
                let is_transport = failure.error.code.as_deref() == Some("TRANSPORT");
                return Err(if is_transport { used_up(failure.error, attempt) } else { failure.error });
            }
            let backoff_ms = wait_ms(attempt, &failure)?;
            let (status, reason) = (failure.error.status, failure.reason.map(str::to_owned));
            self.tell(Again { attempt, status, reason, backoff_ms }, false);
            self.calls.sleep(backoff_ms).await;
            attempt += 1;
        }
    }

    /// The next chunk.
    async fn next(&mut self) -> Option<Result<StreamChunk, LlmError>> {
        loop {
            if let Some(chunk) = self.out.pop_front() {
                if let StreamChunk::Finish { reason } = &chunk {
                    if self.calls.limits.retries_empty && self.is_nothing(reason) {
                        self.failure = Some(self.nothing());
                        continue;
                    }
                    self.is_over = true;
                }
                self.has_output = true;
                match &chunk {
                    StreamChunk::TextDelta { text, .. } => self.is_visible |= !text.trim().is_empty(),
                    StreamChunk::ToolCallDelta { .. } => self.is_visible = true,
                    StreamChunk::ReasoningDelta { .. } => self.has_thought = true,
                    _ => {}
                }
                return Some(Ok(chunk));
            }
            if self.is_over {
                return None;
            }
            let signal = self.request.signal.clone();
            let stepped = signal.run_until_cancelled(self.step()).await;
            match stepped.unwrap_or_else(|| Err(LlmError::aborted())) {
                Ok(()) => {}
                Err(error) => {
                    self.is_over = true;
                    self.reading = None;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads on, or begins anew.
    async fn step(&mut self) -> Result<(), LlmError> {
        if let Some(failure) = self.failure.take() {
            self.reading = None;
            self.again(failure).await?;
        }
        match &mut self.reading {
            Some(reading) => self.failure = reading.more(&mut self.out).await.err(),
            None => self.open().await?,
        }
        Ok(())
    }

    /// Waits for the next attempt, if there is one.
    async fn again(&mut self, failure: Failure) -> Result<(), LlmError> {
        let attempt = self.n_streams;
        let may_help = match self.has_output {
            true => failure.error.is_retryable,
            // Nothing was lost yet.
            false => {
                let code = failure.error.code.as_deref().unwrap_or_default();
                failure.error.is_retryable || matches!(code, "STALLED" | "MALFORMED_RESPONSE")
            }
        };
        if !may_help || attempt >= self.calls.limits.n_streams {
            return Err(failure.error);
        }
        let backoff_ms = wait_ms(attempt, &failure)?;
        let reason = failure.reason.unwrap_or(if self.has_output {
            "retryable stream error after partial output"
        } else {
            "stream error before first token"
        });
        self.tell(Again { attempt, status: None, reason: Some(reason.to_owned()), backoff_ms }, self.has_output);
        self.calls.sleep(backoff_ms).await;
        self.open().await?;
        // Not before: if no attempt comes of it, what was passed on stays as the part of an answer that it is.
        if std::mem::take(&mut self.has_output) {
            self.out.push_back(StreamChunk::Discard);
        }
        (self.is_visible, self.has_thought) = (false, false);
        Ok(())
    }

    fn tell(&self, again: Again, discard_partial: bool) {
        let Again { attempt, status, reason, backoff_ms } = again;
        self.calls.ctx.emit(&LlmRetry {
            session_id: self.request.session_id.clone(),
            model: self.request.model(),
            attempt,
            status,
            reason,
            backoff_ms,
            discard_partial,
        });
    }

    fn is_nothing(&self, reason: &FinishReason) -> bool {
        !self.is_visible && matches!(reason, FinishReason::Stop | FinishReason::ToolCalls)
    }

    /// The answer has neither text nor a call.
    fn nothing(&mut self) -> Failure {
        const AGAIN: [&str; 2] = [
            "provider returned an empty response; retrying once and requiring either a structured tool call or visible response",
            "provider returned a reasoning-only response; retrying once and requiring either a structured tool call or visible response",
        ];
        let issue = if self.has_thought { "a reasoning-only response" } else { "an empty response" };
        let error = format!("provider returned {issue}; retry also produced no usable assistant response");
        let error = LlmError::new("EMPTY_ANSWER", error);
        let is_first = !std::mem::replace(&mut self.was_empty, true);
        let error = if is_first { error.retryable() } else { error };
        Failure { error, hint_ms: None, reason: Some(AGAIN[usize::from(self.has_thought)]) }
    }
}

/// Reads one stream.
struct Reading<D> {
    body: Body,
    sse: SseParser,
    decoder: D,
    idle: Idle,
    is_closed: bool,
    /// The beginning of a body that is no stream of events.
    other: Option<Vec<u8>>,
    has_bytes: bool,
    secrets: Vec<SecretString>,
}

/// What a read gives.
enum Read {
    Bytes(Bytes),
    End,
    Failed(TransportError),
    Nothing,
}

impl<D: Decoder> Reading<D> {
    fn new(body: Body, decoder: D, calls: &Calls, http: &HttpRequest) -> Self {
        let idle = Idle::new(calls.clock().clone(), calls.limits);
        let secrets = http.secrets.clone();
        let (sse, other) = (SseParser::new(), None);
        Self { body, sse, decoder, idle, is_closed: false, other, has_bytes: false, secrets }
    }

    /// No line of a stream of events begins as JSON and HTML do: endpoints that do not stream say what is wrong that way.
    fn look(&mut self, bytes: &[u8]) {
        if !self.has_bytes {
            let Some(first) = bytes.trim_ascii_start().first() else { return };
            self.has_bytes = true;
            self.other = matches!(first, b'{' | b'[' | b'<').then(Vec::new);
        }
        if let Some(other) = &mut self.other {
            let room = MAX_ERROR_BYTES - other.len();
            other.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Reads once.
    async fn more(&mut self, out: &mut VecDeque<StreamChunk>) -> Result<(), Failure> {
        let has_finished = self.decoder.progress() != Progress::Answering;
        let read = std::future::poll_fn(|cx| self.poll_read(cx, has_finished)).await;
        let mut is_over = true;
        match read {
            Read::Bytes(bytes) => {
                self.look(&bytes);
                let decoder = &mut self.decoder;
                self.sse.feed(&bytes, |frame| take(decoder, frame, out))?;
                is_over = decoder.progress() == Progress::Closed;
            }
            Read::End => {
                let decoder = &mut self.decoder;
                // An event that was cut off says nothing; that the answer is not whole is told below.
                let cut = self.sse.finish(|frame| take(decoder, frame, out)).err();
                if decoder.progress() == Progress::Answering {
                    if let Some(other) = &self.other {
                        return Err(no_stream(other, &self.secrets).into());
                    }
                    return Err(cut
                        .map_or_else(incomplete, |error| match error.code.as_deref() {
                            Some("MALFORMED_RESPONSE") => incomplete(),
                            _ => error,
                        })
                        .into());
                }
            }
            Read::Failed(error) if !has_finished => {
                let error = clean_text(&error.to_string(), &self.secrets);
                return Err(LlmError::new("STREAM_READ", format!("stream read error: {error}")).retryable().into());
            }
            Read::Nothing if !has_finished => return Err(stalled(self.idle.limits.idle_ms).into()),
            // What was still to come is not needed.
            Read::Failed(_) | Read::Nothing => {}
        }
        if is_over && !std::mem::replace(&mut self.is_closed, true) {
            self.decoder.end(out);
        }
        Ok(())
    }

    fn poll_read(&mut self, cx: &mut TaskContext<'_>, has_finished: bool) -> Poll<Read> {
        match self.body.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                self.idle.last = self.idle.clock.monotonic();
                Poll::Ready(Read::Bytes(bytes))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Read::Failed(error)),
            Poll::Ready(None) => Poll::Ready(Read::End),
            Poll::Pending => self.idle.poll(cx, has_finished).map(|()| Read::Nothing),
        }
    }
}

fn take<D: Decoder>(decoder: &mut D, frame: Frame<'_>, out: &mut VecDeque<StreamChunk>) -> Result<(), LlmError> {
    if decoder.progress() == Progress::Closed {
        return Ok(());
    }
    decoder.frame(frame, out)
}

/// Tells when nothing came for too long. The timer is set once and again when it is due, not for every read.
struct Idle {
    clock: Arc<dyn Clock>,
    limits: Limits,
    last: Duration,
    timer: Option<(bool, BoxFuture<'static, ()>)>,
}

impl Idle {
    fn new(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self { last: clock.monotonic(), clock, limits, timer: None }
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>, has_finished: bool) -> Poll<()> {
        let limit = Duration::from_millis(if has_finished { self.limits.grace_ms } else { self.limits.idle_ms });
        loop {
            let left = |idle: &Self| limit.saturating_sub(idle.clock.monotonic().saturating_sub(idle.last));
            let timer = match &mut self.timer {
                Some((of, timer)) if *of == has_finished => timer,
                _ => {
                    let timer = self.clock.sleep(left(self));
                    &mut self.timer.insert((has_finished, timer)).1
                }
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
            if left(self).is_zero() {
                return Poll::Ready(());
            }
        }
    }
}

/// What comes first: the answer, or the end of the time for it.
async fn within<T>(future: impl Future<Output = T> + Unpin, timer: BoxFuture<'static, ()>) -> Option<T> {
    match futures_util::future::select(future, timer).await {
        futures_util::future::Either::Left((answer, _)) => Some(answer),
        futures_util::future::Either::Right(_) => None,
    }
}

fn wait_ms(attempt: u32, failure: &Failure) -> Result<u64, LlmError> {
    match Backoff::after(attempt, failure.hint_ms) {
        Backoff::Wait(ms) => Ok(ms),
        Backoff::TooLong(ms) => {
            let mut error = failure.error.clone();
            error.message = format!("{}; the provider asks to wait {} s", error.message, ms.div_ceil(1000));
            Err(error)
        }
    }
}

fn used_up(mut error: LlmError, n_attempts: u32) -> LlmError {
    error.message = format!("request failed after {n_attempts} attempts: {}", error.message);
    error
}

fn stalled(limit_ms: u64) -> LlmError {
    LlmError::new("STALLED", format!("stream idle timeout ({}s with no data)", limit_ms.div_ceil(1000)))
}

fn no_stream(body: &[u8], secrets: &[SecretString]) -> LlmError {
    LlmError::new("NOT_A_STREAM", format!("the provider did not stream its answer: {}", error_text(body, secrets)))
}

fn incomplete() -> LlmError {
    LlmError::new("INCOMPLETE", "the connection closed before the answer was complete").retryable()
}
