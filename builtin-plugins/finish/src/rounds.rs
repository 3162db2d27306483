//! What a turn has come to, and what its model is asked before it may end.

use linn_services::model::text_of;
use linn_services::session::{Fact, Session};

/// The tool that ends a turn.
pub(crate) const FINISH: &str = "finish";

/// How often a model is told to write a summary.
pub(crate) const MAX_SUMMARIES: u32 = 2;

/// A text of this length is a word for the human, in characters.
const ENOUGH_CHARS: usize = 80;

const REFLECT: &str = "Before this turn ends, look back at it: what was asked, what you did, what you found out, what \
    failed, and what is left to do. If something is missing, do it now. Then tell the user in a visible answer what came \
    of it.";

const SUMMARISE: &str = "The user has not been told what came of this turn. Write a visible summary now, in a few \
    sentences: what you did, what you found, and what is left to do.";

/// What a model is asked before its turn may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// To look back.
    Reflect,
    /// To write a summary, for the n-th time.
    Summarise(u32),
}

impl Round {
    /// The round after `n_asked` others, if there is one more.
    pub(crate) fn after(n_asked: u32) -> Option<Self> {
        match n_asked {
            0 => Some(Self::Reflect),
            n if n <= MAX_SUMMARIES => Some(Self::Summarise(n)),
            _ => None,
        }
    }

    /// What the model is told.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Reflect => REFLECT,
            Self::Summarise(_) => SUMMARISE,
        }
    }
}

/// Whether a turn has called tools, this many at least, and has told the human nothing of some length.
pub(crate) fn lacks_words(session: &Session, turn: u32, min_calls: u64) -> bool {
    let (mut n_calls, mut has_told) = (0, false);
    session.find_last(|record| match &record.fact {
        Fact::TurnStart(it) if it.turn == turn => Some(()),
        Fact::ToolCall(it) => {
            n_calls += u64::from(it.name.as_str() != FINISH);
            None
        }
        Fact::AssistantMessage(it) => {
            has_told |= text_of(&it.content).trim().chars().count() >= ENOUGH_CHARS;
            has_told.then_some(())
        }
        _ => None,
    });
    !has_told && n_calls >= min_calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_looks_back_once_and_is_told_to_write_twice() {
        let rounds: Vec<_> = (0..5).map(Round::after).collect();
        let expected = [Some(Round::Reflect), Some(Round::Summarise(1)), Some(Round::Summarise(2)), None, None];
        assert_eq!(rounds, expected);
    }
}
