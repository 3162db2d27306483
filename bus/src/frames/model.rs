//! Every interleaving of the protocols in [`frames`](super), with real fences in place of the asymmetric ones.
//!
//! Run with `RUSTFLAGS='--cfg loom' cargo test -p linn-bus --release --target-dir target/loom --lib frames`.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::{Gate, Retired, Rows, SERVICE};

/// All interleavings with at most two forced switches, which finds every race known here, in seconds instead of hours.
fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(test);
}

/// Runs a future on this thread.
struct Parker {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.bell.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parker = Arc::new(Parker { woken: Mutex::new(false), bell: Condvar::new() });
    let waker = Waker::from(parker.clone());
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return value;
        }
        let mut woken = parker.woken.lock().unwrap();
        while !*woken {
            woken = parker.bell.wait(woken).unwrap();
        }
        *woken = false;
    }
}

#[test]
fn no_call_runs_after_quiet_and_the_last_one_wakes_who_waits() {
    model(|| {
        let (rows, gate, quiet) = (Rows::new(), Arc::new(Gate::new()), Arc::new(AtomicBool::new(false)));
        let caller = {
            let (rows, gate, quiet) = (rows.clone(), gate.clone(), quiet.clone());
            thread::spawn(move || {
                let row = rows.claim_row();
                for _ in 0..2 {
                    if let Some(depth) = row.enter(&rows, &gate, SERVICE) {
                        assert!(!quiet.load(Ordering::Relaxed), "a call runs after quiet");
                        row.leave(&rows, depth);
                    }
                }
            })
        };
        gate.close();
        block_on(rows.wait_until(|| rows.is_off_cpu(&gate)));
        quiet.store(true, Ordering::Relaxed);
        caller.join().unwrap();
    });
}

#[test]
fn a_future_that_pends_is_counted_before_its_frame_is_left() {
    model(|| {
        let (rows, gate, quiet) = (Rows::new(), Arc::new(Gate::new()), Arc::new(AtomicBool::new(false)));
        let caller = {
            let (rows, gate, quiet) = (rows.clone(), gate.clone(), quiet.clone());
            thread::spawn(move || {
                let row = rows.claim_row();
                let Some(depth) = row.enter(&rows, &gate, SERVICE) else { return };
                gate.add_pending();
                row.leave(&rows, depth);
                // Polled once more, to its end.
                let depth = row.enter_closed(&gate, SERVICE);
                assert!(!quiet.load(Ordering::Relaxed), "a future is polled after quiet");
                gate.sub_pending();
                row.leave_ended(&rows, depth);
            })
        };
        gate.close();
        block_on(rows.wait_until(|| rows.is_off_cpu(&gate) && gate.pending() == 0));
        quiet.store(true, Ordering::Relaxed);
        caller.join().unwrap();
    });
}

/// A snapshot that knows whether it was freed.
struct Snapshot {
    freed: Arc<AtomicBool>,
    /// Gives the snapshot an address of its own.
    gate: Arc<Gate>,
}

impl Snapshot {
    fn new(gate: &Arc<Gate>) -> (Arc<Self>, Arc<AtomicBool>) {
        let freed = Arc::new(AtomicBool::new(false));
        (Arc::new(Self { freed: freed.clone(), gate: gate.clone() }), freed)
    }
}

impl Retired for Snapshot {
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
    fn mentions(&self, gate: &Gate) -> bool {
        std::ptr::eq(&*self.gate, gate)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::Relaxed);
    }
}

/// Walks the current snapshot as a dispatch does; `freed` says of each address whether it was freed.
fn walk(rows: &Rows, row: &super::Row, current: &AtomicUsize, freed: &[(usize, Arc<AtomicBool>)]) -> bool {
    let depth = row.push(0);
    let mut at = current.load(Ordering::Acquire);
    loop {
        if at == 0 {
            break;
        }
        row.protect(depth, at);
        let seen = current.load(Ordering::Acquire);
        if seen == at {
            break;
        }
        at = seen;
    }
    if at != 0 {
        let (_, freed) = freed.iter().find(|(it, _)| *it == at).expect("a known snapshot");
        assert!(!freed.load(Ordering::Relaxed), "a snapshot is freed while it is walked");
    }
    row.leave(rows, depth);
    at != 0
}

#[test]
fn a_snapshot_is_never_freed_while_it_is_named_and_never_kept_for_ever() {
    model(|| {
        let (rows, gate) = (Rows::new(), Arc::new(Gate::new()));
        let (snapshot, freed) = Snapshot::new(&gate);
        let address = snapshot.address();
        let current = Arc::new(AtomicUsize::new(address));
        let walker = {
            let (rows, current, known) = (rows.clone(), current.clone(), [(address, freed.clone())]);
            thread::spawn(move || {
                let row = rows.claim_row();
                walk(&rows, &row, &current, &known);
                walk(&rows, &row, &current, &known);
            })
        };
        current.swap(0, Ordering::SeqCst);
        rows.retire([snapshot as Arc<dyn Retired>]);
        rows.reclaim();
        walker.join().unwrap();
        assert!(freed.load(Ordering::Relaxed), "the last walk frees what was retired meanwhile");
    });
}

#[test]
fn a_snapshot_retired_while_another_is_reclaimed_is_not_freed_under_a_walk() {
    model(|| {
        let (rows, gate) = (Rows::new(), Arc::new(Gate::new()));
        let ((one, one_freed), (two, two_freed)) = (Snapshot::new(&gate), Snapshot::new(&gate));
        let known = [(one.address(), one_freed.clone()), (two.address(), two_freed.clone())];
        let current = Arc::new(AtomicUsize::new(two.address()));
        rows.retire([one as Arc<dyn Retired>]);
        let walker = {
            let (rows, current) = (rows.clone(), current.clone());
            thread::spawn(move || walk(&rows, &rows.claim_row(), &current, &known))
        };
        let other = {
            let rows = rows.clone();
            thread::spawn(move || rows.reclaim())
        };
        current.swap(0, Ordering::SeqCst);
        rows.retire([two as Arc<dyn Retired>]);
        other.join().unwrap();
        rows.reclaim();
        walker.join().unwrap();
        assert!(one_freed.load(Ordering::Relaxed) && two_freed.load(Ordering::Relaxed));
    });
}

#[test]
fn a_listener_in_a_retired_snapshot_is_on_its_cpu_until_the_walk_ends() {
    model(|| {
        let (rows, gate) = (Rows::new(), Arc::new(Gate::new()));
        let quiet = Arc::new(AtomicBool::new(false));
        let (snapshot, freed) = Snapshot::new(&gate);
        let address = snapshot.address();
        let current = Arc::new(AtomicUsize::new(address));
        let walker = {
            let (rows, current, quiet) = (rows.clone(), current.clone(), quiet.clone());
            thread::spawn(move || {
                let row = rows.claim_row();
                let depth = row.push(0);
                row.protect(depth, address);
                if current.load(Ordering::Acquire) == address {
                    assert!(!quiet.load(Ordering::Relaxed), "a listener runs after quiet");
                }
                row.leave(&rows, depth);
            })
        };
        gate.close();
        current.swap(0, Ordering::SeqCst);
        rows.retire([snapshot as Arc<dyn Retired>]);
        rows.reclaim();
        block_on(rows.wait_until(|| rows.is_off_cpu(&gate)));
        quiet.store(true, Ordering::Relaxed);
        walker.join().unwrap();
        assert!(freed.load(Ordering::Relaxed));
    });
}
