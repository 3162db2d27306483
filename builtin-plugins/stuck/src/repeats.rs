//! How often a call was made.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use linn_services::ids::ToolName;
use serde_json::Value;

/// The calls of the latest turn of an agent since something was changed.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    turn: u32,
    /// How often, by tool and digest of the arguments.
    n_calls: HashMap<(ToolName, u64), u32>,
}

impl Repeats {
    /// Counts a call that looks; how often it was made by now.
    pub(crate) fn looked(&mut self, turn: u32, tool: &ToolName, arguments: &Value) -> u32 {
        self.begin(turn);
        let mut digest = DefaultHasher::new();
        arguments.to_string().hash(&mut digest);
        let n_calls = self.n_calls.entry((tool.clone(), digest.finish())).or_default();
        *n_calls += 1;
        *n_calls
    }

    /// Something may be different from now on.
    pub(crate) fn changed(&mut self, turn: u32) {
        self.begin(turn);
        self.n_calls.clear();
    }

    fn begin(&mut self, turn: u32) {
        if self.turn != turn {
            self.turn = turn;
            self.n_calls.clear();
        }
    }
}

/// Whether this is a call to say something about: the one that is too many, and every second one after it.
pub(crate) fn is_told(n_calls: u32, after: u32) -> bool {
    n_calls.checked_sub(after).is_some_and(|it| it.is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::is_told;

    #[test]
    fn the_third_call_is_told_and_every_second_one_after_it() {
        let told: Vec<_> = (0..10).filter(|it| is_told(*it, 3)).collect();
        assert_eq!(told, [3, 5, 7, 9]);
    }
}
