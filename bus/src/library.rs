//! Plugins in libraries of their own: what such a library says of itself before it is opened, and the one thing it exports.
//!
//! A library has its own copy of the bus and of everything else it is built from. Its copy is tied to that of the program by
//! [`Attach`]: numbers of events and services come from the program, log lines and panics go to it. Whether the two copies
//! may meet at all is said by the [`FINGERPRINT`] in the library's file, which is read before the library is opened: opening
//! it runs code.

mod entry;
mod header;
mod logs;

#[cfg(feature = "around")]
pub(crate) use entry::Around;
#[cfg(feature = "around")]
pub use entry::Runtime;
#[cfg(feature = "around")]
#[doc(hidden)]
pub use entry::RuntimeRegistration;
pub use entry::{Attach, AttachError, Entry, LibraryContents};
pub use header::{ENTRY_MAGIC, FINGERPRINT, MAGIC_LENGTH, SHARED_MAGIC, SharedCrate, fields, shared_crates};
#[doc(hidden)]
pub use header::{SharedRegistration, record, record_length};

/// Registers plugins at link time, and exports what a library needs that is built from the crate.
///
/// One line in a crate; all plugins of the crate stand in it. The same source serves as a part of a program and, with
/// `crate-type = ["cdylib", "rlib"]`, as a library that is loaded while the program runs. The config of a plugin has to be
/// `serde::Deserialize` and `schemars::JsonSchema`.
///
/// ```
/// use linn_bus::{Context, Fault, Plugin};
///
/// #[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
/// struct GreeterConfig {
///     /// Whom to greet.
///     name: String,
/// }
///
/// struct Greeter;
///
/// impl Plugin for Greeter {
///     const NAME: &'static str = "greeter";
///     type Config = GreeterConfig;
///     type Needs = ();
///     async fn start(ctx: &Context, config: GreeterConfig, (): ()) -> Result<(), Fault> {
///         ctx.logger().info(format_args!("hello {}", config.name));
///         Ok(())
///     }
/// }
///
/// linn_bus::plugin!(Greeter);
///
/// # fn main() {
/// let greeter = linn_bus::plugin_catalogue().into_iter().find(|it| it.name == "greeter").unwrap();
/// let wrong = greeter.check(&serde_json::json!({ "name": 7 })).unwrap_err();
/// assert_eq!(wrong.path, "name");
/// # }
/// ```
#[macro_export]
macro_rules! plugin {
    ($($plugin:ty),+ $(,)?) => {
        $crate::register_plugin!($($plugin),+);
        const _: () = {
            const PARTS: &[&str] = &[
                $crate::library::FINGERPRINT,
                "crate=",
                ::core::env!("CARGO_PKG_NAME"),
                "\nversion=",
                ::core::env!("CARGO_PKG_VERSION"),
                "\nsymbol=linn_plugin_",
                ::core::env!("CARGO_CRATE_NAME"),
                $("\nplugin=", <$plugin as $crate::Plugin>::NAME,)+
                "\n",
            ];
            static HEADER: [u8; $crate::library::record_length(PARTS)] =
                $crate::library::record($crate::library::ENTRY_MAGIC, PARTS);
            static ENTRY: $crate::library::Entry =
                $crate::library::Entry::new(&HEADER, ::core::env!("CARGO_PKG_NAME"));
            #[doc(hidden)]
            #[unsafe(export_name = ::core::concat!("linn_plugin_", ::core::env!("CARGO_CRATE_NAME")))]
            pub extern "C" fn entry() -> &'static $crate::library::Entry {
                &ENTRY
            }
        };
    };
}

/// Registers the [`Runtime`] of a library. At most one is used.
#[cfg(feature = "around")]
#[doc(hidden)]
#[macro_export]
macro_rules! __register_runtime {
    ($runtime:path) => {
        $crate::__private::inventory::submit! { $crate::library::RuntimeRegistration(&$runtime) }
    };
}
#[cfg(feature = "around")]
#[doc(hidden)]
pub use __register_runtime as register_runtime;

/// Says that types of the calling crate cross between plugins that were built apart, such as events and services of its own.
/// Two libraries with different copies of the crate are then told apart before they meet.
///
/// The crate's build script prints [`linn_fingerprint::fingerprint`](https://docs.rs/linn-fingerprint). Further arguments are
/// texts that have to agree as well.
#[macro_export]
macro_rules! shared_crate {
    ($($more:expr),* $(,)?) => {
        const _: () = {
            const PARTS: &[&str] = &[
                "crate=",
                ::core::env!("CARGO_PKG_NAME"),
                "\nversion=",
                ::core::env!("CARGO_PKG_VERSION"),
                "\nsources=",
                ::core::env!("LINN_SOURCES"),
                "\n",
                $("more=", $more, "\n",)*
            ];
            static MARK: [u8; $crate::library::record_length(PARTS)] =
                $crate::library::record($crate::library::SHARED_MAGIC, PARTS);
            $crate::__private::inventory::submit! { $crate::library::SharedRegistration(&MARK) }
        };
    };
}
