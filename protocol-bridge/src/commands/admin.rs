//! Skills, agents, checkpoints and the marketplace.

use std::sync::Arc;

use linn_services::skills::{ResourceBase, SkillDefinition, SkillLookup, Skills};
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::wire::commands::{
    AcceptSkillDisclaimer, CreateCheckpoint, InstallMarketplaceSkill, ListAgents, ListCheckpoints,
    ListMarketplaceSkills, ListSkills, RemoveMarketplaceSkill, RestoreCheckpoint, Run, SearchMarketplaceSkills,
    UpdateMarketplaceSkill,
};
use crate::wire::events::{AgentList, Checkpoints, MarketplaceError, MarketplaceState, Skills as SkillsEvent};

impl Bridge {
    pub(crate) async fn tell_skills(&self) {
        let skills = self.skills().await;
        self.say(&SkillsEvent { skills: &skills });
    }

    async fn skills(&self) -> Vec<Value> {
        let Some(skills) = self.service::<dyn Skills>() else { return Vec::new() };
        let cwd = Some(self.config.workspace.to_string_lossy().into_owned());
        let lookup = || SkillLookup { cwd: cwd.clone(), ..SkillLookup::default() };
        let mut shown = Vec::new();
        for summary in skills.list(lookup()).await.unwrap_or_default() {
            if let Ok(Some(skill)) = skills.get(&summary.name, lookup()).await {
                shown.push(shown_skill(&skill));
            }
        }
        shown
    }

    pub(crate) fn tell_agents(&self) {
        self.say(&AgentList { agents: &[] });
    }

    fn no_marketplace(&self) {
        self.say(&MarketplaceError { message: "there is no marketplace: no plugin that is mounted provides one" });
    }
}

fn shown_skill(skill: &SkillDefinition) -> Value {
    let base = match &skill.summary.resource_base {
        Some(ResourceBase::Directory { path }) => path.as_str(),
        Some(ResourceBase::Url { url }) => url,
        _ => &skill.summary.source,
    };
    json!({
        "name": skill.summary.name,
        "description": skill.summary.description,
        "location": skill.path.as_deref().unwrap_or(base),
        "content": skill.content,
    })
}

impl Run for ListSkills {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.tell_skills().await;
    }
}

impl Run for ListAgents {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.tell_agents();
    }
}

impl Run for ListCheckpoints {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&Checkpoints { checkpoints: &[] });
    }
}

impl Run for CreateCheckpoint {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.missing("create_checkpoint", "checkpoints");
    }
}

impl Run for RestoreCheckpoint {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.error(format!("checkpoint '{}' not found", self.id));
    }
}

impl Run for ListMarketplaceSkills {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.say(&MarketplaceState { disclaimer_accepted: false, installed: &[] });
    }
}

/// Commands of the marketplace that act.
macro_rules! marketplace {
    ($($name:ident)*) => {$(
        impl Run for $name {
            async fn run(self, bridge: &Arc<Bridge>) {
                bridge.no_marketplace();
            }
        }
    )*};
}

marketplace! {
    AcceptSkillDisclaimer SearchMarketplaceSkills InstallMarketplaceSkill UpdateMarketplaceSkill RemoveMarketplaceSkill
}
