//! Order: marked `first`, then place in the plugin tree, then number within the fiber.

use linn_bus::{BusError, Context, Fault, Fiber, FiberState, Mounted, Plugin};
use linn_bus_test::run;

use crate::{Log, MODES, Ping, ScopedPing, dispatch, listen};

/// A plugin that notes its name on every plain event, with listeners marked first where the name ends in `!`.
struct Noting;

#[derive(Clone)]
struct Named {
    name: String,
    log: Log,
}

impl Plugin for Noting {
    const NAME: &'static str = "noting";
    type Config = Named;
    type Needs = ();
    async fn start(ctx: &Context, Named { name, log }: Named, (): ()) -> Result<(), Fault> {
        for mode in MODES {
            if name.ends_with('!') {
                listen(&ctx.first(), mode, log.noting(name.clone()));
            } else {
                listen(ctx, mode, log.noting(name.clone()));
            }
        }
        Ok(())
    }
}

impl Log {
    fn named(&self, name: &str) -> Named {
        Named { name: name.to_owned(), log: self.clone() }
    }
}

async fn mount(ctx: &Context, log: &Log, name: &str) -> Mounted<Noting> {
    let mounted = ctx.mount::<Noting>(log.named(name)).unwrap();
    mounted.running().await.unwrap();
    mounted
}

async fn check(ctx: &Context, log: &Log, expected: &str) {
    for mode in MODES {
        dispatch(ctx, mode).await.unwrap();
        assert_eq!(log.take(), expected, "{mode}");
    }
}

#[test]
fn ev_27_a_listener_marked_first_comes_first() {
    run(async |root| {
        for mode in MODES {
            let log = Log::default();
            listen(root.context(), mode, log.noting("a"));
            listen(root.context(), mode, log.noting("b"));
            listen(&root.first(), mode, log.noting("p"));
            dispatch(&root, mode).await.unwrap();
            assert_eq!(log.take(), "p a b", "{mode}");
        }
    });
}

#[test]
fn ev_28_several_marked_first_keep_their_order() {
    run(async |root| {
        let log = Log::default();
        for mode in MODES {
            listen(root.context(), mode, log.noting("a"));
            listen(&root.first(), mode, log.noting("p1"));
            listen(&root.first(), mode, log.noting("p2"));
        }
        mount(&root, &log, "p3!").await;
        check(&root, &log, "p1 p2 p3! a").await;
    });
}

#[test]
fn listeners_of_the_root_come_before_those_of_plugins() {
    run(async |root| {
        let log = Log::default();
        mount(&root, &log, "plugin").await;
        for mode in MODES {
            listen(root.context(), mode, log.noting("root"));
        }
        check(&root, &log, "root plugin").await;
    });
}

#[test]
fn place_in_the_tree_goes_before_time_of_registration() {
    run(async |root| {
        let log = Log::default();
        // b waits for its child, which registers last, and c is there before either is done.
        let b = mount(&root, &log, "b").await;
        let c = mount(&root, &log, "c").await;
        let inner = b.context().unwrap();
        mount(&inner, &log, "b1").await;
        mount(&inner, &log, "b2").await;
        assert_eq!((&*b.place(), &*c.place()), (&[0][..], &[1][..]));
        check(&root, &log, "b b1 b2 c").await;
    });
}

#[test]
fn a_restarted_plugin_keeps_its_place() {
    run(async |root| {
        let log = Log::default();
        let gate = mount(&root, &log, "gate").await;
        mount(&root, &log, "other").await;
        check(&root, &log, "gate other").await;
        assert_eq!(gate.restart().await.unwrap(), FiberState::Active);
        check(&root, &log, "gate other").await;
        gate.update(log.named("gate-2")).await.unwrap();
        check(&root, &log, "gate-2 other").await;
    });
}

#[test]
fn a_plugin_mounted_again_at_its_place_keeps_it() {
    run(async |root| {
        let log = Log::default();
        for (place, name) in [(0, "a"), (1, "b"), (2, "c")] {
            let mounted = root.mount_at::<Noting>(place, log.named(name)).unwrap();
            mounted.running().await.unwrap();
            if name == "b" {
                mounted.dispose().await.unwrap();
            }
        }
        check(&root, &log, "a c").await;
        root.mount_at::<Noting>(1, log.named("b")).unwrap().running().await.unwrap();
        check(&root, &log, "a b c").await;
        root.mount_at::<Noting>(1, log.named("b-too")).unwrap().running().await.unwrap();
        check(&root, &log, "a b b-too c").await;
    });
}

#[test]
fn a_version_switched_in_takes_the_place_of_the_old_one() {
    run(async |root| {
        let log = Log::default();
        let old = mount(&root, &log, "old").await;
        mount(&root, &log, "other").await;
        let prepared = root.prepare_for::<Noting>(old.fiber(), log.named("new")).unwrap();
        prepared.fiber().running().await.unwrap();
        check(&root, &log, "old other").await;
        let switched = prepared.switch().await.unwrap();
        check(&root, &log, "new other").await;
        switched.old_gone().await.unwrap();
        check(&root, &log, "new other").await;
    });
}

#[test]
fn scoped_listeners_keep_their_place_among_those_outside() {
    run(async |root| {
        let log = Log::default();
        let scope = root.scope().unwrap();
        let on = |ctx: &Context, first: bool, text: &'static str| {
            let log = log.clone();
            let listener = move |_: &ScopedPing| log.note(text);
            if first { ctx.first().on(listener) } else { ctx.on(listener) }.unwrap();
        };
        let plugin = |name: &'static str| -> Result<Fiber, BusError> {
            let log = log.clone();
            root.mount_fn(name, move |ctx: Context, (): ()| {
                let log = log.clone();
                async move { ctx.on(move |_: &ScopedPing| log.note(name)).map(drop) }
            })
        };
        plugin("after").unwrap().running().await.unwrap();
        on(scope.context(), false, "scoped");
        on(scope.context(), true, "scoped-first");
        on(&root, false, "root");
        on(&root, true, "root-first");
        root.emit(&ScopedPing { about: Some(scope.key().clone()) });
        assert_eq!(log.take(), "root-first scoped-first root scoped after");
        root.emit(&ScopedPing { about: None });
        assert_eq!(log.take(), "root-first root after");
    });
}

#[test]
fn many_listeners_keep_their_order_through_many_changes() {
    run(async |root| {
        let log = Log::default();
        let mut kept = Vec::new();
        for i in 0..100_u32 {
            let noted = log.clone();
            let listener = root.on(move |_: &Ping| noted.note(i.to_string())).unwrap();
            if i % 3 == 0 {
                kept.push(i.to_string());
            } else {
                assert!(listener.dispose());
            }
            root.emit(&Ping(0));
            log.take();
        }
        root.emit(&Ping(0));
        assert_eq!(log.take(), kept.join(" "));
    });
}

#[test]
fn a_plugin_that_is_moved_is_heard_in_its_new_place_with_all_below_it() {
    run(async |root| {
        let log = Log::default();
        let a = mount(&root, &log, "a").await;
        mount(&a.context().unwrap(), &log, "a1").await;
        let b = mount(&root, &log, "b").await;
        mount(&root, &log, "c").await;
        check(&root, &log, "a a1 b c").await;
        a.move_to(&[1, 5]).unwrap();
        assert_eq!(*a.place(), [1, 5]);
        check(&root, &log, "b a a1 c").await;
        // What comes later is below the new place.
        mount(&a.context().unwrap(), &log, "a2").await;
        check(&root, &log, "b a a1 a2 c").await;
        b.move_to(&[9]).unwrap();
        check(&root, &log, "a a1 a2 c b").await;
        assert_eq!(a.state(), FiberState::Active);
        b.dispose().await.unwrap();
        assert!(b.move_to(&[0]).is_err());
        assert!(root.fiber().move_to(&[0]).is_err());
    });
}
