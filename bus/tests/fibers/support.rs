//! What the tests share: a log, a service, short ways to mount, and what was written through `tracing`.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use linn_bus::{
    BusError, Context, Event, Fault, Fiber, Inject, InternalStatus, Provided, Service, ServiceError, Svc, provider,
    service,
};
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What happened, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, what: impl Display) {
        self.0.lock().unwrap().push(what.to_string());
    }

    /// A function that adds `what` each time it is called.
    pub(crate) fn say(&self, what: &str) -> impl Fn() + Clone + Send + Sync + 'static + use<> {
        let (log, what) = (self.clone(), what.to_owned());
        move || log.add(&what)
    }

    /// Everything since the last look, separated by blanks.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

/// Something happened.
#[derive(Event)]
#[event(name = "fibers/ping", mode = Emit)]
pub(crate) struct Ping;

/// A number.
#[service("fibers/foo")]
pub(crate) trait Foo {
    fn value(&self) -> Result<u32, ServiceError>;
}

pub(crate) struct FooIs(pub(crate) u32);

#[provider]
impl Foo for FooIs {
    fn value(&self) -> Result<u32, ServiceError> {
        Ok(self.0)
    }
}

/// Another number.
#[service("fibers/bar")]
pub(crate) trait Bar {
    fn value(&self) -> Result<u32, ServiceError>;
}

#[provider]
impl Bar for FooIs {
    fn value(&self) -> Result<u32, ServiceError> {
        Ok(self.0)
    }
}

pub(crate) fn provide_foo(ctx: &Context, value: u32) -> Provided<dyn Foo> {
    ctx.provide::<dyn Foo>(Arc::new(FooIs(value))).unwrap()
}

pub(crate) fn provide_bar(ctx: &Context, value: u32) -> Provided<dyn Bar> {
    ctx.provide::<dyn Bar>(Arc::new(FooIs(value))).unwrap()
}

/// Mounts a plugin that provides `Foo`.
pub(crate) fn foo_plugin(ctx: &Context, name: &str, value: u32) -> Fiber {
    mount(ctx, name, move |ctx, ()| {
        ctx.provide::<dyn Foo>(Arc::new(FooIs(value)))?;
        Ok(())
    })
}

/// Mounts a plugin whose start waits for nothing.
pub(crate) fn mount<N: Inject>(
    ctx: &Context,
    name: &str,
    start: impl Fn(&Context, N) -> Result<(), Fault> + Send + Sync + 'static,
) -> Fiber {
    ctx.mount_fn(name, move |ctx: Context, needs: N| std::future::ready(start(&ctx, needs))).unwrap()
}

/// Mounts a plugin that needs `Foo` and logs `up(value)` and `down`.
pub(crate) fn foo_user(ctx: &Context, log: &Log) -> Fiber {
    let log = log.clone();
    mount(ctx, "user", move |ctx, foo: Svc<dyn Foo>| {
        log.add(format!("up({})", foo.value()?));
        ctx.effect("user", |fx| fx.defer(log.say("down")))?;
        Ok(())
    })
}

/// Has `name` of every status change of the fiber called `plugin` logged, as `from->to`.
pub(crate) fn log_status(ctx: &Context, plugin: &'static str, log: &Log) {
    let log = log.clone();
    ctx.on(move |status: &InternalStatus| {
        if status.fiber.name() == plugin {
            log.add(format!("{}->{}", status.previous, status.state));
        }
    })
    .unwrap();
}

pub(crate) fn code_of<T>(outcome: Result<T, BusError>) -> &'static str {
    outcome.err().map_or("no error", |it| it.code())
}

/// How many listeners the event called `name` has.
pub(crate) fn n_listeners(ctx: &Context, name: &str) -> usize {
    ctx.inspect().events.iter().filter(|it| it.name == name).map(|it| it.listeners.len()).sum()
}

/// Fibers besides the root.
pub(crate) fn n_fibers(ctx: &Context) -> usize {
    ctx.inspect().fibers.len() - 1
}

pub(crate) fn is_provided<T: Service + ?Sized>(ctx: &Context) -> bool {
    ctx.inspect().services.iter().any(|it| it.name == T::NAME)
}

thread_local! {
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs `test` and returns what it wrote through `tracing` on this thread, as `LEVEL plugin: message`.
///
/// One recorder serves all threads: `tracing` remembers for good what the thread that came first had no subscriber for.
pub(crate) fn logged(test: impl FnOnce()) -> Vec<String> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        tracing::subscriber::set_global_default(Recorder).unwrap();
        tracing::callsite::rebuild_interest_cache();
    });
    LINES.set(Some(Vec::new()));
    test();
    LINES.take().unwrap()
}

struct Recorder;

impl tracing::Subscriber for Recorder {
    fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Line { plugin, message } = line;
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.push(format!("{} {plugin}: {message}", event.metadata().level()));
            }
        });
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[derive(Default)]
struct Line {
    plugin: String,
    message: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "plugin" {
            self.plugin = value.to_owned();
        }
    }
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}
