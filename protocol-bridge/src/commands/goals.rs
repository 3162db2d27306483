//! Goals. Nothing works towards goals yet; what is asked is answered, and what shall act says what is missing.

use std::sync::Arc;

use serde_json::json;

use crate::bridge::Bridge;
use crate::wire::commands::{ApproveGoalPlan, CancelGoal, GoalStatus, ReviseGoal, Run, StartGoal};
use crate::wire::events::{Done, GoalState};

/// Shortest goal, in characters.
const MIN_CHARS: usize = 4;

impl Run for GoalStatus {
    async fn run(self, bridge: &Arc<Bridge>) {
        let fields = json!({ "phase": "idle", "goal": "", "prompts": [], "active_run_ids": [], "auto_deploy": true });
        bridge.say(&GoalState { fields: &fields });
    }
}

impl Run for StartGoal {
    async fn run(self, bridge: &Arc<Bridge>) {
        if bridge.route(&self.model, None, None).is_none() {
            return bridge.refuse_model(&self.model);
        }
        let concurrency = self.concurrency.map(|it| it.clamp(1, 32));
        let max_tasks = self.max_tasks.map(|it| it.clamp(1, 64));
        match (self.goal.trim().chars().count(), concurrency.zip(max_tasks)) {
            (0, _) => bridge.error("goal text must not be empty"),
            (n, _) if n < MIN_CHARS => bridge.error("goal text is too short"),
            (_, Some((c, m))) if c > m => bridge.error(format!("concurrency ({c}) cannot exceed max_tasks ({m})")),
            _ => bridge.missing("start_goal", "goals"),
        }
    }
}

impl Run for CancelGoal {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.info("no active goal to cancel");
    }
}

impl Run for ApproveGoalPlan {
    async fn run(self, bridge: &Arc<Bridge>) {
        bridge.error("approve_goal_plan requires phase plan_ready (got idle)");
    }
}

impl Run for ReviseGoal {
    async fn run(self, bridge: &Arc<Bridge>) {
        if bridge.route(&self.model, None, None).is_none() {
            return bridge.refuse_model(&self.model);
        }
        bridge.error("no goal to revise — use start_goal first");
        if !bridge.is_busy() {
            bridge.say(&Done {});
        }
    }
}
