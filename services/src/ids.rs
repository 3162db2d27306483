//! Ids: each its own type, so that none is taken for another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$docs:meta])* $name:ident)*) => {$(
        $(#[$docs])*
        ///
        /// Any text; cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
    )*};
}

ids! {
    /// An agent, unique among the agents that live in one harness.
    AgentId
    /// A session, unique among the sessions that live in one harness and those on disk.
    SessionId
    /// A tool call, unique within its session.
    CallId
    /// The name under which a tool is registered and offered to the model.
    ToolName
    /// A model, as adapters and requests name it.
    ModelId
    /// A file, whatever path led to it.
    FsTargetKey
    /// What a file held at one moment; equal versions mean equal content.
    FsVersion
    /// One question to a human about a tool call.
    ApprovalRequestId
    /// One run of a workflow.
    WorkflowRunId
    /// One run of a subagent.
    SubagentRunId
}
