//! Plugins without their types: found by name, configured with JSON.

use std::fmt;

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contain::contain_now;
use crate::context::Context;
use crate::fault::{BusError, Fault};
use crate::fiber::Fiber;
use crate::inject::{Inject as _, NeedList};
use crate::plugin::{self, Instance, InstanceOf, Plugin, Updated};
use crate::prepare::Prepared;
use crate::seams::BoxFuture;

/// A plugin as whoever mounts it by name knows it. Made by [`plugin!`](crate::plugin!).
pub struct PluginDescriptor {
    /// Its name.
    pub name: &'static str,
    /// What its crate says of itself.
    pub docs: &'static str,
    /// Path of its type.
    pub type_path: &'static str,
    /// Crate that has it.
    pub krate: &'static str,
    /// Version of that crate.
    pub version: &'static str,
    functions: Functions,
}

/// What is instantiated where the plugin is.
struct Functions {
    schema: fn() -> Result<Value, Fault>,
    needs: fn() -> Result<NeedList, Fault>,
    provides: fn() -> Result<NeedList, Fault>,
    check: fn(&Value) -> Result<(), ConfigError>,
    instance: fn(&Value, &NeedList) -> Made,
    update: for<'a> fn(&'a Fiber, &'a Value) -> BoxFuture<'a, Result<Updated, PluginError>>,
}

/// An instance that is not mounted yet.
type Made = Result<Box<dyn Instance>, ConfigError>;

/// Stands for the type of a plugin that is not known.
#[derive(Debug)]
pub enum AnyPlugin {}

/// Why a config is not one of the plugin.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("`{path}`: ") })]
pub struct ConfigError {
    /// Path of the field that is wrong, such as `limits.seconds`; empty for the config as a whole.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl ConfigError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        "PLUGIN_CONFIG"
    }
}

/// Why a plugin was not mounted, prepared or updated.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum PluginError {
    /// Its config does not fit.
    #[error("the config of plugin `{plugin}` does not fit: {source}")]
    Config {
        /// The plugin.
        plugin: String,
        /// What is wrong.
        #[source]
        source: ConfigError,
    },
    /// The bus refused.
    #[error(transparent)]
    Bus(#[from] BusError),
}

impl PluginError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config { source, .. } => source.code(),
            Self::Bus(error) => error.code(),
        }
    }
}

/// Where and how a plugin is mounted by its descriptor.
#[derive(Debug, Clone, Default)]
pub struct Mounting {
    /// Its place below the fiber that mounts it, which decides the order of listeners: compared number by number. Empty for
    /// the next free place.
    pub place: Vec<u32>,
    /// Services it waits for beside those it names itself.
    pub needs: NeedList,
}

impl fmt::Debug for PluginDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginDescriptor").field("name", &self.name).field("type_path", &self.type_path).finish()
    }
}

impl PluginDescriptor {
    /// The descriptor of `P`.
    #[doc(hidden)]
    pub const fn of<P>(docs: &'static str, type_path: &'static str, krate: &'static str, version: &'static str) -> Self
    where
        P: Plugin,
        P::Config: DeserializeOwned + JsonSchema,
    {
        let functions = Functions {
            schema: || contain_now(|| SchemaGenerator::default().into_root_schema_for::<P::Config>().to_value()),
            needs: || {
                contain_now(|| {
                    let mut list = NeedList::default();
                    P::Needs::declare(&mut list);
                    list
                })
            },
            provides: || {
                contain_now(|| {
                    let mut list = NeedList::default();
                    P::provides(&mut list);
                    list
                })
            },
            check: |config| {
                let config = read::<P::Config>(config)?;
                contained(|| P::validate(&config))?.map_err(|fault| ConfigError::whole(format!("{fault:#}")))
            },
            instance: |config, needs| {
                let config = read::<P::Config>(config)?;
                contained(|| Box::new(InstanceOf::<P>::new(config).with_needs(needs)) as Box<dyn Instance>)
            },
            update: |fiber, config| {
                Box::pin(async move {
                    let config = read::<P::Config>(config).map_err(|source| failed(P::NAME, source))?;
                    plugin::update::<P>(fiber, config, false).await.map_err(PluginError::from)
                })
            },
        };
        Self { name: P::NAME, docs, type_path, krate, version, functions }
    }

    /// JSON Schema of its config.
    ///
    /// # Errors
    ///
    /// The code of the plugin panicked.
    pub fn schema(&self) -> Result<Value, Fault> {
        (self.functions.schema)()
    }

    /// The services it needs; nothing of it is started.
    ///
    /// # Errors
    ///
    /// The code of the plugin panicked.
    pub fn needs(&self) -> Result<NeedList, Fault> {
        (self.functions.needs)()
    }

    /// The services it says it provides; nothing of it is started.
    ///
    /// # Errors
    ///
    /// The code of the plugin panicked.
    pub fn provides(&self) -> Result<NeedList, Fault> {
        (self.functions.provides)()
    }

    /// Whether a config is one of the plugin, by its type and by its own validation.
    ///
    /// # Errors
    ///
    /// What is wrong, with the path of the field where that is known.
    pub fn check(&self, config: &Value) -> Result<(), ConfigError> {
        (self.functions.check)(config)
    }

    fn instance(&self, config: &Value, needs: &NeedList) -> Result<Box<dyn Instance>, PluginError> {
        self.check(config).map_err(|source| failed(self.name, source))?;
        (self.functions.instance)(config, needs).map_err(|source| failed(self.name, source))
    }

    /// Mounts it below the fiber of `ctx`.
    ///
    /// # Errors
    ///
    /// Its config does not fit, or the context is going down.
    pub fn mount(&self, ctx: &Context, mounting: &Mounting, config: &Value) -> Result<Fiber, PluginError> {
        let instance = self.instance(config, &mounting.needs)?;
        Ok(ctx.mount_placed(self.name.into(), &mounting.place, instance)?)
    }

    /// Mounts it in the wings. With `old` it is to take that one's part: where `mounting` names no place, in its place. Its
    /// view of services is that of `ctx`.
    ///
    /// # Errors
    ///
    /// As [`mount`](Self::mount); [`BusError::Disposed`] when `old` is gone.
    pub fn prepare(
        &self,
        ctx: &Context,
        old: Option<&Fiber>,
        mounting: &Mounting,
        config: &Value,
    ) -> Result<Prepared<AnyPlugin>, PluginError> {
        let instance = self.instance(config, &mounting.needs)?;
        Ok(ctx.prepare_placed(self.name.into(), old, &mounting.place, instance)?)
    }

    /// Replaces the config of a fiber that was mounted by this very descriptor, and restarts it.
    ///
    /// # Errors
    ///
    /// Its config does not fit, and nothing changes; what the new run failed with. Cancel safe: once stored, the restart goes
    /// on without the waiter.
    pub async fn update(&self, fiber: &Fiber, config: &Value) -> Result<Updated, PluginError> {
        (self.functions.update)(fiber, config).await
    }
}

fn failed(plugin: &str, source: ConfigError) -> PluginError {
    PluginError::Config { plugin: plugin.to_owned(), source }
}

impl ConfigError {
    fn whole(message: String) -> Self {
        Self { path: String::new(), message }
    }
}

fn contained<T>(f: impl FnOnce() -> T) -> Result<T, ConfigError> {
    contain_now(f).map_err(|panic| ConfigError::whole(format!("the plugin panicked over it: {panic}")))
}

/// Reads a config. One without fields may be written as an empty table.
fn read<C: DeserializeOwned>(config: &Value) -> Result<C, ConfigError> {
    contained(|| {
        let is_empty = config.as_object().is_some_and(serde_json::Map::is_empty);
        if is_empty && let Ok(unit) = C::deserialize(Value::Null) {
            return Ok(unit);
        }
        serde_path_to_error::deserialize(config).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            ConfigError { path, message: error.into_inner().to_string() }
        })
    })?
}

/// One link-time registration of a plugin.
#[doc(hidden)]
#[derive(Debug)]
pub struct PluginRegistration(pub &'static PluginDescriptor);
inventory::collect!(PluginRegistration);

/// Every plugin linked into this program and registered by [`plugin!`](crate::plugin!) or
/// [`register_plugin!`](crate::register_plugin!), sorted by name.
pub fn plugin_catalogue() -> Vec<&'static PluginDescriptor> {
    let mut all: Vec<_> = inventory::iter::<PluginRegistration>.into_iter().map(|it| it.0).collect();
    all.sort_by_key(|it| (it.name, it.type_path));
    all
}

/// Registers plugins of a crate that is never built as a library of its own. See [`plugin!`](crate::plugin!).
#[macro_export]
macro_rules! register_plugin {
    ($($plugin:ty),+ $(,)?) => {$(
        const _: () = {
            static DESCRIPTOR: $crate::PluginDescriptor = $crate::PluginDescriptor::of::<$plugin>(
                ::core::env!("CARGO_PKG_DESCRIPTION"),
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!($plugin)),
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_PKG_VERSION"),
            );
            $crate::__private::inventory::submit! { $crate::__private::PluginRegistration(&DESCRIPTOR) }
        };
    )+};
}
