//! Dispatches that are watched: the same as the others, with a note of what each listener came to.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::call::{Answer, Progress, Running, start_alone};
use super::observe::Untyped;
use super::sync::CallObject;
use super::waterfall::{Chain, Next};
use super::{Emitter, emit};
use crate::bus::{Bus, lock};
use crate::cell::{Entry, Held, Place};
use crate::decision::{
    Change, Decision, DecisionOutcome, DecisionStep, InternalDecision, Lent, Same, SkipReason, StepResult,
};
use crate::event::{Dispatches, Event, Mode, ModeName, Verb, verb};
use crate::fault::{ListenerError, ListenerErrors};
use crate::frames::INNER;
use crate::hook::{Claim, HookHead};
use crate::listen::{Answers, Begun, FinishAs, Outcome, Starter};
use crate::pool::{self, FreeLists, Started};
use crate::seams::BoxFuture;

impl Emitter<'_> {
    /// Lets observers look first; whether the dispatch is to be recorded then.
    #[cold]
    pub(super) fn watch<E: Event>(self, event: &E) -> Result<bool, ListenerError> {
        self.watch_untyped(&Untyped::of(event))
    }

    fn watch_untyped(self, event: &Untyped<'_>) -> Result<bool, ListenerError> {
        let is_recorded = self.bus.is_recorded();
        if !self.bus.is_observed() {
            return Ok(is_recorded);
        }
        self.observe(event).map(|()| is_recorded).inspect_err(|error| {
            if is_recorded {
                self.tell(event, Vec::new(), DecisionOutcome::Refused { error: error.clone() });
            }
        })
    }

    fn tell(self, event: &Untyped<'_>, steps: Vec<DecisionStep>, outcome: DecisionOutcome) {
        let decision = Arc::new(Decision {
            event: event.descriptor,
            plugin: self.plugin.clone(),
            scope: event.scope.cloned(),
            steps,
            outcome,
        });
        emit(self, &InternalDecision { decision, payload: Lent(event.payload), slot: event.slot });
    }

    /// Refuses a dispatch that nests too deep, with a record of it.
    fn check(self, event: &Untyped<'_>, suspect: Option<usize>) -> Result<(), ListenerError> {
        let Some(depth) = suspect else { return Ok(()) };
        self.check_nesting(event.descriptor.name, event.slot, depth)
            .inspect_err(|error| self.tell(event, Vec::new(), DecisionOutcome::Failed { error: error.clone() }))
    }
}

/// The notes of one dispatch. What does not depend on the type of its event is in [`Notes`], which is one piece of code.
pub(super) struct Recording<'a, E: Event> {
    entries: &'a [Entry<E>],
    notes: Notes<'a>,
    /// By note, what its layer got of `next` last.
    given: Mutex<Vec<(usize, Given<E>)>>,
}

/// What a layer got of `next`, and how to tell another answer from it; not known of all.
type Given<E> = Option<Same<<E as Event>::Output>>;

struct Notes<'a> {
    emitter: Emitter<'a>,
    event: Untyped<'a>,
    places: &'a [Place],
    notes: Mutex<Vec<Note>>,
}

/// The note of one listener that began, or would have.
struct Note {
    /// Among the entries; past them all for the default.
    place: usize,
    inside: Option<usize>,
    n_next: u32,
    result: StepResult,
    #[cfg(feature = "json")]
    answer: Option<serde_json::Value>,
}

/// How to tell an answer from this one.
fn keep<E: Event>(answer: &E::Output) -> Option<Same<E::Output>> {
    // Code of the output's author: where it panics nobody can tell.
    if let Some(same) = pool::guarded(|| E::__keep(answer)).ok().flatten() {
        return Some(same);
    }
    #[cfg(feature = "json")]
    if let Some(kept) = shown::<E>(answer) {
        return Some(Box::new(move |other| shown::<E>(other).as_ref() == Some(&kept)));
    }
    None
}

#[cfg(feature = "json")]
fn shown<E: Event>(answer: &E::Output) -> Option<serde_json::Value> {
    crate::json::output_view::<E>(answer).ok().flatten()
}

impl<'a, E: Event> Recording<'a, E> {
    fn new(emitter: Emitter<'a>, event: Untyped<'a>, entries: &'a [Entry<E>]) -> Self {
        let notes = Notes { emitter, event, places: Entry::places(entries), notes: Mutex::default() };
        Self { entries, notes, given: Mutex::default() }
    }

    /// A listener has come to something.
    fn ended(&self, note: usize, answer: &Answer<E>) {
        let result = match answer {
            Err(error) => StepResult::Failed(error.clone()),
            Ok(None) => StepResult::Passed,
            Ok(Some(answer)) => StepResult::Answered(self.change(note, answer)),
        };
        #[cfg(feature = "json")]
        let shown = match answer {
            Ok(Some(answer)) => shown::<E>(answer),
            _ => None,
        };
        self.notes.ended(
            note,
            result,
            #[cfg(feature = "json")]
            shown,
        );
    }

    /// What a layer did to the answer it got.
    fn change(&self, note: usize, answer: &E::Output) -> Change {
        let given = {
            let mut given = lock(&self.given);
            given.iter().position(|(it, _)| *it == note).map(|at| given.swap_remove(at).1)
        };
        match given {
            None => Change::Decided,
            Some(None) => Change::Unknown,
            Some(Some(same)) => match pool::guarded(|| same(answer)) {
                Ok(true) => Change::Kept,
                Ok(false) => Change::Changed,
                Err(_) => Change::Unknown,
            },
        }
    }

    /// A layer got this of `next`.
    fn gave(&self, note: usize, answer: &Answer<E>) {
        let new = match answer {
            Ok(Some(answer)) => Some((note, keep::<E>(answer))),
            _ => None,
        };
        let old = {
            let mut given = lock(&self.given);
            let old = given.iter().position(|(it, _)| *it == note).map(|at| given.swap_remove(at));
            given.extend(new);
            old
        };
        // Dropped outside of the lock: it may be code of the output's author.
        drop(old);
    }
}

impl Notes<'_> {
    /// A listener begins; the place of its note.
    fn begins(&self, place: usize, inside: Option<usize>) -> usize {
        let mut notes = lock(&self.notes);
        notes.push(Note {
            place,
            inside,
            n_next: 0,
            result: StepResult::Dropped,
            #[cfg(feature = "json")]
            answer: None,
        });
        notes.len() - 1
    }

    /// It did not run after all.
    fn skipped(&self, note: usize) {
        let mut notes = lock(&self.notes);
        let why = self.places.get(notes[note].place).map_or(SkipReason::Unloaded, |it| it.head().why_absent());
        notes[note].result = StepResult::Skipped(why);
    }

    /// It has come to something.
    fn ended(&self, note: usize, result: StepResult, #[cfg(feature = "json")] answer: Option<serde_json::Value>) {
        let mut notes = lock(&self.notes);
        notes[note].result = result;
        #[cfg(feature = "json")]
        {
            notes[note].answer = answer;
        }
    }

    /// Adds whoever did not run, and why, and tells those who keep records.
    fn tell(self, outcome: Result<(), ListenerError>) {
        let Self { emitter, event, places, notes } = self;
        let notes = notes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let outcome = match outcome {
            Ok(()) => DecisionOutcome::Answered { by: answered_by(&notes) },
            Err(error) => DecisionOutcome::Failed { error },
        };
        let why = match &outcome {
            DecisionOutcome::Answered { .. } => SkipReason::Answered,
            _ => SkipReason::Failed,
        };
        let mut is_noted = vec![false; places.len()];
        for note in &notes {
            if let Some(noted) = is_noted.get_mut(note.place) {
                *noted = true;
            }
        }
        let mut steps: Vec<_> = notes
            .into_iter()
            .map(|note| DecisionStep {
                inside: note.inside,
                n_next: note.n_next,
                #[cfg(feature = "json")]
                answer: note.answer,
                ..step(emitter, places.get(note.place).map(Place::head), note.result)
            })
            .collect();
        let not_noted = places.iter().zip(&is_noted).filter(|(_, is_noted)| !**is_noted);
        steps.extend(not_noted.map(|(it, _)| step(emitter, Some(it.head()), StepResult::Skipped(why))));
        if event.descriptor.scoped
            && let Some(cell) = emitter.bus.event_cell(event.slot)
        {
            let heard: HashSet<_> = places.iter().map(|it| std::ptr::from_ref(it.head())).collect();
            let in_scopes = cell.in_scopes();
            let elsewhere = in_scopes.iter().filter(|it| !heard.contains(&std::ptr::from_ref(it.head())));
            let skipped = StepResult::Skipped(SkipReason::Scope);
            steps.extend(elsewhere.map(|it| step(emitter, Some(it.head()), skipped.clone())));
        }
        emitter.tell(&event, steps, outcome);
    }
}

fn step(emitter: Emitter<'_>, head: Option<&HookHead>, result: StepResult) -> DecisionStep {
    DecisionStep {
        plugin: head.map_or(emitter.plugin, |it| &it.core.identity.name).clone(),
        fiber: head.map(|it| it.core.identity.id),
        inside: None,
        n_next: 0,
        result,
        #[cfg(feature = "json")]
        answer: None,
    }
}

/// The step that gave the answer as it is: inwards from the outermost, as long as a layer kept what it got.
fn answered_by(notes: &[Note]) -> usize {
    let answered = |inside: Option<usize>| {
        let is_it = |note: &Note| note.inside == inside && matches!(note.result, StepResult::Answered(_));
        notes.iter().rposition(is_it)
    };
    let mut by = answered(None).unwrap_or(0);
    while let Some(StepResult::Answered(Change::Kept)) = notes.get(by).map(|it| &it.result)
        && let Some(inner) = answered(Some(by))
    {
        by = inner;
    }
    by
}

/// Bail and emit; `each` as in the dispatch that nobody watches.
#[cold]
pub(super) fn sync<E, V>(
    emitter: Emitter<'_>,
    event: &E,
    mut each: impl FnMut(Result<Option<E::Output>, ListenerError>) -> bool,
) -> Result<(), ListenerError>
where
    E: Event,
    E::Mode: Dispatches<V, E>,
    V: Verb,
    V::Object<E>: CallObject<E>,
{
    let Some((held, suspect, slot)) = hold(emitter, event) else { return Ok(()) };
    let about = Untyped::of(event);
    emitter.check(&about, suspect)?;
    let is_bail = matches!(<E::Mode as Mode>::NAME, ModeName::Bail);
    let recording = Recording::new(emitter, about, &held);
    let mut failure = None;
    for (place, entry) in held.iter().enumerate() {
        let note = recording.notes.begins(place, None);
        let Some(answer) =
            call_one::<E>(emitter.bus, entry.head(), slot, || E::Mode::object(entry.hook()).call_object(event))
        else {
            recording.notes.skipped(note);
            continue;
        };
        recording.ended(note, &answer);
        if is_bail && !matches!(answer, Ok(None)) {
            recording.notes.tell(answer.as_ref().map(drop).map_err(Clone::clone));
            each(answer);
            return Ok(());
        }
        if let Err(error) = answer {
            failure.get_or_insert_with(|| error.clone());
            each(Err(error));
        }
    }
    if let Some(failure) = failure {
        recording.notes.tell(Err(failure));
    }
    Ok(())
}

/// Calls one synchronous listener behind its gate; nothing where it is not there to run.
fn call_one<E: Event>(
    bus: &Arc<Bus>,
    head: &HookHead,
    slot: u32,
    call: impl FnOnce() -> Outcome<E>,
) -> Option<Answer<E>> {
    let gate = &head.core.gate;
    let _inside = bus.rows.row().enter_closed_for(&bus.rows, gate, slot);
    let claim = if gate.is_closed() { Claim::Skip } else { head.claim() };
    match claim {
        Claim::Run => {}
        Claim::RunOnce => bus.forget(head),
        Claim::Skip => return head.absence(E::NAME).map(Err),
    }
    Some(call().map_err(|fault| bus.failed::<E>(head, fault)))
}

/// The listeners of a dispatch that waits; none where nobody ever listened.
fn hold<'a, E: Event>(emitter: Emitter<'a>, event: &'a E) -> Option<(Held<'a, E>, Option<usize>, u32)> {
    let (source, slot) = emitter.source(event)?;
    let (held, suspect) = source.hold(&emitter.bus.rows, slot)?;
    Some((held, suspect, slot))
}

/// Runs one listener behind its gate to its end; nothing where it is not there to run.
async fn run_one<'a, E: Event>(
    bus: &'a Arc<Bus>,
    head: &'a HookHead,
    slot: u32,
    begin: impl FnOnce(&FreeLists, &mut Context<'_>) -> Begun<'a, E> + Send,
) -> Option<Answer<E>> {
    let mut begin = Some(begin);
    let mut running: Option<Running<'a, E>> = None;
    let mut parked = None;
    poll_fn(|cx| {
        if let Some(begin) = begin.take() {
            match FreeLists::with(|free| start_alone(bus, head, slot, || begin(free, cx))) {
                Progress::Skipped => return Poll::Ready(None),
                Progress::Ready(answer) => return Poll::Ready(Some(answer)),
                Progress::Pending(waiting) => running = Some(Running::new(bus, slot, waiting)),
            }
        } else if let Some(running) = &mut running
            && let Poll::Ready(answer) = running.poll_alone(cx)
        {
            return Poll::Ready(Some(answer));
        }
        if let Some(running) = &running {
            parked.get_or_insert_with(|| running.parked()).set(cx.waker());
        }
        Poll::Pending
    })
    .await
}

pub(super) async fn serial<'a, E>(emitter: Emitter<'a>, event: &'a E) -> Result<Option<E::Output>, ListenerError>
where
    E: Event,
    E::Mode: Dispatches<verb::serial, E>,
{
    let Some((held, suspect, slot)) = hold(emitter, event) else { return Ok(None) };
    let about = Untyped::of(event);
    emitter.check(&about, suspect)?;
    let recording = Recording::new(emitter, about, &held);
    for (place, entry) in held.iter().enumerate() {
        let object = E::Mode::object(entry.hook());
        let note = recording.notes.begins(place, None);
        let begin = |free: &FreeLists, cx: &mut Context<'_>| object.start(event, Starter::new(cx, free));
        let Some(answer) = run_one(emitter.bus, entry.head(), slot, begin).await else {
            recording.notes.skipped(note);
            continue;
        };
        recording.ended(note, &answer);
        if !matches!(answer, Ok(None)) {
            recording.notes.tell(answer.as_ref().map(drop).map_err(Clone::clone));
            return answer;
        }
    }
    Ok(None)
}

pub(super) async fn parallel<'a, E>(emitter: Emitter<'a>, event: &'a E) -> Result<(), ListenerErrors>
where
    E: Event,
    E::Mode: Dispatches<verb::parallel, E>,
{
    let Some((held, suspect, slot)) = hold(emitter, event) else { return Ok(()) };
    let about = Untyped::of(event);
    emitter.check(&about, suspect)?;
    let recording = Recording::new(emitter, about, &held);
    let taken = &recording;
    let all = held.iter().enumerate().map(|(place, entry)| async move {
        let object = E::Mode::object(entry.hook());
        let note = taken.notes.begins(place, None);
        let begin = |free: &FreeLists, cx: &mut Context<'_>| object.start(event, Starter::new(cx, free));
        let answer = run_one(emitter.bus, entry.head(), slot, begin).await;
        match &answer {
            Some(answer) => taken.ended(note, answer),
            None => taken.notes.skipped(note),
        }
        answer
    });
    let answers = futures_util::future::join_all(all).await;
    let errors: Vec<_> = answers.into_iter().flatten().filter_map(Result::err).collect();
    if let Some(first) = errors.first() {
        recording.notes.tell(Err(first.clone()));
    }
    ListenerErrors::check(errors)
}

pub(super) async fn waterfall<'a, E, D, Fut, K>(
    emitter: Emitter<'a>,
    event: &'a E,
    default: D,
) -> Result<E::Output, ListenerError>
where
    E: Event,
    E::Mode: Dispatches<verb::waterfall, E> + Answers<E, Fut::Output, K>,
    D: Fn() -> Fut + Send + Sync,
    Fut: Future + Send,
{
    let about = Untyped::of(event);
    let held = hold(emitter, event);
    let (entries, slot): (&[Entry<E>], u32) = match &held {
        Some((held, suspect, slot)) => {
            emitter.check(&about, *suspect)?;
            (held, *slot)
        }
        None => (&[], 0),
    };
    let start_default = |free: &FreeLists, cx: &mut Context<'_>| {
        Begun::<E>(pool::start::<Fut, FinishAs<E, Fut::Output, K>>(free, &default, cx))
    };
    let recording = Recording::new(emitter, about, entries);
    let answer = {
        // Without entries of its own it comes to the default at once, which is where the recording takes over.
        let chain = Chain { emitter, event, entries: &[], slot, default: &start_default, recording: Some(&recording) };
        Next { chain: &chain, at: 0 }.run().await
    };
    recording.notes.tell(answer.as_ref().map(drop).map_err(Clone::clone));
    answer
}

impl<'a, E: Event> Recording<'a, E> {
    /// Runs the layers that `next` stands for. Its place is one more than that of the note of the layer that has it, or 0
    /// outside of all.
    pub(super) fn run<'c>(&'c self, next: Next<'c, E>) -> BoxFuture<'c, Answer<E>> {
        Box::pin(async move {
            let outer = (next.at as usize).checked_sub(1);
            let answer = self.run_from(next, outer).await;
            if let Some(outer) = outer {
                self.gave(outer, &answer);
            }
            answer
        })
    }

    async fn run_from<'c>(&'c self, next: Next<'c, E>, outer: Option<usize>) -> Answer<E> {
        let chain = next.chain;
        let slot = if outer.is_none() { chain.slot } else { chain.slot | INNER };
        let from = match outer {
            None => 0,
            Some(outer) => {
                let mut notes = lock(&self.notes.notes);
                notes[outer].n_next += 1;
                notes[outer].place + 1
            }
        };
        for (place, entry) in self.entries.iter().enumerate().skip(from) {
            let Some(layer) = E::Mode::layer::<E>(entry.hook()) else { continue };
            let note = self.notes.begins(place, outer);
            let at = u32::try_from(note + 1).expect("fewer than 2^32 layers");
            let begin = |free: &FreeLists, cx: &mut Context<'_>| {
                layer.start(chain.event, Next { chain, at }, Starter::new(cx, free))
            };
            match run_one(chain.emitter.bus, entry.head(), slot, begin).await {
                Some(answer) => {
                    self.ended(note, &answer);
                    return answer;
                }
                None => self.notes.skipped(note),
            }
        }
        let note = self.notes.begins(self.entries.len(), outer);
        let (mut is_started, mut waits) = (false, None);
        let outcome = poll_fn(|cx| {
            if !std::mem::replace(&mut is_started, true) {
                match FreeLists::with(|free| (chain.default)(free, cx).0) {
                    Started::Ready(outcome) => return Poll::Ready(outcome),
                    Started::Pending(future) => waits = Some(future),
                }
                return Poll::Pending;
            }
            waits.as_mut().map_or(Poll::Pending, |future| future.poll(cx))
        })
        .await;
        let answer = next.default_answer(outcome);
        self.ended(note, &answer);
        answer
    }
}
