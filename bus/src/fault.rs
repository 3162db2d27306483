//! Errors: what a listener or plugin says, what a dispatch reports, and how the bus is misused.

use std::fmt;
use std::sync::Arc;

use crate::pool::Panicked;

/// An error in the words of whoever wrote the plugin, as owned text.
///
/// Any `std::error::Error` turns into one with `?`; its sources are kept as text. Text, because the error may come from a
/// library whose types the reader does not share.
///
/// ```
/// fn parse(text: &str) -> Result<u8, linn_bus::Fault> {
///     let number: u8 = text.parse()?;
///     if number == 0 {
///         return Err(linn_bus::Fault::msg("zero is not a port").with_code("PORT_ZERO"));
///     }
///     Ok(number)
/// }
/// assert_eq!(parse("0").unwrap_err().code(), Some("PORT_ZERO"));
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Fault(Box<FaultText>);

#[derive(Debug, Clone, Default)]
struct FaultText {
    message: String,
    sources: Vec<String>,
    code: Option<String>,
    panicked: bool,
    /// The failure of an inner listener that this one passed on.
    passed_on: Option<ListenerError>,
}

impl Fault {
    /// A fault that says `message`.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self(Box::new(FaultText { message: message.to_string(), ..FaultText::default() }))
    }

    /// The same fault with a code that programs can match.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// A stable code, where the author gave one.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The messages of the errors behind this one, nearest first.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.0.sources.iter().map(String::as_str)
    }

    /// Whether the code panicked instead of returning an error.
    pub fn is_panic(&self) -> bool {
        self.0.panicked
    }

    /// A panic that was caught elsewhere, such as in a library, and told as text.
    pub fn from_panic(text: impl fmt::Display) -> Self {
        Self(Box::new(FaultText { message: text.to_string(), panicked: true, ..FaultText::default() }))
    }

    pub(crate) fn panicked(panic: Panicked) -> Self {
        Self(Box::new(FaultText { message: panic.0, panicked: true, ..FaultText::default() }))
    }
}

impl Clone for Fault {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        let mut sources = Vec::new();
        let mut passed_on = None;
        let mut next = error.source();
        while let Some(source) = next {
            // A copy of the bus in another library does not know the type and keeps the text.
            // An error that wraps it with words of its own is a failure of its own.
            if sources.is_empty()
                && let Some(facts) = source.downcast_ref::<Facts>()
            {
                passed_on = Some(ListenerError(facts.clone()));
                break;
            }
            sources.push(source.to_string());
            next = source.source();
        }
        Self(Box::new(FaultText { message: error.to_string(), sources, passed_on, ..FaultText::default() }))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        // The alternate form prints the whole chain, as an edge does once.
        if f.alternate() {
            for source in &self.0.sources {
                write!(f, ": {source}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.panicked { "panic" } else { "fault" };
        write!(f, "{kind}: {self:#}")
    }
}

/// How a listener kept a dispatch from its result.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Cause {
    /// It returned an error.
    Failed(Fault),
    /// It panicked; the text of the panic.
    Panicked(String),
    /// It observes dispatches and refused this one.
    Refused(Fault),
    /// Its plugin was unloaded while it waited, and the grace period was over.
    Unloaded,
    /// It dispatched the event from inside itself more often than [`MAX_NESTING`](crate::MAX_NESTING) times.
    TooDeep,
}

/// Why a dispatch has no result: which listener, of which plugin, on which event, and how.
///
/// Displays as who failed; the cause is the [`source`](std::error::Error::source), and `{:#}` prints both. A layer of a
/// waterfall that passes the error of its `next` on with `?` passes on this very error: it keeps naming the inner listener.
#[derive(Clone)]
pub struct ListenerError(Facts);

#[derive(Clone)]
struct Facts(Arc<ListenerErrorParts>);

struct ListenerErrorParts {
    plugin: Arc<str>,
    event: &'static str,
    cause: Cause,
}

impl ListenerError {
    pub(crate) fn new(plugin: Arc<str>, event: &'static str, cause: Cause) -> Self {
        Self(Facts(Arc::new(ListenerErrorParts { plugin, event, cause })))
    }

    pub(crate) fn from_fault(plugin: Arc<str>, event: &'static str, mut fault: Fault) -> Self {
        if let Some(inner) = fault.0.passed_on.take() {
            return inner;
        }
        let cause = if fault.0.panicked { Cause::Panicked(fault.0.message) } else { Cause::Failed(fault) };
        Self::new(plugin, event, cause)
    }

    fn parts(&self) -> &ListenerErrorParts {
        &self.0.0
    }

    /// Name of the plugin whose listener it was; of the dispatching plugin where the innermost default failed.
    pub fn plugin(&self) -> &str {
        &self.parts().plugin
    }

    /// Name of the event.
    pub fn event(&self) -> &'static str {
        self.parts().event
    }

    /// What happened.
    pub fn cause(&self) -> &Cause {
        &self.parts().cause
    }

    /// Stable code of the kind of failure.
    pub fn code(&self) -> &'static str {
        match self.cause() {
            Cause::Failed(_) => "LISTENER_FAILED",
            Cause::Panicked(_) => "LISTENER_PANICKED",
            Cause::Refused(_) => "DISPATCH_REFUSED",
            Cause::Unloaded => "LISTENER_UNLOADED",
            Cause::TooDeep => "DISPATCH_TOO_DEEP",
        }
    }
}

impl fmt::Display for ListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenerErrorParts { plugin, event, cause } = self.parts();
        match cause {
            Cause::Failed(_) => write!(f, "listener of plugin `{plugin}` on `{event}` failed")?,
            Cause::Panicked(_) => write!(f, "listener of plugin `{plugin}` on `{event}` panicked")?,
            Cause::Refused(_) => {
                write!(f, "an observer refused the dispatch of `{event}`: it belongs to plugin `{plugin}`")?
            }
            Cause::Unloaded => write!(f, "listener of plugin `{plugin}` on `{event}` was dropped")?,
            Cause::TooDeep => write!(f, "listener of plugin `{plugin}` dispatches `{event}` from inside itself")?,
        }
        if f.alternate() { write!(f, ": {}", self.0) } else { Ok(()) }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.cause {
            Cause::Failed(fault) | Cause::Refused(fault) => write!(f, "{fault:#}"),
            Cause::Panicked(text) => f.write_str(text),
            Cause::Unloaded => f.write_str("its plugin was unloaded and the grace period is over"),
            Cause::TooDeep => write!(f, "more than {} levels", crate::MAX_NESTING),
        }
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Facts {}

impl fmt::Debug for ListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl std::error::Error for ListenerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// All failures of one dispatch that ran everybody, in the order of the listeners; never empty.
#[derive(Debug, Clone)]
pub struct ListenerErrors(Vec<ListenerError>);

impl ListenerErrors {
    pub(crate) fn check(errors: Vec<ListenerError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// The failures, in the order of the listeners.
    pub fn iter(&self) -> std::slice::Iter<'_, ListenerError> {
        self.0.iter()
    }

    /// How many listeners failed; at least one.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<ListenerError> for ListenerErrors {
    fn from(error: ListenerError) -> Self {
        Self(vec![error])
    }
}

impl<'a> IntoIterator for &'a ListenerErrors {
    type Item = &'a ListenerError;
    type IntoIter = std::slice::Iter<'a, ListenerError>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for ListenerErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "{one:#}"),
            many => {
                write!(f, "{} listeners failed", many.len())?;
                for error in many {
                    write!(f, "; {error:#}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ListenerErrors {}

/// How the bus was misused or could not do what was asked. Every kind has a stable [`code`](BusError::code).
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum BusError {
    /// Something was registered through a context whose fiber is going down or gone.
    #[error(
        "cannot create effect on inactive context: plugin `{plugin}` is {state} and tried {what}; register while it starts or runs"
    )]
    Inactive {
        /// Plugin that owns the context.
        plugin: Arc<str>,
        /// State of its fiber.
        state: crate::FiberState,
        /// What was to be registered.
        what: String,
    },
    /// Two different event types use one name in this bus.
    #[error("event name `{event}` is used by `{first}` and by `{second}`; give one of them another name")]
    EventClash {
        /// The name.
        event: &'static str,
        /// Type that had it first.
        first: &'static str,
        /// Type that came second.
        second: &'static str,
    },
    /// A service that is provided already was provided again in the same realm.
    #[error("service `{service}` has been registered at `{owner}`; dispose that one first, or isolate this context")]
    ServiceTaken {
        /// Name of the service.
        service: &'static str,
        /// Plugin that provides it.
        owner: Arc<str>,
    },
    /// Two different traits use one service name in this bus.
    #[error("service name `{service}` is used by `{first}` and by `{second}`; give one of them another name")]
    ServiceClash {
        /// The name.
        service: &'static str,
        /// Trait that had it first.
        first: &'static str,
        /// Trait that came second.
        second: &'static str,
    },
    /// A plugin tried to change the value of a service that another one provides.
    #[error(
        "cannot set property \"{service}\" in multiple fibers: `{owner}` provides it, `{plugin}` does not; only the provider may set it"
    )]
    ServiceForeign {
        /// Name of the service.
        service: &'static str,
        /// Plugin that provides it.
        owner: Arc<str>,
        /// Plugin that tried.
        plugin: Arc<str>,
    },
    /// A service was asked for, or its value was set, and nobody provides it.
    #[error(
        "cannot get or set property \"{service}\" without provide; call `ctx.provide` first, or mount a plugin that provides it"
    )]
    ServiceUnprovided {
        /// Name of the service.
        service: &'static str,
    },
    /// A service was asked for that this context cannot see.
    #[error(
        "cannot get property \"{service}\" without inject: plugin `{plugin}` does not declare it; name it in `type Needs`, or use `ctx.get` for an optional look"
    )]
    ServiceUndeclared {
        /// Name of the service.
        service: &'static str,
        /// Plugin that asked.
        plugin: Arc<str>,
    },
    /// A declared service was asked for while its plugin is not running.
    #[error("cannot get required service \"{service}\" in inactive context: plugin `{plugin}` is {state}")]
    ServiceInactive {
        /// Name of the service.
        service: &'static str,
        /// Plugin that asked.
        plugin: Arc<str>,
        /// State of its fiber.
        state: crate::FiberState,
    },
    /// The config of a plugin failed its validation.
    #[error("invalid config of plugin `{plugin}`: {issues}")]
    ConfigInvalid {
        /// The plugin.
        plugin: Arc<str>,
        /// What is wrong and what would be right.
        issues: Fault,
    },
    /// The start of a plugin failed or panicked.
    #[error("plugin `{plugin}` failed to start: {cause}")]
    StartFailed {
        /// The plugin.
        plugin: Arc<str>,
        /// Its error.
        cause: Fault,
    },
    /// A plugin was disabled because its listeners panicked too often.
    #[error(
        "plugin `{plugin}` was disabled after {panics} panics of its listeners, the last on `{event}`; update or restart it to run it again"
    )]
    Disabled {
        /// The plugin.
        plugin: Arc<str>,
        /// How many.
        panics: u32,
        /// Event of the last one.
        event: &'static str,
    },
    /// Services need one another in a circle, so none of them can start.
    #[error("dependency cycle: {}; make one of these needs a `Lookup`", cycle.join(" -> "))]
    DependencyCycle {
        /// Plugins of the circle, each needing the next, the first repeated at the end.
        cycle: Vec<String>,
    },
    /// A plugin that was wanted to run waits for services.
    #[error("plugin `{plugin}` waits: {}", waits_for.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Waiting {
        /// The plugin.
        plugin: Arc<str>,
        /// What it waits for, and why that is not there.
        waits_for: Vec<crate::inspect::Waiting>,
    },
    /// The body of an effect failed; what it had collected was undone.
    #[error("effect `{label}` of plugin `{plugin}` failed: {cause}")]
    EffectFailed {
        /// Label of the effect.
        label: Arc<str>,
        /// Plugin that owns it.
        plugin: Arc<str>,
        /// Its error.
        cause: Fault,
    },
    /// A listener on `internal/listener` failed, or an observer refused.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// The fiber is gone, so it can be neither restarted nor updated, and no version takes its place.
    #[error("plugin `{plugin}` is disposed; mount it again")]
    Disposed {
        /// The plugin.
        plugin: Arc<str>,
    },
    /// A scope was handed services that nobody provides.
    #[error("{}", missing_services(services))]
    ServicesMissing {
        /// Names of the absent services.
        services: Vec<&'static str>,
    },
    /// A mount that is visible already was switched in.
    #[error("plugin `{plugin}` is visible already; only what `prepare` returned can be switched in, once")]
    NotPrepared {
        /// The plugin.
        plugin: Arc<str>,
    },
}

fn missing_services(services: &[&str]) -> String {
    let noun = if services.len() == 1 { "service" } else { "services" };
    let verb = if services.len() == 1 { "is" } else { "are" };
    let names: Vec<_> = services.iter().map(|it| format!("\"{it}\"")).collect();
    format!("required {noun} {} {verb} not provided; provide before minting scopes", names.join(", "))
}

impl BusError {
    /// Stable code, the same in every release.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Inactive { .. } => "INACTIVE_EFFECT",
            Self::EventClash { .. } => "EVENT_CLASH",
            Self::ServiceTaken { .. } => "SERVICE_TAKEN",
            Self::ServiceClash { .. } => "SERVICE_CLASH",
            Self::ServiceForeign { .. } => "SERVICE_FOREIGN",
            Self::ServiceUnprovided { .. } => "SERVICE_UNPROVIDED",
            Self::ServiceUndeclared { .. } => "SERVICE_UNDECLARED",
            Self::ServiceInactive { .. } => "SERVICE_INACTIVE",
            Self::ConfigInvalid { .. } => "CONFIG_INVALID",
            Self::StartFailed { .. } => "START_FAILED",
            Self::Disabled { .. } => "PLUGIN_DISABLED",
            Self::DependencyCycle { .. } => "DEPENDENCY_CYCLE",
            Self::Waiting { .. } => "FIBER_WAITING",
            Self::EffectFailed { .. } => "EFFECT_FAILED",
            Self::Listener(error) => error.code(),
            Self::Disposed { .. } => "FIBER_DISPOSED",
            Self::ServicesMissing { .. } => "SERVICES_MISSING",
            Self::NotPrepared { .. } => "NOT_PREPARED",
        }
    }
}

/// What went wrong while a fiber was torn down. Everything else of it was torn down all the same.
#[derive(Debug, Clone)]
pub struct DisposeError {
    pub(crate) plugin: Arc<str>,
    pub(crate) problems: Vec<DisposeProblem>,
}

/// One thing that would not end.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum DisposeProblem {
    /// A listener, service method or task is on a CPU or waiting and did not end within the grace period.
    Stuck {
        /// Name of the plugin that owns it.
        plugin: Arc<str>,
        /// What it runs: the event of the listener, the service, or `task`.
        what: String,
    },
    /// A disposer failed.
    Disposer {
        /// Name of the plugin that owns it.
        plugin: Arc<str>,
        /// Label of its effect.
        label: Arc<str>,
        /// Its error.
        cause: Fault,
    },
    /// The executor of the root dropped the task that tears the plugin down; nothing more of it will be.
    ExecutorEnded {
        /// Name of the plugin.
        plugin: Arc<str>,
    },
    /// An asynchronous disposer did not end within the grace period and was dropped.
    DisposerTimeout {
        /// Name of the plugin that owns it.
        plugin: Arc<str>,
        /// Label of its effect.
        label: Arc<str>,
    },
}

impl DisposeError {
    /// The plugin that was disposed.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// What would not end, in the order it was met; never empty.
    pub fn problems(&self) -> &[DisposeProblem] {
        &self.problems
    }

    /// Stable code.
    pub fn code(&self) -> &'static str {
        "DISPOSE_INCOMPLETE"
    }
}

impl fmt::Display for DisposeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck { plugin, what } => {
                write!(f, "{what} of plugin `{plugin}` did not end within the grace period")
            }
            Self::Disposer { plugin, label, cause } => {
                write!(f, "disposer `{label}` of plugin `{plugin}` failed: {cause}")
            }
            Self::ExecutorEnded { plugin } => {
                write!(
                    f,
                    "the executor ended before plugin `{plugin}` was torn down; dispose of the root before its runtime"
                )
            }
            Self::DisposerTimeout { plugin, label } => {
                write!(f, "disposer `{label}` of plugin `{plugin}` did not end within the grace period and was dropped")
            }
        }
    }
}

impl fmt::Display for DisposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin `{}` is disposed, but ", self.plugin)?;
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for DisposeError {}
