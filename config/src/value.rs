//! A value that was checked against its key, and the Rust types it is read as.

use std::path::PathBuf;

use indexmap::IndexMap;
use secrecy::SecretString;
use serde_json::Value as Json;

use crate::provider::Provider;

/// A checked value. It has no `Debug`: what may be shown of it is kept beside it as text.
#[derive(Clone)]
pub enum Value {
    /// Nothing, which is what a key without a default has.
    Absent,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// Text, or the name of a choice.
    Text(String),
    /// A path, absolute once the configuration is loaded.
    Path(PathBuf),
    /// Texts in order.
    List(Vec<String>),
    /// A secret.
    Secret(SecretString),
    /// Secrets by name.
    Secrets(IndexMap<String, SecretString>),
    /// Providers in order.
    Providers(Vec<Provider>),
    /// A table without a schema of its own.
    Table(Json),
}

impl Value {
    /// The value as JSON, for clients. Secrets are `null`, and of providers there is the name only.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Absent | Self::Secret(_) => Json::Null,
            Self::Bool(it) => Json::from(*it),
            Self::Integer(it) => Json::from(*it),
            Self::Number(it) => Json::from(*it),
            Self::Text(it) => Json::from(it.as_str()),
            Self::Path(it) => Json::from(it.to_string_lossy().as_ref()),
            Self::List(it) => it.iter().map(String::as_str).collect(),
            Self::Secrets(it) => it.keys().map(|name| (name.clone(), Json::Null)).collect(),
            Self::Providers(it) => it.iter().map(|provider| provider.name.as_str()).collect(),
            Self::Table(it) => it.clone(),
        }
    }
}

mod sealed {
    /// Keeps [`Typed`](super::Typed) to the types of this crate's keys.
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// A type that a key is read as.
pub trait Typed: Sealed + Sized {
    /// The value as this type; `None` if it has another form.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! typed {
    ($($type:ty: $pattern:pat => $read:expr;)+) => {$(
        impl Sealed for $type {}
        impl Typed for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $pattern => $read,
                    _ => None,
                }
            }
        }
    )+};
}

typed! {
    bool: Value::Bool(it) => Some(*it);
    u64: Value::Integer(it) => Some(*it);
    f64: Value::Number(it) => Some(*it);
    String: Value::Text(it) => Some(it.clone());
    PathBuf: Value::Path(it) => Some(it.clone());
    Vec<String>: Value::List(it) => Some(it.clone());
    SecretString: Value::Secret(it) => Some(it.clone());
    IndexMap<String, SecretString>: Value::Secrets(it) => Some(it.clone());
    Vec<Provider>: Value::Providers(it) => Some(it.clone());
    Json: Value::Table(it) => Some(it.clone());
}

impl<T: Typed> Sealed for Option<T> {}
impl<T: Typed> Typed for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Absent => Some(None),
            _ => T::from_value(value).map(Some),
        }
    }
}

/// One of a set of names, and what existing clients also call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The name.
    pub name: &'static str,
    /// Other names, which files, flags and variables of existing clients may use.
    pub aliases: &'static [&'static str],
}

/// Declares an enum whose values are the names of a key.
macro_rules! choices {
    ($($(#[doc = $doc:literal])+ $type:ident { $($(#[doc = $each:literal])+ $variant:ident = $name:literal [$($alias:literal),*],)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[doc = $each])+ $variant,)+
        }

        impl $type {
            /// The names, in the order of the variants.
            pub const CHOICES: &'static [Choice] = &[$(Choice { name: $name, aliases: &[$($alias),*] }),+];

            /// The name on the wire and in files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The variant of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl Sealed for $type {}
        impl Typed for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Text(name) => Self::from_name(name),
                    _ => None,
                }
            }
        }
    )+};
}

choices! {
    /// Which tool calls wait for an answer.
    Approval {
        /// None, except where a rule asks or denies.
        Never = "never" ["off", "none", "auto"],
        /// Those that change something.
        Destructive = "destructive" [],
        /// All.
        Always = "always" ["all", "y"],
    }
    /// Where commands run.
    SandboxMode {
        /// On the machine itself.
        None = "none" ["off", "false", "disabled"],
        /// In a virtual machine of their own.
        Microsandbox = "microsandbox" ["msb", "on", "true", "enabled", "firejail", "fj", "seatbelt", "macos", "sandbox-exec"],
    }
    /// What a sandbox reaches on the network.
    NetworkMode {
        /// Nothing.
        None = "none" [],
        /// Public addresses.
        Restricted = "restricted" [],
        /// The hosts of `sandbox.network_allowlist`.
        Allowlist = "allowlist" [],
    }
}
