//! Every interleaving of waking and polling.
//!
//! Run with `RUSTFLAGS='--cfg loom' cargo test -p linn-bus --release --target-dir target/loom --lib wakers`.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::Wakers;

struct Task(AtomicBool);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn whoever_was_woken_is_seen_or_the_task_of_the_last_poll_is_woken() {
    loom::model(|| {
        let (old, new) = (Arc::new(Task(AtomicBool::new(false))), Arc::new(Task(AtomicBool::new(false))));
        let wakers = Wakers::new(2, &old.clone().into());
        let wake = |place| {
            let waker = wakers.with_waker(place, Waker::clone);
            thread::spawn(move || waker.wake())
        };
        let (one, two) = (wake(0), wake(1));
        let mut seen = [false; 2];
        wakers.wake_through(&new.clone().into());
        wakers.woken(2, |it| seen[it] = true);
        one.join().unwrap();
        two.join().unwrap();
        let is_woken = new.0.load(Ordering::Acquire);
        assert!(seen == [true; 2] || is_woken, "a wake-up is lost: {seen:?}");
        // The poll that it leads to sees the rest, and nobody twice.
        wakers.woken(2, |it| assert!(!std::mem::replace(&mut seen[it], true)));
        assert_eq!(seen, [true; 2]);
    });
}

#[test]
fn everybody_is_woken_beside_one() {
    loom::model(|| {
        let task = Arc::new(Task(AtomicBool::new(false)));
        let wakers = Wakers::new(2, &task.clone().into());
        let (one, all) = (wakers.with_waker(1, Waker::clone), wakers.with_waker_of_everybody(Waker::clone));
        let threads = [thread::spawn(move || one.wake()), thread::spawn(move || all.wake())];
        let mut seen = [0; 2];
        wakers.woken(2, |it| seen[it] += 1);
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert!(task.0.load(Ordering::Acquire), "the task is woken");
        wakers.woken(2, |it| seen[it] += 1);
        assert!(seen[0] == 1 && (1..=2).contains(&seen[1]), "{seen:?}");
    });
}
