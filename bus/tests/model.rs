//! Dispatch against a plain `Vec`: random programs do the same on a bus and on a list, and hear the same.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::sync::{Arc, Mutex};

use linn_bus::{Context, Event, FiberState, Listener, Root, Scope, ScopeKey};
use proptest::prelude::*;

/// Everybody who hears it writes down their number.
#[derive(Event)]
#[event(name = "model/tell", mode = Emit, subject = key)]
struct Tell {
    key: Option<ScopeKey>,
    heard: Mutex<Vec<usize>>,
}

/// As [`Tell`]; whoever is told to answers.
#[derive(Event)]
#[event(name = "model/ask", mode = Bail, output = usize, subject = key)]
struct Ask {
    key: Option<ScopeKey>,
    heard: Mutex<Vec<usize>>,
}

/// Where listeners come from: the root, one of two scopes, or one of three plugins.
const SCOPES: usize = 2;
const OWNERS: usize = 1 + SCOPES + 3;

#[derive(Debug, Clone, Copy)]
struct Options {
    owner: usize,
    first: bool,
    once: bool,
    global: bool,
    /// Registers another listener, with the root, whenever it hears something.
    nests: bool,
    answers: bool,
}

#[derive(Debug, Clone)]
enum Step {
    On(Options),
    /// Disposes the listener with this number, modulo how many there are.
    Off(usize),
    /// Disposes the owner, if it is not the root; mounts it again if it is gone.
    Toggle(usize),
    Emit(Option<usize>),
    Bail(Option<usize>),
}

fn options() -> impl Strategy<Value = Options> {
    let flag = || prop::bool::weighted(0.25);
    (0..OWNERS, flag(), flag(), flag(), prop::bool::weighted(0.1), flag())
        .prop_map(|(owner, first, once, global, nests, answers)| Options { owner, first, once, global, nests, answers })
}

fn step() -> impl Strategy<Value = Step> {
    let about = || prop::option::of(0..SCOPES);
    prop_oneof![
        5 => options().prop_map(Step::On),
        2 => (0_usize..64).prop_map(Step::Off),
        1 => (0..OWNERS).prop_map(Step::Toggle),
        3 => about().prop_map(Step::Emit),
        3 => about().prop_map(Step::Bail),
    ]
}

/// One listener in the model.
#[derive(Debug, Clone)]
struct Entry {
    number: usize,
    options: Options,
    /// Place of the owner among what the root mounted; the root itself is before all of them.
    place: usize,
    event: Heard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Tell,
    Ask,
}

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    places: [usize; OWNERS],
    mounted: usize,
    next: usize,
}

impl Model {
    /// Who hears a dispatch, in order; registers and removes what that does.
    fn dispatch(&mut self, event: Heard, about: Option<usize>) -> (Vec<usize>, Option<usize>) {
        let hears = |it: &&Entry| {
            let in_scope = (1..=SCOPES).contains(&it.options.owner) && !it.options.global;
            it.event == event && (!in_scope || about == Some(it.options.owner - 1))
        };
        let mut hearing: Vec<Entry> = self.entries.iter().filter(hears).cloned().collect();
        // Registration order within an owner is the order of the list.
        hearing.sort_by_key(|it| (!it.options.first, it.place));
        let (mut heard, mut answer) = (Vec::new(), None);
        for entry in hearing {
            heard.push(entry.number);
            if entry.options.once {
                self.entries.retain(|it| it.number != entry.number);
            }
            if entry.options.nests {
                self.nest(event);
            }
            if event == Heard::Ask && entry.options.answers {
                answer = Some(entry.number);
                break;
            }
        }
        (heard, answer)
    }

    fn nest(&mut self, event: Heard) {
        let options = Options { owner: 0, first: false, once: false, global: false, nests: false, answers: false };
        self.entries.push(Entry { number: self.next, options, place: 0, event });
        self.next += 1;
    }
}

/// The same on a bus.
struct Bus {
    root: Root,
    scopes: Vec<ScopeKey>,
    owners: Vec<Option<Owner>>,
    listeners: Vec<(usize, Listener)>,
    /// Number of the next listener, and those that listeners registered.
    nested: Nested,
}

enum Owner {
    Root,
    Scope(Scope),
    Plugin(linn_bus::Fiber),
}

impl Bus {
    async fn new(root: Root) -> Self {
        let scopes = (0..SCOPES).map(|_| root.new_scope_key()).collect();
        let mut bus = Self {
            root,
            scopes,
            owners: (0..OWNERS).map(|_| None).collect(),
            listeners: Vec::new(),
            nested: Arc::default(),
        };
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

    fn on(&mut self, number: usize, options: Options, event: Heard) {
        let Some(context) = self.context(options.owner) else { return };
        let listener = register(&context, self.root.context().clone(), number, options, event, self.nested.clone());
        self.listeners.push((number, listener));
    }
}

type Nested = Arc<Mutex<(usize, Vec<(usize, Listener)>)>>;

fn register(
    context: &Context,
    root: Context,
    number: usize,
    options: Options,
    event: Heard,
    nested: Nested,
) -> Listener {
    let mut on = if options.first { Some(context.first()) } else { None };
    if options.once {
        on = Some(on.map_or_else(|| context.once(), |it| it.once()));
    }
    if options.global {
        on = Some(on.map_or_else(|| context.global(), |it| it.global()));
    }
    let hear = move |heard: &Mutex<Vec<usize>>| {
        heard.lock().unwrap().push(number);
        if options.nests {
            let number = nested.lock().unwrap().0;
            nested.lock().unwrap().0 += 1;
            let plain = Options { owner: 0, first: false, once: false, global: false, nests: false, answers: false };
            let listener = register(&root, root.clone(), number, plain, event, nested.clone());
            nested.lock().unwrap().1.push((number, listener));
        }
        options.answers.then_some(number)
    };
    match (event, on) {
        (Heard::Tell, Some(on)) => on.on(move |it: &Tell| drop_answer(hear(&it.heard))),
        (Heard::Tell, None) => context.on(move |it: &Tell| drop_answer(hear(&it.heard))),
        (Heard::Ask, Some(on)) => on.on(move |it: &Ask| hear(&it.heard)),
        (Heard::Ask, None) => context.on(move |it: &Ask| hear(&it.heard)),
    }
    .unwrap()
}

fn drop_answer(_: Option<usize>) {}

async fn run(root: Root, steps: Vec<Step>) {
    let mut bus = Bus::new(root).await;
    let mut model = Model { places: std::array::from_fn(|owner| owner), mounted: OWNERS, ..Model::default() };
    for step in steps {
        bus.nested.lock().unwrap().0 = model.next;
        match step {
            Step::On(options) => {
                if bus.owners[options.owner].is_none() {
                    continue;
                }
                for event in [Heard::Tell, Heard::Ask] {
                    let number = model.next;
                    model.next += 1;
                    model.entries.push(Entry { number, options, place: model.places[options.owner], event });
                    bus.on(number, options, event);
                }
            }
            Step::Off(at) if !bus.listeners.is_empty() => {
                let at = at % bus.listeners.len();
                let (number, listener) = &bus.listeners[at];
                let was_there = model.entries.iter().any(|it| it.number == *number);
                model.entries.retain(|it| it.number != *number);
                assert_eq!(listener.dispose(), was_there, "listener {number}");
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
            Step::Emit(about) => {
                let key = about.map(|it| bus.scopes[it].clone());
                let event = Tell { key, heard: Mutex::default() };
                bus.root.emit(&event);
                let (heard, _) = model.dispatch(Heard::Tell, about);
                assert_eq!(event.heard.into_inner().unwrap(), heard);
            }
            Step::Bail(about) => {
                let key = about.map(|it| bus.scopes[it].clone());
                let event = Ask { key, heard: Mutex::default() };
                let answer = bus.root.bail(&event).unwrap();
                let (heard, expected) = model.dispatch(Heard::Ask, about);
                assert_eq!(event.heard.into_inner().unwrap(), heard);
                assert_eq!(answer, expected);
            }
        }
        let nested = std::mem::take(&mut bus.nested.lock().unwrap().1);
        bus.listeners.extend(nested);
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
