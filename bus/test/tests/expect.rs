//! `Expected`: matching, and the diff of what does not match.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use linn_bus::Event;
use linn_bus_test::{Expected, run};

#[derive(Event)]
#[event(name = "kit/a", mode = Emit)]
struct A(u8);
#[derive(Event)]
#[event(name = "kit/b", mode = Bail, output = u8)]
struct B;
#[derive(Event)]
#[event(name = "other/c", mode = Emit)]
struct C;

fn expected() -> Expected {
    Expected::new().payload("of 1", |a: &A| a.0 == 1).event("kit/b").payload("of 2", |a: &A| a.0 == 2)
}

/// Dispatches what `steps` spells and shows the difference to `expected`.
fn difference(expected: Expected, steps: &str) -> Option<String> {
    run(async |root| {
        let watch = expected.watch(&root).unwrap();
        for step in steps.split_whitespace() {
            match step {
                "a1" => root.emit(&A(1)),
                "a2" => root.emit(&A(2)),
                "b" => drop(root.bail(&B).unwrap()),
                _ => root.emit(&C),
            }
        }
        watch.difference()
    })
}

#[test]
fn dispatches_are_compared_in_order() {
    let cases = [
        ("a1 b a2", None),
        ("a1 a2", Some("  kit/a of 1\n- kit/b\n  kit/a of 2\n")),
        ("", Some("- kit/a of 1\n- kit/b\n- kit/a of 2\n")),
        ("a1 b a1 a2", Some("  kit/a of 1\n  kit/b\n+ kit/a by root\n  kit/a of 2\n")),
        ("a1 b a2 c", Some("  kit/a of 1\n  kit/b\n  kit/a of 2\n+ other/c by root\n")),
        ("b a1 a2", Some("- kit/a of 1\n  kit/b\n+ kit/a by root\n  kit/a of 2\n")),
    ];
    for (steps, wanted) in cases {
        assert_eq!(difference(expected(), steps).as_deref(), wanted, "after {steps:?}");
    }
}

#[test]
fn ignored_events_make_no_difference() {
    assert_eq!(difference(expected().ignoring("other/"), "c a1 c b a2 c"), None);
}

#[test]
fn a_dispatch_is_known_by_whatever_observers_see() {
    run(async |root| {
        let watch = Expected::new().dispatch("kit/a by `inner`", |it| &*it.plugin == "inner").watch(&root).unwrap();
        let fiber = root.mount_fn("inner", async |ctx: linn_bus::Context, (): ()| ctx.emit(&A(1))).unwrap();
        fiber.settled().await.unwrap();
        watch.assert_finished();
        root.emit(&C);
    });
}

#[test]
#[should_panic(expected = "- kit/b")]
fn what_is_missing_fails_the_test() {
    run(async |root| Expected::new().event("kit/b").watch(&root).unwrap().assert_finished());
}
