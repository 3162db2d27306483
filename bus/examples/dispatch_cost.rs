//! What a dispatch costs beside the bare loop it replaces: `cargo run --release -p linn-bus --example dispatch_cost`.
#![expect(
    unreachable_pub,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures time and prints a table"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[path = "../benches/workload.rs"]
mod workload;
use workload::*;

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system allocator unchanged; the counters do not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: by the contract of this method.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: by the contract of this method.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: u32 = 25;
const CALLS: u32 = 10_000;
/// Calls a round where each is timed by itself.
const FIRST_CALLS: u32 = 100;

/// Where threads run side by side: how often they are started anew, the rounds they make each time, and the calls a round.
/// Short and many, so that in some rounds each thread has a processor for itself.
const THREAD_STARTS: u32 = 100;
const THREAD_ROUNDS: u32 = 50;
const THREAD_CALLS: u32 = 4_000;

/// Nanoseconds of one call in this round.
fn round(f: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        f();
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Nanoseconds of one call of each, the best of several rounds that take turns (the machine is shared), and allocations
/// of one call of the second.
fn measure(mut limit: impl FnMut(), mut ours: impl FnMut()) -> (f64, f64, f64) {
    round(&mut limit);
    round(&mut ours);
    let (mut best_limit, mut best_ours, mut allocations) = (f64::INFINITY, f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        best_limit = best_limit.min(round(&mut limit));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        best_ours = best_ours.min(round(&mut ours));
        allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
    }
    (best_limit, best_ours, allocations as f64 / f64::from(ROUNDS * CALLS))
}

fn row(mode: &str, n: u64, limit: impl FnMut(), ours: impl FnMut()) {
    let (limit, ns, allocations) = measure(limit, ours);
    let ratio = if limit > 0.5 { format!("{:.2}", ns / limit) } else { "-".to_owned() };
    println!("| {mode} | {n} | {limit:.1} | {ns:.1} | {ratio} | {:+.1} | {allocations:.2} |", ns - limit);
}

fn main() {
    println!("| mode | listeners | limit, ns | dispatch, ns | ratio | over, ns | allocations |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let root = bus();
    row("emit, never heard", 0, || {}, || root.emit(black_box(&Unheard)));
    for n in [1, 8, 64] {
        let (root, bare) = (bus(), bare(n));
        on_told(&root, n);
        row("emit", n, || run_bare(&bare, black_box(&Told(1))), || root.emit(black_box(&Told(1))));
    }
    for n in [1, 8, 64] {
        let (root, bare) = (bus(), bare(n));
        on_asked(&root, n);
        let ask = || {
            black_box(root.bail(black_box(&Asked(1))).is_ok());
        };
        row("bail", n, || run_bare(&bare, black_box(&Told(1))), ask);
    }
    for n in [1, 8, 64] {
        let (root, bare) = (bus(), bare_async(n, false));
        on_in_turn(&root, n);
        let limit = || {
            black_box(drive(run_serial(&bare, black_box(&Told(1)))));
        };
        row("serial, ready", n, limit, || {
            black_box(drive(root.serial(black_box(&InTurn(1)))).is_ok());
        });
    }
    for pending in [false, true] {
        for n in [1, 8, 64] {
            let (root, bare) = (bus(), bare_async(n, pending));
            on_together(&root, n, pending);
            let mode = if pending { "parallel, pending" } else { "parallel, ready" };
            row(
                mode,
                n,
                || drive(run_join_all(&bare, black_box(&Told(1)))),
                || {
                    black_box(drive(root.parallel(black_box(&Together(1)))).is_ok());
                },
            );
        }
    }
    for n in [1, 8] {
        let (root, bare) = (bus(), bare_layers(n));
        on_around(&root, n);
        let limit = || {
            black_box(drive(run_layers(black_box(&Around(1)), &bare, 0)));
        };
        row("waterfall, async", n, limit, || {
            let event = Around(1);
            black_box(drive(root.waterfall(black_box(&event), async || event.0)).is_ok());
        });
    }
    for n in [1, 8] {
        let (root, plain) = (bus(), plain_layers(n));
        on_around_plain(&root, n);
        let limit = || {
            black_box(run_plain(black_box(&Around(1)), &plain));
        };
        row("waterfall, plain", n, limit, || {
            let event = Around(1);
            black_box(drive(root.waterfall(black_box(&event), async || event.0)).is_ok());
        });
    }
    scopes();
    registration();
    threads();
}

fn scopes() {
    let (root, unscoped) = (bus(), bus());
    let scopes: Vec<_> = (0..1_000).map(|_| root.scope().expect("the root is active")).collect();
    for scope in &scopes {
        on_about(scope.context(), 8);
    }
    on_about(&unscoped, 8);
    let event = About { key: Some(scopes[500].key().clone()), value: 1 };
    let everybody = About { key: None, value: 1 };
    row(
        "one scope of 1,000 (limit: unscoped)",
        8,
        || unscoped.emit(black_box(&everybody)),
        || {
            root.emit(black_box(&event));
        },
    );
}

fn registration() {
    for n in [1, 1_000, 10_000] {
        let root = bus();
        on_told(&root, n);
        let change = || {
            root.on(|_: &Told| {}).expect("the root is active").dispose();
        };
        let (_, ns, allocations) = measure(|| {}, change);
        println!("| register and dispose | {n} | - | {ns:.1} | - | - | {allocations:.2} |");
    }
    for n in [1_u64, 8, 1_000] {
        let root = bus();
        on_told(&root, n);
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let mut total = 0;
            for _ in 0..FIRST_CALLS {
                let extra = root.on(|_: &Told| {}).expect("the root is active");
                let start = Instant::now();
                root.emit(black_box(&Told(1)));
                total += start.elapsed().as_nanos();
                extra.dispose();
            }
            best = best.min(total as f64 / f64::from(FIRST_CALLS));
        }
        println!("| first emit after a change | {n} | - | {best:.1} | - | - | - |");
    }
    let root = bus();
    let before = LIVE.load(Ordering::Relaxed);
    on_told(&root, 10_000);
    let bytes = (LIVE.load(Ordering::Relaxed) - before) as f64 / 10_000.0;
    println!("| bytes a listener, of 10,000 | | | {bytes:.0} | | | |");
    let before = LIVE.load(Ordering::Relaxed);
    let scopes: Vec<_> = (0..1_000).map(|_| root.scope().expect("the root is active")).collect();
    let bytes = (LIVE.load(Ordering::Relaxed) - before) as f64 / 1_000.0;
    println!("| bytes an empty scope, of {} | | | {bytes:.0} | | | |", scopes.len());
}

/// Dispatches a second of one thread and of two, quiet and beside 6,000 changes a second; the limit is the bare loop.
fn threads() {
    let (root, bare) = (bus(), bare(8));
    on_told(&root, 8);
    let plain = |_| run_bare(&bare, black_box(&Told(1)));
    let emit = |_| root.emit(black_box(&Told(1)));
    let emit_and_change = |call| {
        root.emit(black_box(&Told(1)));
        // About 6,000 changes a second in all.
        if call % 4_000 == 2_000 {
            root.on(|_: &Told| {}).expect("the root is active").dispose();
        }
    };
    let (limit_one, limit_two) = (together(1, &plain), together(2, &plain));
    let (one, two, changing) = (together(1, &emit), together(2, &emit), together(2, &emit_and_change));
    println!(
        "| bare loop on 1 / 2 threads, M a second | 8 | {limit_one:.1} / {limit_two:.1} | - | {:.2} | - | - |",
        limit_two / limit_one
    );
    println!("| emit on 1 / 2 threads, M a second | 8 | - | {one:.1} / {two:.1} | {:.2} | - | - |", two / one);
    println!(
        "| emit on 2 threads with 6,000 changes a second | 8 | - | {changing:.1} | {:.2} | - | - |",
        changing / two
    );
}

/// Millions of calls a second that so many threads make together, in the best of many short rounds. `call` is told its
/// number on the first thread and 0 on the others.
fn together(threads: u64, call: &(impl Fn(u64) + Sync)) -> f64 {
    let calls = u64::from(THREAD_CALLS);
    let mut best = u64::MAX;
    for _ in 0..THREAD_STARTS {
        let arrived = AtomicU64::new(0);
        let slowest: Vec<_> = (0..THREAD_ROUNDS).map(|_| AtomicU64::new(0)).collect();
        let meet = |number: u64| {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < number * threads {
                std::thread::yield_now();
            }
        };
        let work = |thread: u64| {
            for (round, slowest) in (0..).zip(&slowest) {
                meet(2 * round + 1);
                let start = Instant::now();
                for it in 0..calls {
                    call(if thread == 0 { round * calls + it } else { 0 });
                }
                meet(2 * round + 2);
                slowest.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            (0..threads).for_each(|thread| {
                scope.spawn(move || work(thread));
            });
        });
        best = slowest.iter().map(|it| it.load(Ordering::Relaxed)).fold(best, u64::min);
    }
    (calls * threads) as f64 * 1e3 / best as f64
}
