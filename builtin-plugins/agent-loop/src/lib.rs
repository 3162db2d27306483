//! The agent loop as a plugin: an inbox for each agent, turns made of what is in it, and steps of a model and its tools.
//!
//! Read it in this order: `inbox` takes messages in, `drive` begins turns, `turn` runs one, `step` runs one request
//! of it, `answer` listens to the model, and `calls` runs the tools.
//!
//! The loop writes everything that happens into the session and makes requests of nothing else; it knows no endpoint, no
//! tool and no front end. It asks for the services it uses each time, so that they may be replaced while a turn runs.
#![forbid(unsafe_code)]

mod answer;
mod calls;
mod config;
mod drive;
mod driver;
mod gate;
mod halt;
mod inbox;
mod plugin;
mod step;
mod turn;

pub use config::LoopConfig;
pub use plugin::{AgentLoopNeeds, AgentLoopPlugin};
