//! Dispatch against a plain `Vec`: random programs do the same on a bus and on a list, and hear the same.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use linn_bus::{Context, Event, FiberState, Listener, ListenerError, Next, Root, Scope, ScopeKey, listener};
use proptest::prelude::*;

/// What an event of any mode is about, and the numbers of those who heard it.
#[derive(Default)]
struct Told {
    key: Option<ScopeKey>,
    heard: Mutex<Vec<usize>>,
}

#[derive(Event)]
#[event(name = "model/emit", mode = Emit, subject = self.0.key)]
struct Emitted(Told);

#[derive(Event)]
#[event(name = "model/bail", mode = Bail, output = usize, subject = self.0.key)]
struct Bailed(Told);

#[derive(Event)]
#[event(name = "model/serial", mode = Serial, output = usize, subject = self.0.key)]
struct Awaited(Told);

#[derive(Event)]
#[event(name = "model/parallel", mode = Parallel, subject = self.0.key)]
struct Together(Told);

#[derive(Event)]
#[event(name = "model/waterfall", mode = Waterfall, output = Option<usize>, subject = self.0.key)]
struct Wrapped(Told);

/// The five events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Emitted,
    Bailed,
    Awaited,
    Together,
    Wrapped,
}

const KINDS: [Kind; 5] = [Kind::Emitted, Kind::Bailed, Kind::Awaited, Kind::Together, Kind::Wrapped];

/// Where listeners come from: the root, one of two scopes, or one of three plugins.
const SCOPES: usize = 2;
const OWNERS: usize = 1 + SCOPES + 3;

#[derive(Debug, Clone, Copy, Default)]
struct Options {
    owner: usize,
    first: bool,
    once: bool,
    global: bool,
    /// Registers another listener, with the root, whenever it hears something.
    nests: bool,
    /// Disposes the listener with this number, which may be itself, whenever it hears something.
    disposes: Option<usize>,
    /// Answers with its number, where one answer is enough.
    answers: bool,
}

#[derive(Debug, Clone)]
enum Step {
    On(Options),
    /// Disposes the listener with this number, modulo how many there were so far.
    Off(usize),
    /// Disposes the owner, if it is not the root; mounts it again if it is gone.
    Toggle(usize),
    /// Dispatches something about a scope, or about none.
    Dispatch(Kind, Option<usize>),
}

fn options() -> impl Strategy<Value = Options> {
    let flag = || prop::bool::weighted(0.25);
    let disposes = prop::option::weighted(0.3, 0_usize..128);
    (0..OWNERS, flag(), flag(), flag(), prop::bool::weighted(0.1), disposes, flag()).prop_map(
        |(owner, first, once, global, nests, disposes, answers)| Options {
            owner,
            first,
            once,
            global,
            nests,
            disposes,
            answers,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => options().prop_map(Step::On),
        2 => (0_usize..128).prop_map(Step::Off),
        1 => (0..OWNERS).prop_map(Step::Toggle),
        8 => (prop::sample::select(&KINDS[..]), prop::option::of(0..SCOPES)).prop_map(|(it, about)| Step::Dispatch(it, about)),
    ]
}

/// One listener in the model.
#[derive(Debug, Clone)]
struct Entry {
    number: usize,
    options: Options,
    /// Place of the owner among what the root mounted; the root itself is before all of them.
    place: usize,
    kind: Kind,
}

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    places: [usize; OWNERS],
    mounted: usize,
    next: usize,
}

impl Model {
    fn add(&mut self, options: Options, kind: Kind) {
        self.entries.push(Entry { number: self.next, options, place: self.places[options.owner], kind });
        self.next += 1;
    }

    /// Whether it was there.
    fn remove(&mut self, number: usize) -> bool {
        let before = self.entries.len();
        self.entries.retain(|it| it.number != number);
        self.entries.len() < before
    }

    /// Who hears a dispatch, in order, and the answer; registers and removes what that does.
    fn dispatch(&mut self, kind: Kind, about: Option<usize>) -> (Vec<usize>, Option<usize>) {
        let hears = |it: &&Entry| {
            let in_scope = (1..=SCOPES).contains(&it.options.owner) && !it.options.global;
            it.kind == kind && (!in_scope || about == Some(it.options.owner - 1))
        };
        let mut hearing: Vec<Entry> = self.entries.iter().filter(hears).cloned().collect();
        // Registration order within an owner is the order of the list.
        hearing.sort_by_key(|it| (!it.options.first, it.place));
        let mut heard = Vec::new();
        for Entry { number, options, .. } in hearing {
            if !self.entries.iter().any(|it| it.number == number) {
                continue;
            }
            heard.push(number);
            if options.once {
                self.remove(number);
            }
            if options.nests {
                self.add(Options::default(), kind);
            }
            if let Some(other) = options.disposes {
                self.remove(other);
            }
            if options.answers && !matches!(kind, Kind::Emitted | Kind::Together) {
                return (heard, Some(number));
            }
        }
        (heard, None)
    }
}

/// The same on a bus.
struct Bus {
    root: Root,
    scopes: Vec<ScopeKey>,
    owners: Vec<Option<Owner>>,
    listeners: Listeners,
}

/// Every listener there ever was; its number is its place. Listeners reach it to register and to dispose others.
type Listeners = Arc<Mutex<BTreeMap<usize, Listener>>>;

enum Owner {
    Root,
    Scope(Scope),
    Plugin(linn_bus::Fiber),
}

impl Bus {
    async fn new(root: Root) -> Self {
        let scopes = (0..SCOPES).map(|_| root.new_scope_key()).collect();
        let owners = (0..OWNERS).map(|_| None).collect();
        let mut bus = Self { root, scopes, owners, listeners: Listeners::default() };
        for owner in 0..OWNERS {
            bus.mount(owner).await;
        }
        bus
    }

    async fn mount(&mut self, owner: usize) {
        self.owners[owner] = Some(match owner {
            0 => Owner::Root,
            scope if scope <= SCOPES => Owner::Scope(self.root.scope_for(&self.scopes[scope - 1]).unwrap()),
            _ => {
                let fiber = self.root.mount_fn("plugin", async |_: Context, (): ()| {}).unwrap();
                assert_eq!(fiber.settled().await.unwrap(), FiberState::Active);
                Owner::Plugin(fiber)
            }
        });
    }

    fn context(&self, owner: usize) -> Option<Context> {
        match self.owners[owner].as_ref()? {
            Owner::Root => Some(self.root.context().clone()),
            Owner::Scope(scope) => Some(scope.context().clone()),
            Owner::Plugin(fiber) => fiber.context(),
        }
    }

    async fn dispatch(&self, kind: Kind, about: Option<usize>) -> (Vec<usize>, Option<usize>) {
        let root = &self.root;
        let told = Told { key: about.map(|it| self.scopes[it].clone()), ..Told::default() };
        let (told, answer) = match kind {
            Kind::Emitted => {
                let event = Emitted(told);
                root.emit(&event);
                (event.0, None)
            }
            Kind::Bailed => {
                let event = Bailed(told);
                let answer = root.bail(&event).unwrap();
                (event.0, answer)
            }
            Kind::Awaited => {
                let event = Awaited(told);
                let answer = root.serial(&event).await.unwrap();
                (event.0, answer)
            }
            Kind::Together => {
                let event = Together(told);
                root.parallel(&event).await.unwrap();
                (event.0, None)
            }
            Kind::Wrapped => {
                let event = Wrapped(told);
                let answer = root.waterfall(&event, async || None).await.unwrap();
                (event.0, answer)
            }
        };
        (told.heard.into_inner().unwrap(), answer)
    }
}

/// Registers the next listener. Every other one that may wait does so after it heard.
fn register(context: &Context, root: &Context, options: Options, kind: Kind, listeners: &Listeners) {
    let number = listeners.lock().unwrap().len();
    let mut on = options.first.then(|| context.first());
    if options.once {
        on = Some(on.map_or_else(|| context.once(), |it| it.once()));
    }
    if options.global {
        on = Some(on.map_or_else(|| context.global(), |it| it.global()));
    }
    let (root, all) = (root.clone(), listeners.clone());
    let hear = move |told: &Told| {
        told.heard.lock().unwrap().push(number);
        if options.nests {
            register(&root, &root, Options::default(), kind, &all);
        }
        let other = options.disposes.and_then(|it| all.lock().unwrap().get(&it).cloned());
        if let Some(other) = other {
            other.dispose();
        }
        options.answers.then_some(number)
    };
    let wait = async move || {
        if number % 2 == 1 {
            tokio::task::yield_now().await;
        }
    };
    macro_rules! on {
        ($listener:expr) => {
            match on {
                Some(on) => on.on($listener),
                None => context.on($listener),
            }
        };
    }
    let listener = match kind {
        Kind::Emitted => on!(move |it: &Emitted| {
            hear(&it.0);
        }),
        Kind::Bailed => on!(move |it: &Bailed| hear(&it.0)),
        Kind::Awaited => on!(listener!(async move |it: &Awaited| {
            let answer = hear(&it.0);
            wait().await;
            answer
        })),
        Kind::Together => on!(listener!(async move |it: &Together| {
            hear(&it.0);
            wait().await;
        })),
        Kind::Wrapped => on!(listener!(async move |it: &Wrapped, next: Next<'_, Wrapped>| {
            let answer = hear(&it.0);
            wait().await;
            if answer.is_some() { Ok::<_, ListenerError>(answer) } else { next.run().await }
        })),
    };
    listeners.lock().unwrap().insert(number, listener.unwrap());
}

async fn run(root: Root, steps: Vec<Step>) {
    let mut bus = Bus::new(root).await;
    let mut model = Model { places: std::array::from_fn(|owner| owner), mounted: OWNERS, ..Model::default() };
    for step in steps {
        match step {
            Step::On(options) => {
                let Some(context) = bus.context(options.owner) else { continue };
                for kind in KINDS {
                    model.add(options, kind);
                    register(&context, &bus.root, options, kind, &bus.listeners);
                }
            }
            Step::Off(at) if model.next > 0 => {
                let number = at % model.next;
                let listener = bus.listeners.lock().unwrap()[&number].clone();
                assert_eq!(listener.dispose(), model.remove(number), "listener {number}");
            }
            Step::Off(_) | Step::Toggle(0) => {}
            Step::Toggle(owner) => match bus.owners[owner].take() {
                Some(Owner::Plugin(fiber)) => {
                    fiber.dispose().await.unwrap();
                    model.entries.retain(|it| it.options.owner != owner);
                }
                Some(Owner::Scope(scope)) => {
                    scope.dispose().await.unwrap();
                    model.entries.retain(|it| it.options.owner != owner);
                }
                Some(Owner::Root) => unreachable!("the root is not disposed"),
                None => {
                    bus.mount(owner).await;
                    model.places[owner] = model.mounted;
                    model.mounted += 1;
                }
            },
            Step::Dispatch(kind, about) => {
                assert_eq!(bus.dispatch(kind, about).await, model.dispatch(kind, about), "{kind:?}");
            }
        }
        assert_eq!(bus.listeners.lock().unwrap().len(), model.next);
        let listed: usize = bus.root.inspect().events.iter().map(|it| it.listeners.len()).sum();
        assert_eq!(listed, model.entries.len());
    }
    bus.root.fiber().dispose().await.unwrap();
    assert!(bus.root.inspect().events.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bus_hears_what_a_list_hears(steps in prop::collection::vec(step(), 1..60)) {
        linn_bus_test::run(async |root| run(root, steps.clone()).await);
    }
}
