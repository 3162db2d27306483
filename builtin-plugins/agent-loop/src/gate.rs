//! One hand at a time on the borders of turns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use linn_services::model::HookContext;
use tokio::sync::Notify;

/// Whoever opens or closes a turn, or logs context that belongs inside of one, holds the gate meanwhile. So no context is
/// logged behind the end of the turn it was meant for, and no two turns are open.
///
/// Context comes from synchronous code, also from listeners of what the holder logs: it does not wait but leaves its context
/// with the holder, who logs it on leaving.
#[derive(Default)]
pub(crate) struct TurnGate {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    is_held: bool,
    left_here: Vec<HookContext>,
}

impl TurnGate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the gate for `context`, which is given back to be logged; or leaves it with the holder.
    pub(crate) fn enter_with(&self, context: HookContext) -> Option<HookContext> {
        let mut state = self.state();
        if state.is_held {
            state.left_here.push(context);
            return None;
        }
        state.is_held = true;
        Some(context)
    }

    /// Waits for the gate and takes it.
    pub(crate) async fn enter(&self) {
        loop {
            {
                let mut state = self.state();
                if !state.is_held {
                    state.is_held = true;
                    return;
                }
            }
            self.freed.notified().await;
        }
    }

    /// Gives the gate free, after `log` has taken what was left with the holder.
    pub(crate) fn leave(&self, mut log: impl FnMut(HookContext)) {
        loop {
            let left = {
                let mut state = self.state();
                if state.left_here.is_empty() {
                    state.is_held = false;
                    break;
                }
                std::mem::take(&mut state.left_here)
            };
            left.into_iter().for_each(&mut log);
        }
        self.freed.notify_one();
    }
}
