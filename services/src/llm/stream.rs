//! Streams of answers on their way from an adapter to who asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use linn_bus::BoxFuture;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::llm::{ChunkStream, LlmError};
use crate::model::StreamChunk;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The streams of one adapter that are open. When the adapter goes they get the grace period of its plugin to end, and are
/// dropped then: no code of the adapter runs behind its end.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<Open>);

#[derive(Default)]
struct Open {
    streams: Vec<Weak<Mutex<Slot>>>,
    /// The grace period is over.
    is_cut: bool,
    /// Waits until none is open.
    waiter: Option<Waker>,
}

/// What an adapter is asked for: at first the call, then the stream.
enum Source {
    Opening(BoxFuture<'static, Result<ChunkStream, LlmError>>),
    Open(ChunkStream),
}

/// The place of a source, which is empty while it is polled, and for good when it is over.
#[derive(Default)]
struct Slot {
    source: Option<Source>,
    is_polled: bool,
    is_cut: bool,
    waker: Option<Waker>,
}

impl Slot {
    fn is_over(&self) -> bool {
        self.source.is_none() && !self.is_polled
    }
}

impl OpenStreams {
    /// Asks an adapter by `ask`; ready when its stream is there. `name` is for errors.
    pub(crate) async fn open(
        self: &Arc<Self>,
        name: &str,
        ask: impl FnOnce() -> BoxFuture<'static, Result<ChunkStream, LlmError>>,
    ) -> Result<ChunkStream, LlmError> {
        let name: Arc<str> = name.into();
        let opening = catch_unwind(AssertUnwindSafe(ask));
        let opening = opening.map_err(|panic| panicked(&name, &*panic))?;
        let slot = Arc::new(Mutex::new(Slot { source: Some(Source::Opening(opening)), ..Slot::default() }));
        {
            let mut open = lock(&self.0);
            if open.is_cut {
                return Err(gone(&name));
            }
            open.streams.retain(|it| it.strong_count() > 0);
            open.streams.push(Arc::downgrade(&slot));
        }
        let mut stream = Tracked { slot, open: self.clone(), name };
        std::future::poll_fn(|cx| stream.poll_open(cx)).await?;
        Ok(ChunkStream::around(stream))
    }

    /// Ready when no stream is open. Dropped before, it cuts those that are.
    pub(crate) async fn ended(self: Arc<Self>) {
        let cut = CutWhenDropped(&self);
        std::future::poll_fn(|cx| {
            let mut open = lock(&self.0);
            open.waiter = Some(cx.waker().clone());
            open.streams.retain(|it| it.upgrade().is_some_and(|slot| !lock(&slot).is_over()));
            if open.streams.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(cut);
    }

    fn wake(&self) {
        let waiter = lock(&self.0).waiter.take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

struct CutWhenDropped<'a>(&'a OpenStreams);

impl Drop for CutWhenDropped<'_> {
    fn drop(&mut self) {
        let streams = {
            let mut open = lock(&self.0.0);
            open.is_cut = true;
            std::mem::take(&mut open.streams)
        };
        for slot in streams.iter().filter_map(Weak::upgrade) {
            let (source, waker) = {
                let mut slot = lock(&slot);
                slot.is_cut = true;
                (slot.source.take(), slot.waker.take())
            };
            drop(source);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// A stream of an adapter that ends with the adapter, and whose panics are errors.
struct Tracked {
    slot: Arc<Mutex<Slot>>,
    open: Arc<OpenStreams>,
    name: Arc<str>,
}

impl Tracked {
    /// Takes the source out, has it polled while no lock is held, and puts what `poll` leaves of it back.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Source, &mut Context<'_>) -> (Option<Source>, Poll<Option<Result<T, LlmError>>>),
    ) -> Poll<Option<Result<T, LlmError>>> {
        let source = {
            let mut slot = lock(&self.slot);
            let Some(source) = slot.source.take() else {
                let was_cut = std::mem::take(&mut slot.is_cut);
                return Poll::Ready(was_cut.then(|| Err(gone(&self.name))));
            };
            slot.is_polled = true;
            slot.waker = Some(cx.waker().clone());
            source
        };
        let (left, polled) = catch_unwind(AssertUnwindSafe(|| poll(source, cx)))
            .unwrap_or_else(|panic| (None, Poll::Ready(Some(Err(panicked(&self.name, &*panic))))));
        let (is_over, was_cut) = {
            let mut slot = lock(&self.slot);
            slot.is_polled = false;
            match (slot.is_cut, left) {
                (false, left) => {
                    slot.source = left;
                    (slot.source.is_none(), false)
                }
                (true, left) => {
                    slot.is_cut = false;
                    drop(slot);
                    drop(left);
                    (true, true)
                }
            }
        };
        if is_over {
            self.open.wake();
        }
        if was_cut { Poll::Ready(Some(Err(gone(&self.name)))) } else { polled }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LlmError>> {
        let polled = self.poll(cx, |source, cx| match source {
            Source::Open(stream) => (Some(Source::Open(stream)), Poll::Ready(Some(Ok(())))),
            Source::Opening(mut opening) => match opening.as_mut().poll(cx) {
                Poll::Pending => (Some(Source::Opening(opening)), Poll::Pending),
                Poll::Ready(Ok(stream)) => (Some(Source::Open(stream)), Poll::Ready(Some(Ok(())))),
                Poll::Ready(Err(error)) => (None, Poll::Ready(Some(Err(error)))),
            },
        });
        polled.map(|it| it.unwrap_or_else(|| Err(gone(&self.name))))
    }
}

impl Stream for Tracked {
    type Item = Result<StreamChunk, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx, |source, cx| match source {
            Source::Opening(_) => (None, Poll::Ready(None)),
            Source::Open(mut stream) => match Pin::new(&mut stream).poll_next(cx) {
                Poll::Ready(None) => (None, Poll::Ready(None)),
                Poll::Ready(Some(Err(error))) => (None, Poll::Ready(Some(Err(error)))),
                polled => (Some(Source::Open(stream)), polled),
            },
        })
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let source = lock(&self.slot).source.take();
        drop(source);
        self.open.wake();
    }
}

/// A stream that keeps its word: it ends with its finish, with an error, and with the signal of its request, and whatever
/// is behind it is dropped then.
pub(crate) struct Answering {
    stream: Option<ChunkStream>,
    signal: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Answering {
    pub(crate) fn guard(stream: ChunkStream, signal: CancellationToken) -> ChunkStream {
        ChunkStream::around(Self { stream: Some(stream), signal: Box::pin(signal.cancelled_owned()) })
    }
}

impl Stream for Answering {
    type Item = Result<StreamChunk, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stream.is_none() {
            return Poll::Ready(None);
        }
        if self.signal.as_mut().poll(cx).is_ready() {
            self.stream = None;
            return Poll::Ready(Some(Err(LlmError::aborted())));
        }
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let polled = Pin::new(stream).poll_next(cx);
        if let Poll::Ready(None | Some(Err(_) | Ok(StreamChunk::Finish { .. }))) = polled {
            self.stream = None;
        }
        polled
    }
}

fn gone(adapter: &str) -> LlmError {
    LlmError::new("ADAPTER_GONE", format!("adapter `{adapter}` was unloaded while it answered")).retryable()
}

fn panicked(adapter: &str, panic: &(dyn std::any::Any + Send)) -> LlmError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    LlmError::new("ADAPTER_PANICKED", format!("adapter `{adapter}` panicked: {text}"))
}
