//! Dispatch beside the bare loop it replaces, in the same run: `cargo bench -p linn-bus`.
#![allow(missing_docs, unreachable_pub, dead_code, reason = "a benchmark; the workload is shared with the cost table")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

mod workload;
use workload::{
    About, Around, Asked, InTurn, Together, Told, Unheard, bare, bare_async, bare_layers, bus, drive, on_about,
    on_around, on_asked, on_in_turn, on_together, on_told, run_bare, run_join_all, run_layers, run_serial,
};

const SIZES: [u64; 3] = [1, 8, 64];

fn synchronous(c: &mut Criterion) {
    let mut group = c.benchmark_group("emit");
    let root = bus();
    group.bench_function("never heard", |b| b.iter(|| root.emit(black_box(&Unheard))));
    for n in SIZES {
        let (root, bare) = (bus(), bare(n));
        on_told(&root, n);
        group.bench_function(BenchmarkId::new("bare loop", n), |b| b.iter(|| run_bare(&bare, black_box(&Told(1)))));
        group.bench_function(BenchmarkId::new("bus", n), |b| b.iter(|| root.emit(black_box(&Told(1)))));
    }
    group.finish();
    let mut group = c.benchmark_group("bail");
    for n in SIZES {
        let (root, bare) = (bus(), bare(n));
        on_asked(&root, n);
        group.bench_function(BenchmarkId::new("bare loop", n), |b| b.iter(|| run_bare(&bare, black_box(&Told(1)))));
        group.bench_function(BenchmarkId::new("bus", n), |b| b.iter(|| root.bail(black_box(&Asked(1)))));
    }
    group.finish();
}

fn asynchronous(c: &mut Criterion) {
    let mut group = c.benchmark_group("serial");
    for n in SIZES {
        let (root, bare) = (bus(), bare_async(n, false));
        on_in_turn(&root, n);
        let limit = || drive(run_serial(&bare, black_box(&Told(1))));
        group.bench_function(BenchmarkId::new("boxed futures", n), |b| b.iter(limit));
        group.bench_function(BenchmarkId::new("bus", n), |b| b.iter(|| drive(root.serial(black_box(&InTurn(1))))));
    }
    group.finish();
    for pending in [false, true] {
        let mut group = c.benchmark_group(if pending { "parallel, pending" } else { "parallel, ready" });
        for n in SIZES {
            let (root, bare) = (bus(), bare_async(n, pending));
            on_together(&root, n, pending);
            let limit = || drive(run_join_all(&bare, black_box(&Told(1))));
            group.bench_function(BenchmarkId::new("join_all", n), |b| b.iter(limit));
            let ours = || drive(root.parallel(black_box(&Together(1))));
            group.bench_function(BenchmarkId::new("bus", n), |b| b.iter(ours));
        }
        group.finish();
    }
    let mut group = c.benchmark_group("waterfall");
    for n in [1, 8] {
        let (root, bare) = (bus(), bare_layers(n));
        on_around(&root, n);
        let limit = || drive(run_layers(black_box(&Around(1)), &bare, 0));
        group.bench_function(BenchmarkId::new("boxed recursion", n), |b| b.iter(limit));
        let event = Around(1);
        let ours = || drive(root.waterfall(black_box(&event), async || event.0));
        group.bench_function(BenchmarkId::new("bus", n), |b| b.iter(ours));
    }
    group.finish();
}

fn scopes_and_changes(c: &mut Criterion) {
    let mut group = c.benchmark_group("scope");
    let (root, unscoped) = (bus(), bus());
    let scopes: Vec<_> = (0..1_000).map(|_| root.scope().expect("the root is active")).collect();
    for scope in &scopes {
        on_about(scope.context(), 8);
    }
    on_about(&unscoped, 8);
    let everybody = About { key: None, value: 1 };
    let one = About { key: Some(scopes[500].key().clone()), value: 1 };
    group.bench_function("unscoped", |b| b.iter(|| unscoped.emit(black_box(&everybody))));
    group.bench_function("one of 1,000", |b| b.iter(|| root.emit(black_box(&one))));
    group.finish();
    let mut group = c.benchmark_group("register and dispose");
    for n in [1, 1_000, 10_000] {
        let root = bus();
        on_told(&root, n);
        group.bench_function(BenchmarkId::new("bus", n), |b| {
            b.iter(|| root.on(|_: &Told| {}).expect("the root is active").dispose());
        });
    }
    group.finish();
}

/// The first dispatch after a change, which builds the snapshot, without the change.
fn first_after_a_change(c: &mut Criterion) {
    let mut group = c.benchmark_group("first emit after a change");
    for n in [1, 8, 1_000] {
        let root = bus();
        on_told(&root, n);
        group.bench_function(BenchmarkId::new("bus", n), |b| {
            b.iter_custom(|calls| {
                let mut total = Duration::ZERO;
                for _ in 0..calls {
                    let extra = root.on(|_: &Told| {}).expect("the root is active");
                    let start = Instant::now();
                    root.emit(black_box(&Told(1)));
                    total += start.elapsed();
                    extra.dispose();
                }
                total
            });
        });
    }
    group.finish();
}

/// As many calls on each of so many threads: where they do not get in each other's way, it takes as long as on one.
fn side_by_side(threads: usize, calls: u64, call: &(impl Fn() + Sync)) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..calls).for_each(|_| call()));
        }
    });
    start.elapsed()
}

fn threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("emit on threads");
    let (root, bare) = (bus(), bare(8));
    on_told(&root, 8);
    for n in [1, 2] {
        let limit = || run_bare(&bare, black_box(&Told(1)));
        group.bench_function(BenchmarkId::new("bare loop", n), |b| {
            b.iter_custom(|calls| side_by_side(n, calls, &limit));
        });
        let emit = || root.emit(black_box(&Told(1)));
        group.bench_function(BenchmarkId::new("bus", n), |b| b.iter_custom(|calls| side_by_side(n, calls, &emit)));
    }
    // Every 8,000 calls of a thread: some 6,000 changes a second on two.
    let emit_and_change = || {
        root.emit(black_box(&Told(1)));
        if CALLS.replace(CALLS.get() + 1) % 8_000 == 4_000 {
            root.on(|_: &Told| {}).expect("the root is active").dispose();
        }
    };
    group.bench_function(BenchmarkId::new("bus, with changes", 2), |b| {
        b.iter_custom(|calls| side_by_side(2, calls, &emit_and_change));
    });
    group.finish();
}

thread_local! {
    /// Calls of this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

criterion_group!(benches, synchronous, asynchronous, scopes_and_changes, first_after_a_change, threads);
criterion_main!(benches);
