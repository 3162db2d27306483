//! What a plugin of Linn is written with.
//!
//! A plugin depends on this crate, on `serde` and on `schemars`. Its source is the same whether it becomes part of a program
//! or a library that is loaded, replaced and unloaded while the program runs.
//!
//! ```
//! use linn_sdk::prelude::*;
//!
//! /// What the plugin is configured with.
//! #[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
//! #[serde(default, deny_unknown_fields)]
//! struct Config {
//!     /// Words that are not counted.
//!     ignore: Vec<String>,
//! }
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Text {
//!     /// What to count in.
//!     text: String,
//! }
//!
//! struct WordCount;
//!
//! impl Plugin for WordCount {
//!     const NAME: &'static str = "word-count";
//!     type Config = Config;
//!     type Needs = Svc<dyn Tools>;
//!
//!     async fn start(ctx: &Context, config: Config, tools: Svc<dyn Tools>) -> Result<(), Fault> {
//!         let count = Tool::new("count_words", "Counts the words of a text.", move |it: Text, _call| {
//!             let counted = it.text.split_whitespace().filter(|word| !config.ignore.iter().any(|it| it == word)).count();
//!             async move { Ok::<_, ToolFailure>(counted.to_string()) }
//!         });
//!         tools.register(ctx, count.read_only())?;
//!         Ok(())
//!     }
//! }
//!
//! linn_sdk::plugin!(WordCount);
//! # fn main() {}
//! ```
//!
//! Time, tasks and waiting come from the [`Context`](bus::Context): `ctx.sleep`, `ctx.spawn`, `ctx.within`. Code that wants
//! tokio itself switches on the feature `tokio`, which gives the library a runtime of its own.
//!
//! # What a library must not do
//!
//! - Set a global allocator: values are made on one side and dropped on the other.
//! - Set the global default of `tracing`, or a panic hook: both forward to the program.
//! - Keep state in statics and expect the program to see it: the library has its own copy of everything.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "tokio")]
mod runtime;

pub use linn_bus as bus;
pub use linn_bus::{plugin, shared_crate};
pub use linn_services as services;
pub use {schemars, serde, serde_json, tracing};

/// The names that most plugins use.
pub mod prelude {
    pub use linn_bus::{
        BusError, Context, Demand, Event, Fault, Inject, Lookup, NeedList, Next, Plugin, Service, ServiceError, Svc,
        listener, provider, service,
    };
    pub use linn_services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput, Tools};
    pub use {schemars, serde, serde_json};
}
