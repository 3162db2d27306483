//! Skills: instructions that a model may load by name.

mod catalogue;
mod registry;

pub use registry::SkillsPlugin;

use linn_bus::{BoxFuture, BusError, Context, EffectHandle, Fault, ListenerErrors, ServiceError, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kept::Kept;

/// Rank of skills that plugins define at run time.
pub const RUNTIME_RANK: f64 = 250.0;

/// Name of the provider of skills that plugins define at run time.
pub const RUNTIME_PROVIDER: &str = "runtime";

/// Instructions that a model may load by name. Providers bring them.
#[service("skills")]
pub trait Skills {
    /// What `register` is for whoever provides this.
    fn admit(&self, ctx: &Context, provider: Kept<dyn SkillProvider>) -> Result<EffectHandle, SkillError>;

    /// Defines a skill at run time. Of two with one name the first stays.
    fn define(&self, ctx: &Context, skill: RuntimeSkill) -> Result<EffectHandle, SkillError>;

    /// The skills there are, by name. Where two have one name, the lower rank wins, then the earlier provider, then the
    /// earlier place in its list.
    ///
    /// A provider that fails is left out with a warning, and asked again next time.
    async fn list(&self, lookup: SkillLookup) -> Result<Vec<SkillSummary>, SkillError>;

    /// A skill by name, hidden ones too.
    async fn get(&self, name: &str, lookup: SkillLookup) -> Result<Option<SkillDefinition>, SkillError>;
}

/// Brings skills.
pub trait SkillProvider: Send + Sync + 'static {
    /// Name, unique among providers.
    fn name(&self) -> &str;
    /// The skills it has.
    fn list<'a>(&'a self, lookup: &'a SkillLookup) -> BoxFuture<'a, Result<Vec<SkillCandidate>, Fault>>;
    /// One of them in full; `None` if it is gone.
    fn get<'a>(
        &'a self,
        candidate: &'a SkillCandidate,
        lookup: &'a SkillLookup,
    ) -> BoxFuture<'a, Result<Option<SkillDefinition>, Fault>>;
}

/// Where skills are looked for.
#[derive(Debug, Clone, Default)]
pub struct SkillLookup {
    /// The folder of the session.
    pub cwd: Option<String>,
    /// Ends the look-up.
    pub signal: CancellationToken,
}

/// A skill as a model learns of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillSummary {
    /// Name: lower-case letters, digits and `-`, at most 64.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// Whether only a human may call for it.
    #[serde(default)]
    pub disable_model_invocation: bool,
    /// Where it comes from, in the words of its provider.
    pub source: String,
    /// Its provider.
    pub provider: String,
    /// What its relative references are relative to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_base: Option<ResourceBase>,
}

/// What the references of a skill are relative to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ResourceBase {
    /// A folder.
    Directory {
        /// Its path.
        path: String,
    },
    /// An address.
    Url {
        /// The address.
        url: String,
    },
    /// Something else, in words.
    Opaque {
        /// The words.
        description: String,
    },
}

/// A skill that a provider has.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillCandidate {
    /// What a model learns of it.
    pub summary: SkillSummary,
    /// The lower wins among skills of one name.
    pub rank: f64,
    /// How its provider finds it again.
    pub locator: String,
    /// The file it stands in.
    pub path: Option<String>,
    /// What else its provider knows.
    pub metadata: Option<Value>,
}

/// A skill in full.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillDefinition {
    /// What a model learns of it beforehand.
    pub summary: SkillSummary,
    /// The instructions.
    pub content: String,
    /// The file they stand in.
    pub path: Option<String>,
    /// What else its provider knows.
    pub metadata: Option<Value>,
}

/// A skill defined at run time.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeSkill {
    /// Name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When to use it.
    pub when_to_use: Option<String>,
    /// The instructions.
    pub content: String,
}

/// Why a skill was not found or not registered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The name is taken, or reserved.
    #[error("a skill provider `{0}` is registered already, or the name is reserved")]
    DuplicateProvider(String),
    /// What was brought is no skill.
    #[error("`{name}` of provider `{provider}` is no skill: {why}")]
    Invalid {
        /// The name.
        name: String,
        /// The provider.
        provider: String,
        /// What is wrong.
        why: String,
    },
    /// The look-up was ended.
    #[error("the look-up of skills was ended")]
    Aborted,
    /// The provider of the skill failed.
    #[error("provider `{provider}` did not give the skill `{name}`: {cause:#}")]
    Provider {
        /// The provider.
        provider: String,
        /// The skill.
        name: String,
        /// Why.
        cause: Fault,
    },
    /// A listener of `skill/provider-added` failed; what was registered is taken back.
    #[error("who heard of the change failed: {0}")]
    Refused(#[source] ListenerErrors),
    /// The context cannot register anything any more.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The service did not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl SkillError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DuplicateProvider(_) => "DUPLICATE_SKILL_PROVIDER",
            Self::Invalid { .. } => "INVALID_SKILL",
            Self::Aborted => "SKILL_LOOKUP_ABORTED",
            Self::Provider { .. } => "SKILL_PROVIDER_FAILED",
            Self::Refused(_) => "CHANGE_REFUSED",
            Self::Bus(error) => error.code(),
            Self::Service(error) => error.code(),
        }
    }
}
