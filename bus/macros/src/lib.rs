//! The derive and attribute macros of `linn-bus`.
//!
//! | Macro | Written on | Gives |
//! | --- | --- | --- |
//! | [`derive(Event)`](macro@Event) | a struct or an enum | `linn_bus::Event`, the event's registration, and its subject |
//! | [`service`](macro@service) | a trait | a seam: `linn_bus::Service` for `dyn Trait`, and a guard that outlives a bad provider |
//! | [`provider`](macro@provider) | the `impl` of such a trait | async methods without a box in the author's code |
//! | [`derive(Inject)`](macro@Inject) | a struct | `linn_bus::Inject`: the services a plugin needs |
//!
//! Nobody depends on this crate directly: `linn_bus` exports all four, and its docs have the examples that run (this crate cannot see the bus).
//! The macros only read a declaration, check it, and write calls of functions and types of `linn_bus`; whatever happens at run time is written there.
//! They find the bus under whatever name the calling crate has it: `linn-bus` itself, or the `bus` module of `linn-sdk`, `linn-services` or `linn`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod event;
mod inject;
mod path;
mod problems;
mod service;
mod text;

use proc_macro::TokenStream;

/// Makes a struct or an enum an event of the bus.
///
/// ```text
/// /// A tool call is about to run.
/// #[derive(Event)]
/// #[event(name = "tools/pre-execute", mode = Waterfall, output = Decision, subject = agent)]
/// pub struct ToolPreExecute {
///     /// The agent that made the call.
///     pub agent: ScopeKey,
/// }
/// ```
///
/// | Key | Value | When |
/// | --- | --- | --- |
/// | `name` | `"area/name"`: lower-case letters, digits and `-`, two segments or more joined by `/` (or `exit`) | always |
/// | `mode` | `Emit`, `Bail`, `Serial`, `Parallel` or `Waterfall` | always |
/// | `output` | the type listeners answer with | `Bail`, `Serial` and `Waterfall`, and only there |
/// | `subject` | a field (`agent`, or `0` of a tuple struct), or an expression over `self` (`self.exec.agent`) | when only the listeners of that scope shall hear it; without it everybody does |
/// | `view` | none where the type is `serde::Serialize`, or the path of a `fn(&Self) -> serde_json::Value` | when observers shall see the payload as JSON |
/// | `output_view` | the same for the output | when they shall see answers |
/// | `schema` | none, it is a flag; the type is `schemars::JsonSchema` | when catalogues shall show what the payload consists of |
/// | `ordered` | none, it is a flag | only with `Emit`, when nested dispatches shall wait for the running one; the type is `Clone`, for the queue holds copies |
///
/// `view`, `output_view` and `schema` need the feature `json` of `linn-bus`.
///
/// The doc comment of the type becomes the text of the event catalogue; parts that come from `#[doc = include_str!(..)]` are not seen.
/// An event is one type, so neither type nor lifetime parameters are possible.
///
/// See `linn_bus::Event` for examples that run.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    event::derive(input.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a trait a service of the bus: a seam that one plugin provides and others need.
///
/// ```text
/// /// Runs tools.
/// #[service("tools")]
/// pub trait Tools {
///     /// Runs one tool and waits for its result.
///     async fn run(&self, name: &str, args: &[u8]) -> Result<String, ToolsError>;
///     /// Names of all tools.
///     fn list(&self) -> Result<Vec<String>, ServiceError>;
/// }
/// ```
///
/// The name consists of lower-case letters, digits and `-`, in segments separated by `.` or `/`.
///
/// The trait gains the supertraits `Send + Sync + 'static`, `dyn Tools` becomes a `linn_bus::Service`, and users reach it as `Svc<dyn Tools>`.
/// What they call is a guard that forwards each method to the provider of the moment and turns a panic or an absent provider into an error.
/// Hence the rules, each of them checked here:
///
/// - methods take `&self`, for a service is shared by everyone who needs it;
/// - methods return a `Result` whose error is `From<ServiceError>`;
/// - no type parameters, no `impl Trait`, no associated types or constants: the trait is used as `dyn Trait`;
/// - results own their data, for the provider may go while the caller still holds them.
///
/// Provided methods are allowed; the guard forwards them too, so a provider may override them.
/// A supertrait of the author's own has to hold for every type, as the guard implements this one trait and no other.
/// Providers are written with [`provider`](macro@provider).
///
/// See `linn_bus::Service` for examples that run.
#[proc_macro_attribute]
pub fn service(args: TokenStream, item: TokenStream) -> TokenStream {
    service::service(args.into(), item.into()).into()
}

/// Lets the `impl` of a [`service`](macro@service) trait have `async fn`s.
///
/// ```text
/// #[provider]
/// impl Tools for Shell {
///     async fn run(&self, name: &str, args: &[u8]) -> Result<String, ToolsError> { .. }
///     fn list(&self) -> Result<Vec<String>, ServiceError> { .. }
/// }
/// ```
///
/// A block without `async fn` is left as it is.
///
/// See `linn_bus::Service` for examples that run.
#[proc_macro_attribute]
pub fn provider(args: TokenStream, item: TokenStream) -> TokenStream {
    service::provider(args.into(), item.into()).into()
}

/// Makes a struct the needs of a plugin: each field is something the bus can inject.
///
/// ```text
/// #[derive(Inject)]
/// struct Needs {
///     tools: Svc<dyn Tools>,
///     fs: Option<Svc<dyn Fs>>,
/// }
/// ```
///
/// Structs with named fields, tuple structs and unit structs; no generics.
/// A field of a type that cannot be injected is reported where it is declared.
///
/// See `linn_bus::Inject` for examples that run.
#[proc_macro_derive(Inject)]
pub fn derive_inject(input: TokenStream) -> TokenStream {
    inject::derive(input.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
