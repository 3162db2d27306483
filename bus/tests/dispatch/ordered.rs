//! Ordered events: a nested notification waits until the running one has reached everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linn_bus::{Context, Event, Fault, InternalDispatch, ScopeKey};
use linn_bus_test::run;

use crate::Log;

#[derive(Debug, Clone, Event)]
#[event(name = "ordered/fact", mode = Emit, ordered)]
struct Fact(u32);

/// Two listeners, the first of which emits two more at the first fact.
fn chain(ctx: &Context, log: &Log) {
    let (inner, noted) = (ctx.clone(), log.clone());
    ctx.on(move |e: &Fact| {
        noted.note(format!("a{}", e.0));
        if e.0 == 1 {
            inner.emit(&Fact(2));
            inner.emit(&Fact(3));
            noted.note("a1-done");
        }
    })
    .unwrap();
    let noted = log.clone();
    ctx.on(move |e: &Fact| noted.note(format!("b{}", e.0))).unwrap();
}

#[test]
fn what_is_emitted_inside_waits_its_turn() {
    run(async |root| {
        assert!(Fact::descriptor().ordered);
        let log = Log::default();
        chain(&root, &log);
        root.emit(&Fact(1));
        assert_eq!(log.take(), "a1 a1-done b1 a2 b2 a3 b3");
        root.emit(&Fact(4));
        assert_eq!(log.take(), "a4 b4");
    });
}

#[test]
fn try_emit_delivers_at_once() {
    run(async |root| {
        let log = Log::default();
        let (ctx, noted) = (root.context().clone(), log.clone());
        root.on(move |e: &Fact| {
            noted.note(format!("a{}", e.0));
            if e.0 == 1 {
                ctx.try_emit(&Fact(2)).unwrap();
            }
        })
        .unwrap();
        let noted = log.clone();
        root.on(move |e: &Fact| noted.note(format!("b{}", e.0))).unwrap();
        root.emit(&Fact(1));
        assert_eq!(log.take(), "a1 a2 b2 b1");
    });
}

#[test]
fn a_failure_does_not_stop_what_waits() {
    run(async |root| {
        let log = Log::default();
        chain(&root, &log);
        root.first().on(|e: &Fact| if e.0 == 2 { panic!("boom") } else { Err(Fault::msg("no")) }).unwrap();
        root.emit(&Fact(1));
        assert_eq!(log.take(), "a1 a1-done b1 a2 b2 a3 b3");
    });
}

#[test]
fn a_listener_added_meanwhile_hears_what_waited() {
    run(async |root| {
        let log = Log::default();
        let (ctx, noted) = (root.context().clone(), log.clone());
        root.on(move |e: &Fact| {
            if e.0 == 1 {
                ctx.emit(&Fact(2));
                let noted = noted.clone();
                ctx.on(move |e: &Fact| noted.note(format!("late{}", e.0))).unwrap();
            }
        })
        .unwrap();
        root.emit(&Fact(1));
        assert_eq!(log.take(), "late2");
    });
}

#[test]
fn an_event_that_waited_is_still_that_of_its_emitter() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |it: &InternalDispatch| noted.note(format!("{}:{}", it.plugin, it.payload::<Fact>().unwrap().0)))
            .unwrap();
        let fiber = root
            .mount_fn("inner", async |ctx: Context, (): ()| {
                let inner = ctx.clone();
                ctx.on(move |e: &Fact| {
                    if e.0 == 1 {
                        inner.emit(&Fact(2));
                    }
                })
                .map(drop)
            })
            .unwrap();
        fiber.running().await.unwrap();
        root.emit(&Fact(1));
        assert_eq!(log.take(), "root:1 inner:2");
    });
}

#[test]
fn copying_the_payload_may_emit() {
    #[derive(Event)]
    #[event(name = "ordered/cloning", mode = Emit, ordered)]
    struct Cloning(Context, u32);
    impl Clone for Cloning {
        fn clone(&self) -> Self {
            if self.1 == 2 {
                self.0.emit(&Cloning(self.0.clone(), 3));
            }
            Self(self.0.clone(), self.1)
        }
    }
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |e: &Cloning| {
            noted.note(e.1.to_string());
            if e.1 == 1 {
                e.0.emit(&Cloning(e.0.clone(), 2));
            }
        })
        .unwrap();
        root.emit(&Cloning(root.context().clone(), 1));
        assert_eq!(log.take(), "1 3 2");
    });
}

/// Panics where its subject is asked for, if it is bad.
#[derive(Clone, Event)]
#[event(name = "ordered/touchy", mode = Emit, ordered, subject = self.key())]
struct Touchy {
    number: u32,
    is_bad: bool,
}

impl Touchy {
    fn good(number: u32) -> Self {
        Self { number, is_bad: false }
    }
    fn bad(number: u32) -> Self {
        Self { number, is_bad: true }
    }
    fn key(&self) -> &Option<ScopeKey> {
        assert!(!self.is_bad, "no key");
        &None
    }
}

#[test]
fn a_payload_that_panics_does_not_silence_its_event() {
    run(async |root| {
        let log = Log::default();
        let noted = log.clone();
        root.on(move |e: &Touchy| noted.note(e.number.to_string())).unwrap();
        root.emit(&Touchy::good(1));
        let emitted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| root.emit(&Touchy::bad(2))));
        emitted.expect_err("the panic of the emitter's own code is the emitter's");
        root.emit(&Touchy::good(3));
        assert_eq!(log.take(), "1 3");
    });
}

#[test]
fn a_payload_that_panics_while_it_waits_does_not_keep_the_others_waiting() {
    run(async |root| {
        let log = Log::default();
        let (ctx, noted) = (root.context().clone(), log.clone());
        root.on(move |e: &Touchy| {
            noted.note(e.number.to_string());
            if e.number == 1 {
                ctx.emit(&Touchy::bad(2));
                ctx.emit(&Touchy::good(3));
            }
        })
        .unwrap();
        root.emit(&Touchy::good(1));
        root.emit(&Touchy::good(4));
        assert_eq!(log.take(), "1 3 4");
    });
}

#[test]
fn a_copy_whose_drop_panics_hurts_nobody() {
    struct Fragile(u32);
    #[derive(Event)]
    #[event(name = "ordered/fragile", mode = Emit, ordered)]
    struct Shown(Arc<Log>, Context, #[expect(dead_code, reason = "it is there to be dropped")] Option<Fragile>, u32);
    impl Clone for Shown {
        fn clone(&self) -> Self {
            Self(self.0.clone(), self.1.clone(), Some(Fragile(self.3)), self.3)
        }
    }
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("the copy of {} breaks", self.0);
        }
    }
    run(async |root| {
        let log = Arc::new(Log::default());
        root.on(|e: &Shown| {
            e.0.note(e.3.to_string());
            if e.3 == 1 {
                e.1.emit(&Shown(e.0.clone(), e.1.clone(), None, 2));
                e.1.emit(&Shown(e.0.clone(), e.1.clone(), None, 3));
            }
        })
        .unwrap();
        root.emit(&Shown(log.clone(), root.context().clone(), None, 1));
        root.emit(&Shown(log.clone(), root.context().clone(), None, 4));
        assert_eq!(log.take(), "1 2 3 4");
    });
}

#[test]
fn threads_take_turns_and_lose_nothing() {
    run(async |root| {
        const EACH: u32 = 300;
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (noted, busy) = (log.clone(), AtomicBool::new(false));
        root.on(move |e: &Fact| {
            assert!(!busy.swap(true, Ordering::AcqRel), "one at a time");
            noted.lock().unwrap().push(e.0);
            busy.store(false, Ordering::Release);
        })
        .unwrap();
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let ctx = root.context();
                threads.spawn(move || (0..EACH).for_each(|i| ctx.emit(&Fact(thread * EACH + i))));
            }
        });
        let log = log.lock().unwrap();
        assert_eq!(log.len() as u32, 3 * EACH);
        for thread in 0..3 {
            let own: Vec<_> = log.iter().copied().filter(|it| it / EACH == thread).collect();
            assert!(own.is_sorted(), "each thread's own order is kept");
        }
    });
}
