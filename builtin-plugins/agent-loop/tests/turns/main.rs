//! Turns and steps of the loop, over a scripted model.
#![expect(clippy::unwrap_used, reason = "helpers of tests unwrap as the tests do")]

mod basics;
mod cancel;
mod ends;
mod hangs;
mod inbox;
mod lives;
mod room;
mod seams;
mod side_by_side;
mod support;
