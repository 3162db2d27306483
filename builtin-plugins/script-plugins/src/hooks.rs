//! The points at which scripts are asked, what they are told, and what their answers mean.

mod answer;
mod life;
mod messages;
mod request;
mod tools;

use std::time::Duration;

pub(crate) use answer::{Answer, Output, Told};
pub(crate) use life::Life;
pub(crate) use request::RequestHooks;
pub(crate) use tools::ToolHooks;

macro_rules! points {
    ($($name:ident = $text:literal $policy:ident,)*) => {
        /// A point at which scripts are asked.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum HookPoint { $($name),* }

        impl HookPoint {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The point of this name.
            pub(crate) fn parse(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            pub(crate) const fn policy(self) -> Policy {
                match self { $(Self::$name => Policy::$policy),* }
            }
        }
    };
}

points! {
    PreBash = "pre_bash" Blocking,
    PreWrite = "pre_write" Blocking,
    PreRead = "pre_read" Blocking,
    PreTool = "pre_tool" Blocking,
    PreInput = "pre_input" Blocking,
    PostBash = "post_bash" BestEffort,
    PostWrite = "post_write" BestEffort,
    PostRead = "post_read" BestEffort,
    PostTool = "post_tool" BestEffort,
    SessionStart = "session_start" Advisory,
    SessionStop = "session_stop" Advisory,
    PreCompact = "pre_compact" Advisory,
    PreTurn = "pre_turn" Advisory,
    PreAgentStart = "pre_agent_start" Advisory,
    PreContext = "pre_context" Advisory,
    TurnStart = "turn_start" Advisory,
    TurnEnd = "turn_end" Advisory,
    SessionShutdown = "session_shutdown" Advisory,
}

/// What a failure of a script means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// What it was asked about is refused.
    Blocking,
    /// The result stays as it is.
    BestEffort,
    /// It is passed over.
    Advisory,
}

impl HookPoint {
    /// Whether a turn waits for the scripts of this point. The others are told beside it.
    pub(crate) const fn is_waited_for(self) -> bool {
        !matches!(
            self,
            Self::SessionStart | Self::SessionStop | Self::PreCompact | Self::TurnEnd | Self::SessionShutdown
        )
    }

    /// How long a script may take where nothing is said.
    pub(crate) const fn patience(self) -> Duration {
        match self.policy() {
            Policy::Blocking => Duration::from_millis(5_000),
            Policy::BestEffort | Policy::Advisory => Duration::from_millis(30_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_19_every_point_has_a_policy_and_its_patience() {
        assert_eq!(HookPoint::ALL.len(), 18);
        for point in HookPoint::ALL {
            assert_eq!(HookPoint::parse(point.as_str()), Some(*point));
            let is_blocking =
                matches!(point.as_str(), "pre_bash" | "pre_write" | "pre_read" | "pre_tool" | "pre_input");
            assert_eq!(point.policy() == Policy::Blocking, is_blocking, "{point:?}");
            assert_eq!(point.patience().as_secs(), if is_blocking { 5 } else { 30 }, "{point:?}");
        }
        assert_eq!(HookPoint::parse("before_tol"), None);
    }
}
