//! How many tokens a request takes, by estimate.

use std::sync::Arc;

use linn_services::agent::Agent;
use linn_services::compaction::TokenEstimator;
use linn_services::model::{Message, TokenUsage};
use linn_services::session::{Fact, SurfaceOp};

/// What stands in front of the history, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fixed {
    pub(crate) system: u64,
    pub(crate) tools: u64,
    pub(crate) prefix: u64,
}

impl Fixed {
    pub(crate) fn total(self) -> u64 {
        self.system + self.tools + self.prefix
    }
}

/// A place on the surface.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) seq: u64,
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) tokens: u64,
}

/// The next request of an agent, in parts.
#[derive(Debug, Clone)]
pub(crate) struct Measure {
    pub(crate) fixed: Fixed,
    pub(crate) nodes: Vec<Node>,
    /// Tokens of all of it; by what the endpoint counted last, where that can be used.
    pub(crate) total: u64,
}

/// What the loop is about to send in front of the history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Front<'a> {
    pub(crate) system: &'a str,
    pub(crate) prefix: &'a [Message],
}

impl Measure {
    /// Measures the next request. Without a front it is the one of the request before.
    pub(crate) fn of(agent: &Agent, front: Option<Front<'_>>, estimator: TokenEstimator) -> Self {
        let session = agent.session();
        let header = session.request_header();
        let (system, prefix) = match (&front, &header) {
            (Some(front), _) => (front.system, front.prefix),
            (None, Some(header)) => {
                (header.system.as_deref().unwrap_or_default(), header.message_prefix.as_deref().unwrap_or_default())
            }
            (None, None) => ("", &[][..]),
        };
        let tools = header.as_ref().and_then(|it| it.tools.as_deref()).unwrap_or_default();
        let fixed = Fixed {
            system: estimator.text(system),
            tools: estimator.tools(tools),
            prefix: prefix.iter().map(|it| estimator.message(it)).sum(),
        };
        let nodes: Vec<_> = session
            .surface_messages()
            .into_iter()
            .map(|(seq, message)| {
                let tokens = message.as_deref().map_or(0, |it| estimator.message(it));
                Node { seq, message, tokens }
            })
            .collect();
        let counted = counted_last(agent)
            .map(|(seq, tokens)| tokens + nodes.iter().filter(|it| it.seq > seq).map(|it| it.tokens).sum::<u64>());
        let sum = fixed.total() + nodes.iter().map(|it| it.tokens).sum::<u64>();
        Self { fixed, nodes, total: counted.unwrap_or(sum) }
    }
}

/// What the endpoint counted for the last answer and everything before it, with the record of the answer. Not if the history
/// was changed behind it.
fn counted_last(agent: &Agent) -> Option<(u64, u64)> {
    enum Last {
        Counted(u64, TokenUsage),
        Changed,
    }
    let last = agent.session().find_last(|record| {
        if let Some(surface) = &record.surface
            && surface.op != SurfaceOp::Append
        {
            return Some(Last::Changed);
        }
        match &record.fact {
            Fact::SessionRewind(_) => Some(Last::Changed),
            Fact::AssistantMessage(it) => it.usage.map(|usage| Last::Counted(record.seq, usage)),
            _ => None,
        }
    });
    let Some(Last::Counted(seq, usage)) = last else { return None };
    let read = usage.input_tokens + usage.cache_read_tokens.unwrap_or(0) + usage.cache_write_tokens.unwrap_or(0);
    // Some endpoints count nothing.
    (read > 0).then(|| (seq, read + usage.output_tokens))
}
