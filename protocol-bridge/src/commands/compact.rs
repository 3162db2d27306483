//! `compact`: the history is made smaller because the human wants it.

use std::sync::Arc;

use linn_services::compaction::{CompactRequest, CompactTrigger, Compaction};

use crate::bridge::Bridge;
use crate::wire::commands::{Compact, Run};

impl Run for Compact {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Some(compaction) = bridge.service::<dyn Compaction>() else {
            return bridge.missing("compact", "compaction");
        };
        let instructions = self.instructions.filter(|it| !it.trim().is_empty());
        bridge.spawn_job("task", "compaction", move |bridge, signal| async move {
            let Some(agent) = bridge.agent() else { return };
            let trigger = CompactTrigger::Manual;
            let request = CompactRequest { agent: agent.clone(), trigger, instructions, signal: signal.clone() };
            let outcome = compaction.compact(request).await;
            let budget = compaction.budget(&agent).unwrap_or_default();
            match outcome {
                Ok(Some(done)) if done.tokens_after > budget.hard_limit_tokens => bridge.error(format!(
                    "context remains too large after compaction ({} > safe limit {}); remove or split an oversized \
                     recent message",
                    done.tokens_after, budget.hard_limit_tokens
                )),
                Ok(Some(_)) => {}
                Ok(None) => {
                    bridge.info("nothing to compact yet");
                    bridge.tell_uncompacted(&agent, budget, trigger);
                }
                Err(_) if signal.is_cancelled() => {
                    bridge.info("the compaction was aborted");
                    bridge.tell_uncompacted(&agent, budget, trigger);
                }
                Err(error) => {
                    bridge.info(format!("the history was not compacted: {error}"));
                    bridge.tell_uncompacted(&agent, budget, trigger);
                }
            }
        });
    }
}
