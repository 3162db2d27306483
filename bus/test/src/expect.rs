//! Which events have to be dispatched, in which order.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use linn_bus::{BusError, Context, Event, InternalDispatch, Listener};

/// A list of dispatches that have to happen, in this order and without others between.
///
/// ```
/// use linn_bus::Event;
/// use linn_bus_test::{Expected, run};
///
/// #[derive(Event)]
/// #[event(name = "doc/saved", mode = Emit)]
/// struct Saved { path: String }
/// #[derive(Event)]
/// #[event(name = "doc/closed", mode = Emit)]
/// struct Closed;
///
/// run(async |root| {
///     let watch = Expected::new()
///         .payload("of a.txt", |saved: &Saved| saved.path == "a.txt")
///         .event("doc/closed")
///         .watch(&root)
///         .unwrap();
///     root.emit(&Saved { path: "a.txt".into() });
///     root.emit(&Closed);
///     watch.assert_finished();
/// });
/// ```
///
/// What differs is shown as a diff:
///
/// ```should_panic
/// # use linn_bus::Event;
/// # use linn_bus_test::{Expected, run};
/// # #[derive(Event)]
/// # #[event(name = "doc/closed", mode = Emit)]
/// # struct Closed;
/// run(async |root| {
///     let watch = Expected::new().event("doc/saved").event("doc/closed").watch(&root).unwrap();
///     root.emit(&Closed);
///     watch.assert_finished(); // -doc/saved, then doc/closed as expected
/// });
/// ```
#[derive(Default)]
pub struct Expected {
    steps: Vec<Step>,
    ignored: Vec<String>,
}

struct Step {
    text: String,
    matches: Box<dyn Fn(&InternalDispatch) -> bool + Send + Sync>,
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.steps.iter().map(|it| &it.text)).finish()
    }
}

impl Expected {
    /// An empty list: nothing may be dispatched.
    pub fn new() -> Self {
        Self::default()
    }

    /// Next, an event of this name.
    #[must_use]
    pub fn event(self, name: &str) -> Self {
        let wanted = name.to_owned();
        self.step(name.to_owned(), move |it| it.event.name == wanted)
    }

    /// Next, an `E` whose payload passes `check`; `what` says in the diff which one is meant.
    #[must_use]
    pub fn payload<E: Event>(self, what: &str, check: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.step(format!("{} {what}", E::NAME), move |it| it.payload::<E>().is_some_and(&check))
    }

    /// Next, a dispatch that passes `check`: by its plugin, its scope, or anything else that observers see.
    #[must_use]
    pub fn dispatch(self, what: &str, check: impl Fn(&InternalDispatch) -> bool + Send + Sync + 'static) -> Self {
        self.step(what.to_owned(), check)
    }

    /// Leaves out events whose name begins with `prefix`.
    #[must_use]
    pub fn ignoring(mut self, prefix: &str) -> Self {
        self.ignored.push(prefix.to_owned());
        self
    }

    fn step(mut self, text: String, matches: impl Fn(&InternalDispatch) -> bool + Send + Sync + 'static) -> Self {
        self.steps.push(Step { text, matches: Box::new(matches) });
        self
    }

    /// Begins to observe what is dispatched on the bus of `ctx`.
    ///
    /// # Errors
    ///
    /// As [`Context::on`].
    pub fn watch(self, ctx: &Context) -> Result<Watch, BusError> {
        let Self { steps, ignored } = self;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (texts, checks): (Vec<_>, Vec<_>) = steps.into_iter().map(|it| (it.text, it.matches)).unzip();
        let record = seen.clone();
        let observer = ctx.on(move |dispatch: &InternalDispatch| {
            if ignored.iter().any(|it| dispatch.event.name.starts_with(it.as_str())) {
                return;
            }
            // The payload is there only now, so every step is asked now.
            let matches = checks.iter().map(|it| it(dispatch)).collect();
            let text = format!("{} by {}", dispatch.event.name, dispatch.plugin);
            record.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { text, matches });
        })?;
        Ok(Watch { texts, seen, observer })
    }
}

/// One dispatch that was seen, and which steps it would do for.
struct Seen {
    text: String,
    matches: Vec<bool>,
}

/// Observes dispatches and compares them with those expected; made by [`Expected::watch`].
#[must_use = "without `assert_finished` nothing is compared"]
pub struct Watch {
    texts: Vec<String>,
    seen: Arc<Mutex<Vec<Seen>>>,
    observer: Listener,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("expected", &self.texts).finish_non_exhaustive()
    }
}

impl Watch {
    /// What differs between the dispatches so far and those expected: `-` is missing, `+` was not expected, and lines
    /// without a mark are as expected. `None` when nothing differs.
    pub fn difference(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |step: usize, at: usize| seen[at].matches[step];
        // How many can be paired from here on: the longest common subsequence.
        let mut pairs = vec![vec![0; seen.len() + 1]; self.texts.len() + 1];
        for step in (0..self.texts.len()).rev() {
            for at in (0..seen.len()).rev() {
                let paired = if fits(step, at) { pairs[step + 1][at + 1] + 1 } else { 0 };
                pairs[step][at] = paired.max(pairs[step + 1][at]).max(pairs[step][at + 1]);
            }
        }
        let (mut step, mut at, mut differs) = (0, 0, false);
        let mut text = String::new();
        while step < self.texts.len() || at < seen.len() {
            let both = step < self.texts.len() && at < seen.len();
            let (mark, line) = if both && fits(step, at) && pairs[step][at] == pairs[step + 1][at + 1] + 1 {
                (step, at) = (step + 1, at + 1);
                (' ', &self.texts[step - 1])
            } else if at == seen.len() || (both && pairs[step + 1][at] >= pairs[step][at + 1]) {
                step += 1;
                ('-', &self.texts[step - 1])
            } else {
                at += 1;
                ('+', &seen[at - 1].text)
            };
            differs |= mark != ' ';
            writeln!(text, "{mark} {line}").expect("a string takes all text");
        }
        differs.then_some(text)
    }

    /// Stops observing.
    ///
    /// # Panics
    ///
    /// When the dispatches were not those expected; shows the difference.
    #[track_caller]
    pub fn assert_finished(self) {
        self.observer.dispose();
        if let Some(difference) = self.difference() {
            panic!("dispatches are not as expected (`-` is missing, `+` was not expected):\n{difference}");
        }
    }
}
