//! Log lines and panics of a library, taken to the program.
//!
//! The library's copy of `tracing` has no subscriber but the one here, which turns what it is told into text. The program's
//! side says it again, with the name of the library.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::bus::lock;

/// Levels as numbers, the gravest first.
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

fn number_of(level: Level) -> usize {
    LEVELS.iter().position(|it| *it == level).unwrap_or(LEVELS.len() - 1)
}

/// What a library says.
pub(crate) struct Line<'a> {
    level: usize,
    target: &'a str,
    text: &'a str,
}

/// The program's side.
pub(crate) trait Sink: Send + Sync {
    fn is_enabled(&self, level: usize) -> bool;
    fn say(&self, line: &Line<'_>);
}

struct Here {
    library: String,
}

/// This program's side, for the library of this name.
pub(super) fn sink(library: &str) -> Arc<dyn Sink> {
    Arc::new(Here { library: library.to_owned() })
}

impl Sink for Here {
    fn is_enabled(&self, level: usize) -> bool {
        LEVELS.get(level).is_some_and(|it| *it <= tracing::level_filters::LevelFilter::current())
    }

    fn say(&self, line: &Line<'_>) {
        let (plugin, module, text) = (&*self.library, line.target, line.text);
        match line.level {
            0 => tracing::error!(target: "linn::library", plugin, module, "{text}"),
            1 => tracing::warn!(target: "linn::library", plugin, module, "{text}"),
            2 => tracing::info!(target: "linn::library", plugin, module, "{text}"),
            3 => tracing::debug!(target: "linn::library", plugin, module, "{text}"),
            _ => tracing::trace!(target: "linn::library", plugin, module, "{text}"),
        }
    }
}

/// From now on this copy of `tracing`, and this copy's panics, go to `sink`. Only the first call does something.
pub(super) fn forward_to(sink: Arc<dyn Sink>) {
    let forward = Forward { sink: sink.clone(), last: AtomicU64::new(1), spans: Mutex::default() };
    // Somebody else of the library may have set one, which then has its lines.
    if tracing::dispatcher::set_global_default(Dispatch::new(forward)).is_ok() {
        panic::set_hook(Box::new(move |info| sink.say(&Line { level: 0, target: "panic", text: &text_of(info) })));
    }
}

fn text_of(info: &PanicHookInfo<'_>) -> String {
    let said = info.payload_as_str().unwrap_or("the panic carried no text");
    match info.location() {
        Some(at) => format!("panicked at {at}: {said}"),
        None => format!("panicked: {said}"),
    }
}

/// The library's side.
struct Forward {
    sink: Arc<dyn Sink>,
    last: AtomicU64,
    spans: Mutex<HashMap<u64, Span>>,
}

struct Span {
    text: Text,
    n_handles: usize,
}

thread_local! {
    /// Spans that this thread is in, the innermost last.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Subscriber for Forward {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The program may come to want more or less.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.sink.is_enabled(number_of(*metadata.level()))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(span.metadata().name().to_owned());
        span.record(&mut text);
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        lock(&self.spans).insert(id, Span { text, n_handles: 1 });
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        // Formatting is code of whoever logs, and finds no lock held.
        let mut more = Text(String::new());
        values.record(&mut more);
        if let Some(span) = lock(&self.spans).get_mut(&span.into_u64()) {
            span.text.0 += &more.0;
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let mut text = text.0.trim_start().to_owned();
        let inside = INSIDE.try_with(|it| it.borrow().clone()).unwrap_or_default();
        let spans = lock(&self.spans);
        for span in inside.iter().rev().filter_map(|id| spans.get(id)) {
            text += " in ";
            text += &span.text.0;
        }
        drop(spans);
        let (level, target) = (number_of(*event.metadata().level()), event.metadata().target());
        self.sink.say(&Line { level, target, text: &text });
    }

    fn enter(&self, span: &Id) {
        let _ = INSIDE.try_with(|it| it.borrow_mut().push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        let _ = INSIDE.try_with(|it| {
            let mut inside = it.borrow_mut();
            if let Some(at) = inside.iter().rposition(|it| *it == span.into_u64()) {
                inside.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = lock(&self.spans).get_mut(&id.into_u64()) {
            span.n_handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = lock(&self.spans);
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.n_handles -= 1;
        let is_last = span.n_handles == 0;
        if is_last {
            spans.remove(&id.into_u64());
        }
        is_last
    }
}

/// Fields as text: the message, then `name=value`.
struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` does not fail.
        let _ = match field.name() {
            "message" => {
                let fields = std::mem::take(&mut self.0);
                write!(
                    self.0,
                    "{value:?}{}",
                    if fields.is_empty() { fields } else { format!(" {}", fields.trim_start()) }
                )
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
