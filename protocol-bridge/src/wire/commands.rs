//! Commands of a front end. Fields that are not known are ignored; one that is missing or of the wrong type makes the
//! command a bad one.

mod admin;
mod conversation;
mod goals;
mod providers;
mod replies;
mod turns;

pub(crate) use admin::{
    AcceptSkillDisclaimer, DisablePlugin, EnablePlugin, ForgetMemory, InstallMarketplaceSkill, InstallPlugin,
    ListAgents, ListMarketplaceSkills, ListMemory, ListPluginCommands, ListPlugins, ListSkills, PluginCommand,
    PluginTrustDecisions, PluginTrustPrompt, RefreshMemory, ReloadPlugins, RemoveMarketplaceSkill, RemovePlugin,
    SaveMemory, SearchMarketplaceSkills, UpdateMarketplaceSkill,
};
pub(crate) use conversation::{
    Clear, Context, CreateCheckpoint, DeleteSession, ListCheckpoints, ListSessions, LoadSession, NewSession,
    PinSession, RenameSession, Reset, RestoreCheckpoint, RuntimeStatus, Stats, Undo,
};
pub(crate) use goals::{ApproveGoalPlan, CancelGoal, GoalStatus, ReviseGoal, StartGoal};
pub(crate) use providers::{
    AddCustomProvider, DiscoverProviderModels, GetSandboxStatus, GetVisionConfig, Headers, ListProviderPresets, Login,
    LoginOauth, Logout, OauthCode, PrepareSandbox, RefreshModels, ResetSandbox, SetApproval, SetConfig, SetKey,
    SetProvider, SetSearchKey, SetVisionConfig, Usage,
};
pub(crate) use replies::{Approve, AskReply, IntercomReply, SudoReply};
pub(crate) use turns::{Abort, ApplySkill, ClearQueue, Client, Compact, Init, Send, Steer, UserBash};

use std::sync::Arc;

use serde::Deserialize;

use crate::bridge::Bridge;

/// Does what a command says.
pub(crate) trait Run {
    /// Returns when the next command may be read; what takes longer goes on as a task.
    async fn run(self, bridge: &Arc<Bridge>);
}

macro_rules! commands {
    ($($name:ident),* $(,)?) => {
        /// A command.
        #[derive(Deserialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub(crate) enum Command { $($name($name)),* }

        impl Run for Command {
            async fn run(self, bridge: &Arc<Bridge>) {
                match self { $(Self::$name(it) => it.run(bridge).await),* }
            }
        }
    };
}

commands! {
    Init, Send, Steer, Abort, ClearQueue, Compact, ApplySkill, UserBash,
    Reset, Clear, Undo, ListSessions, LoadSession, NewSession, RenameSession, DeleteSession, PinSession,
    CreateCheckpoint, ListCheckpoints, RestoreCheckpoint,
    Stats, RuntimeStatus, Context, Usage, ListSkills, ListAgents, GoalStatus, GetVisionConfig, GetSandboxStatus,
    SetKey, SetSearchKey, SetProvider, ListProviderPresets, Login, Logout, LoginOauth, OauthCode, AddCustomProvider,
    DiscoverProviderModels, RefreshModels,
    SetApproval, SetConfig, SetVisionConfig, PrepareSandbox, ResetSandbox,
    Approve, AskReply, SudoReply, IntercomReply,
    SaveMemory, ListMemory, ForgetMemory, RefreshMemory,
    InstallPlugin, RemovePlugin, EnablePlugin, DisablePlugin, ListPlugins, ReloadPlugins, ListPluginCommands,
    PluginTrustPrompt, PluginTrustDecisions, PluginCommand,
    ListMarketplaceSkills, AcceptSkillDisclaimer, SearchMarketplaceSkills, InstallMarketplaceSkill,
    UpdateMarketplaceSkill, RemoveMarketplaceSkill,
    StartGoal, CancelGoal, ApproveGoalPlan, ReviseGoal,
}

/// Declares commands without fields.
macro_rules! bare {
    ($($name:ident)*) => {$(
        #[derive(serde::Deserialize)]
        pub(crate) struct $name {}
    )*};
}
use bare;
