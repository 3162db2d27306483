//! Goals.

use serde::Deserialize;

use super::bare;

bare! { GoalStatus CancelGoal ApproveGoalPlan }

#[derive(Deserialize)]
pub(crate) struct StartGoal {
    pub(crate) goal: String,
    pub(crate) model: String,
    pub(crate) concurrency: Option<u64>,
    pub(crate) max_tasks: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct ReviseGoal {
    #[expect(dead_code, reason = "the field is checked, and nothing plans goals yet")]
    feedback: String,
    pub(crate) model: String,
}
