//! A typed event bus with scopes, fibers, services and quiet disposal.
//!
//! Everything a program does is a plugin: it registers listeners, provides services, starts tasks, all through a
//! [`Context`], and all of that goes when the plugin does. Events are types; a listener is a closure or a method.
//!
//! The bus knows no executor, no disk, and no JSON but behind the feature `json`. It is not a message queue either: dispatch is a call, and an event lives
//! no longer than it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use linn_bus::{Event, Root, TokioRuntime};
//!
//! /// May this file be deleted?
//! #[derive(Event)]
//! #[event(name = "files/may-delete", mode = Bail, output = String)]
//! struct MayDelete { path: String }
//!
//! let root = Root::new(TokioRuntime::seams());
//! root.on(|e: &MayDelete| e.path.ends_with(".lock").then(|| "lock files stay".to_owned()))?;
//!
//! assert_eq!(root.bail(&MayDelete { path: "Cargo.lock".into() })?.as_deref(), Some("lock files stay"));
//! assert_eq!(root.bail(&MayDelete { path: "old.txt".into() })?, None);
//! # Ok(()) }
//! ```
//!
//! | to | look at |
//! | --- | --- |
//! | declare an event | [`Event`], and [`derive(Event)`](macro@Event) for its keys |
//! | look at events without their types | [`EventRef`], [`InternalDispatch`] |
//! | listen | [`Context::on`], [`Context::on_with`], [`listener!`] |
//! | dispatch | [`Context::emit`], [`bail`](Context::bail), [`serial`](Context::serial), [`parallel`](Context::parallel), [`waterfall`](Context::waterfall) |
//! | write a plugin | [`Plugin`], or [`Context::mount_fn`] for a function |
//! | limit who hears what | [`Context::scope_for`], [`ScopeKey`] |
//! | provide and need services | [`Service`], [`Context::provide`], [`Inject`] |
//! | undo anything else | [`Context::effect`] |
//! | run tasks and wait | [`Context::spawn`], [`Context::sleep`], [`Context::within`] |
//! | replace a running plugin | [`Context::prepare_for`] |
//! | mount a plugin by its name | `plugin!` and `PluginDescriptor`, with the feature `json` |
//!
//! The guide is `docs/bus.md` of the repository; `docs/errors.md` has every error code with its remedy. The program
//! `examples/build_pipeline.rs` shows most of it at work.
#![warn(missing_docs)]

extern crate self as linn_bus;

mod around;
mod bus;
mod cell;
mod contain;
mod context;
mod decision;
#[cfg(feature = "json")]
mod descriptor;
mod dispatch;
mod effect;
mod event;
mod fault;
mod fiber;
mod frames;
mod hook;
mod inject;
mod inspect;
mod intern;
mod internal;
#[cfg(feature = "json")]
mod json;
mod latch;
#[cfg(feature = "json")]
pub mod library;
mod lifecycle;
mod listen;
mod plugin;
mod pool;
mod prepare;
mod queue;
mod registry;
mod scope;
mod seams;
mod service;
mod task;
mod timer;
mod wakers;

pub use bus::{Grace, MAX_PANICS};
pub use contain::{Contain, Contained, contain, contain_now};
pub use context::{Context, Logger, On, Root};
pub use decision::{Change, Decision, DecisionOutcome, DecisionStep, InternalDecision, SkipReason, StepResult};
#[cfg(feature = "json")]
pub use descriptor::{AnyPlugin, ConfigError, Mounting, PluginDescriptor, PluginError, plugin_catalogue};
pub use dispatch::{EventRef, InternalDispatch, MAX_NESTING, Next, Run};
pub use effect::{Composite, Disposing, EffectHandle, EffectInfo, EffectResult, Listener, Ownable};
pub use event::{
    Bail, Dispatches, Emit, Event, EventDescriptor, Everybody, HasSubject, Mode, ModeName, OwnFiber, Parallel,
    ScopeRule, Serial, Subject, Waterfall, event_catalogue, verb,
};
pub use fault::{BusError, Cause, DisposeError, DisposeProblem, Fault, ListenerError, ListenerErrors};
pub use fiber::{Fiber, FiberState};
pub use inject::{Demand, Inject, Missing, Need, NeedList, Resolver};
pub use inspect::{EventInfo, FiberInfo, Inspection, ListenerInfo, ServiceInfo, WaitReason, Waiting};
pub use internal::{
    InternalFault, InternalGet, InternalListener, InternalPlugin, InternalService, InternalSet, InternalStatus,
    InternalUpdate,
};
#[cfg(feature = "json")]
pub use json::{ViewError, output_view};
pub use linn_bus_macros::{Event, Inject, provider, service};
pub use listen::{Answers, IntoListener, IntoMethod, ListenerOf, MethodOf};
pub use plugin::{Mounted, Plugin, Updated};
pub use prepare::{Prepared, Switched};
pub use queue::{Queue, Queued};
pub use scope::{Scope, ScopeHost, ScopeKey};
#[cfg(feature = "tokio")]
pub use seams::TokioRuntime;
pub use seams::{BoxFuture, Clock, Executor, Ids, Seams, SeededIds};
pub use service::{
    AnyService, Lookup, Provided, Service, ServiceDescriptor, ServiceError, Svc, Withdrawing, service_catalogue,
};
pub use task::{Task, TaskError};
pub use timer::{Disposed, Elapsed, Sleep, Throttle, Ticks, Timer};

/// The guide, so that its blocks of code run as tests. It is outside the crate's folder and no part of a packaged crate.
#[cfg(doctest)]
#[doc = include_str!("../../docs/bus.md")]
mod guide {}

/// Items of an event that only the feature `json` makes sense of.
#[cfg(feature = "json")]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_json {
    ($key:literal $($item:tt)*) => { $($item)* };
}

/// Says which feature a key of an event needs.
#[cfg(not(feature = "json"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_json {
    ($key:literal $($item:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "`",
            $key,
            "` needs the feature `json` of linn-bus: write `linn-bus = { .., features = [\"json\"] }` in Cargo.toml"
        ));
    };
}

/// What the macros write calls of. No part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use async_trait;
    pub use inventory;
    #[cfg(feature = "json")]
    pub use serde_json;

    pub use crate::__if_json as if_json;
    pub use crate::decision::{Keep, KeepEqual, KeepNothing, Same};
    #[cfg(feature = "json")]
    pub use crate::descriptor::PluginRegistration;
    pub use crate::event::{EventParts, EventRegistration, EventSlot, SubjectOf, event_descriptor};
    #[cfg(feature = "json")]
    pub use crate::json::{Shown, schema_of, serialized, shown_by};
    pub use crate::listen::{captured, captured_wrap};
    pub use crate::service::{ServiceCell, ServiceParts, ServiceRegistration, service_descriptor};
}
