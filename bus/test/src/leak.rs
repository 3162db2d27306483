//! What is left on a bus after a plugin is gone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::poll_fn;
use std::task::Poll;

use linn_bus::{Context, EffectInfo, Inspection};

/// Runs `test`, which mounts and disposes something, and looks for what it leaves on the bus: fibers, services, listeners,
/// and tasks, timers and other effects of fibers that were there before.
///
/// ```
/// use linn_bus::{Context, Event};
/// use linn_bus_test::{leak_check, run};
///
/// #[derive(Event)]
/// #[event(name = "doc/tick", mode = Emit)]
/// struct Tick;
///
/// run(async |root| {
///     leak_check(&root, async |ctx| {
///         let fiber = ctx.mount_fn("ticker", async |ctx: Context, (): ()| ctx.on(|_: &Tick| {}).map(drop)).unwrap();
///         fiber.settled().await.unwrap();
///         fiber.dispose().await.unwrap();
///     })
///     .await;
/// });
/// ```
///
/// # Panics
///
/// When something is left; names each thing.
pub async fn leak_check<T>(ctx: &Context, test: impl AsyncFnOnce(&Context) -> T) -> T {
    let before = counts(&ctx.inspect());
    let value = test(ctx).await;
    let mut left = difference(&before, &counts(&ctx.inspect()));
    // What was told to end without being waited for gets its turn to do so.
    for _ in 0..TURNS {
        if left.is_empty() {
            break;
        }
        turn().await;
        left = difference(&before, &counts(&ctx.inspect()));
    }
    assert!(left.is_empty(), "left on the bus:\n{left}");
    value
}

/// How often everything that can run may do so before it counts as left.
const TURNS: u32 = 16;

/// Lets every task that was woken run once.
async fn turn() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How many there are of each thing, and what else to say about it.
type Counts = BTreeMap<String, (usize, String)>;

fn counts(all: &Inspection) -> Counts {
    let mut counts = Counts::new();
    let mut add = |thing: String, note: String| {
        let (n, last) = counts.entry(thing).or_default();
        *n += 1;
        *last = note;
    };
    for fiber in &all.fibers {
        add(format!("fiber #{} of plugin `{}`", fiber.id, fiber.name), format!(", which is {}", fiber.state));
        each_effect(&fiber.effects, &mut |label| {
            add(format!("effect `{label}` of plugin `{}`", fiber.name), String::new());
        });
    }
    for service in &all.services {
        add(format!("service `{}` of plugin `{}`", service.name, service.provider), String::new());
    }
    for event in &all.events {
        for listener in &event.listeners {
            let note = if listener.scoped { ", in a scope" } else { "" };
            add(format!("listener on `{}` of plugin `{}`", event.name, listener.plugin), note.to_owned());
        }
    }
    counts
}

fn each_effect(effects: &[EffectInfo], add: &mut dyn FnMut(&str)) {
    for effect in effects {
        add(&effect.label);
        each_effect(&effect.children, add);
    }
}

fn difference(before: &Counts, after: &Counts) -> String {
    let mut text = String::new();
    for (thing, (n, note)) in after {
        let more = n.saturating_sub(before.get(thing).map_or(0, |it| it.0));
        let times = if more > 1 { format!("{more} x ") } else { String::new() };
        if more > 0 {
            writeln!(text, "  {times}{thing}{note}").expect("a string takes all text");
        }
    }
    text
}
