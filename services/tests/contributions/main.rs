//! What plugins bring to the registries of skills, commands and questions.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

mod commands;
mod interaction;
mod skills;
mod subagents;
