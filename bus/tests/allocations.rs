//! How often a dispatch allocates: counts, which hold on every machine.
//!
//! Each test counts what its own thread allocates, so tests beside it do not matter.
#![allow(unreachable_pub, dead_code, reason = "the workload is shared with the benchmarks")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

#[path = "../benches/workload.rs"]
mod workload;
use workload::{
    About, Around, Asked, InTurn, Together, Told, Unheard, bus, drive, on_about, on_around, on_asked, on_in_turn,
    on_together, on_told,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged; the counter is a plain thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: by the contract of this method.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this method.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of 100 calls, after some that fill the pools and build the snapshots.
fn allocations(mut f: impl FnMut()) -> u64 {
    for _ in 0..4 {
        f();
    }
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        f();
    }
    ALLOCATIONS.get() - before
}

#[test]
fn synchronous_dispatch_allocates_nothing() {
    for n in [0, 1, 8, 100] {
        let root = bus();
        on_told(&root, n);
        on_asked(&root, n);
        on_about(&root, n);
        let scope = root.scope().expect("the root is active");
        on_about(scope.context(), n);
        let about = About { key: Some(scope.key().clone()), value: 1 };
        assert_eq!(allocations(|| root.emit(black_box(&Unheard))), 0, "never heard");
        assert_eq!(allocations(|| root.emit(black_box(&Told(1)))), 0, "emit, {n} listeners");
        assert_eq!(allocations(|| root.try_emit(black_box(&Told(1))).unwrap()), 0, "try_emit, {n} listeners");
        assert_eq!(allocations(|| root.emit(black_box(&about))), 0, "scoped emit, {n} listeners");
        assert_eq!(
            allocations(|| assert_eq!(root.bail(black_box(&Asked(1))).unwrap(), None)),
            0,
            "bail, {n} listeners"
        );
    }
}

#[test]
fn asynchronous_dispatch_of_ready_listeners_allocates_nothing() {
    for n in [0, 1, 8, 40] {
        let root = bus();
        on_in_turn(&root, n);
        on_together(&root, n, false);
        on_around(&root, n);
        let serial = || assert_eq!(drive(root.serial(black_box(&InTurn(1)))).unwrap(), None);
        assert_eq!(allocations(serial), 0, "serial, {n} listeners");
        assert_eq!(
            allocations(|| drive(root.parallel(black_box(&Together(1)))).unwrap()),
            0,
            "parallel, {n} listeners"
        );
        let event = Around(7);
        let waterfall = || assert_eq!(drive(root.waterfall(black_box(&event), async || event.0)).unwrap(), 7);
        assert_eq!(allocations(waterfall), 0, "waterfall, {n} layers");
    }
}

#[test]
fn parallel_dispatch_of_pending_listeners_allocates_for_64_at_once() {
    // Up to 30 are polled together; beyond, each 64 share what knows who was woken. More than 64 make a list that is too
    // long for the pool, and futures that are more than it keeps.
    for (n, at_most) in [(1, 0), (8, 0), (30, 0), (31, 1), (64, 1)] {
        let root = bus();
        on_together(&root, n, true);
        let count = allocations(|| drive(root.parallel(black_box(&Together(1)))).unwrap());
        assert!(count <= 100 * at_most, "100 dispatches to {n} pending listeners allocated {count} times");
    }
}

#[test]
fn a_registration_allocates_once() {
    let root = bus();
    on_told(&root, 1_000);
    let register = || assert!(root.on(|_: &Told| {}).expect("the root is active").dispose());
    assert_eq!(allocations(register), 100, "the listener itself, and nothing for the lists");
}

#[test]
fn a_recorder_that_is_gone_costs_nothing() {
    let root = bus();
    on_told(&root, 8);
    on_asked(&root, 8);
    on_in_turn(&root, 8);
    on_around(&root, 8);
    let n_records = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = n_records.clone();
    let recorder = root.on(move |_: &linn_bus::InternalDecision| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let recorder = recorder.expect("the root is active");
    let mut all = || {
        root.emit(&Told(1));
        black_box(root.bail(&Asked(1))).expect("nobody fails");
        drive(root.serial(&InTurn(1))).expect("nobody fails");
        black_box(drive(root.waterfall(&Around(1), async || 1))).expect("nobody fails");
    };
    assert!(allocations(&mut all) > 0, "records are made");
    assert!(recorder.dispose());
    let told = n_records.load(std::sync::atomic::Ordering::Relaxed);
    assert!(told > 0);
    assert_eq!(allocations(&mut all), 0);
    assert_eq!(n_records.load(std::sync::atomic::Ordering::Relaxed), told);
}
