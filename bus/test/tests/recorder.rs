//! `Recorder`: what it keeps, what it answers, and how it waits.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::time::Duration;

use linn_bus::{Context, Event};
use linn_bus_test::{Recorder, run};

macro_rules! events {
    ($($name:ident $text:literal $mode:ident $($output:ident = $ty:ty)?;)*) => {$(
        #[derive(Event, Clone, Debug, PartialEq)]
        #[event(name = $text, mode = $mode $(, $output = $ty)?)]
        struct $name(u32);
    )*};
}
events! {
    Told "kit/told" Emit;
    Asked "kit/asked" Bail output = u32;
    Awaited "kit/awaited" Serial output = u32;
    Together "kit/together" Parallel;
    Wrapped "kit/wrapped" Waterfall output = u32;
}

async fn all_modes(ctx: &Context) -> (Option<u32>, Option<u32>, u32) {
    ctx.emit(&Told(1));
    let asked = ctx.bail(&Asked(2)).unwrap();
    let awaited = ctx.serial(&Awaited(3)).await.unwrap();
    ctx.parallel(&Together(4)).await.unwrap();
    (asked, awaited, ctx.waterfall(&Wrapped(5), async || 6).await.unwrap())
}

#[test]
fn a_recorder_passes_on_what_it_hears_in_every_mode() {
    run(async |root| {
        let recorder = Recorder::new();
        recorder.listen::<Told>(&root).unwrap();
        recorder.listen::<Asked>(&root).unwrap();
        recorder.listen::<Awaited>(&root).unwrap();
        recorder.listen::<Together>(&root).unwrap();
        recorder.listen::<Wrapped>(&root).unwrap();
        assert_eq!(all_modes(&root).await, (None, None, 6));
        assert_eq!(recorder.names(), ["kit/told", "kit/asked", "kit/awaited", "kit/together", "kit/wrapped"]);
        assert_eq!(recorder.heard::<Wrapped>(), [Wrapped(5)]);
        recorder.clear();
        assert!(recorder.names().is_empty());
    });
}

#[test]
fn a_recorder_answers_where_it_is_told_to() {
    run(async |root| {
        let recorder = Recorder::new();
        recorder.answer(&root, |asked: &Asked| Some(asked.0 + 10)).unwrap();
        recorder.answer(&root, |_: &Awaited| None).unwrap();
        recorder.answer(&root, |wrapped: &Wrapped| Some(wrapped.0 + 20)).unwrap();
        assert_eq!(all_modes(&root).await, (Some(12), None, 25));
    });
}

#[test]
fn a_recorder_stops_with_its_fiber() {
    run(async |root| {
        let recorder = Recorder::new();
        let scope = root.scope().unwrap();
        recorder.listen::<Told>(scope.context()).unwrap();
        root.emit(&Told(1));
        scope.dispose().await.unwrap();
        root.emit(&Told(2));
        assert_eq!(recorder.heard::<Told>(), [Told(1)]);
    });
}

#[test]
fn the_nth_occurrence_is_waited_for_without_polling() {
    run(async |root| {
        let recorder = Recorder::new();
        recorder.note(&root, |told: &Told| told.0 * 100).unwrap();
        root.emit(&Told(1));
        assert_eq!(recorder.nth::<u32>(1).await, 100, "what was heard before counts");
        let (ctx, mut n) = (root.context().clone(), 1);
        let beat = move || {
            n += 1;
            ctx.emit(&Told(n));
        };
        root.interval(Duration::from_secs(1), beat).unwrap();
        assert_eq!(recorder.nth::<u32>(4).await, 400);
        assert_eq!(root.clock().monotonic(), Duration::from_secs(3));
    });
}
