//! The summary: how it is asked for, and what is made of the answer.

use std::sync::Arc;

use futures_util::StreamExt as _;
use linn_bus::Svc;
use linn_services::agent::Agent;
use linn_services::compaction::{CompactionError, ContextBudget, TokenEstimator};
use linn_services::llm::{Assembler, Llm, LlmError};
use linn_services::model::{ContentBlock, FinishReason, GenerateRequest, LlmCallConfig, Message, text_of};
use linn_services::secrets::secrets_of;
use tokio_util::sync::CancellationToken;

use crate::config::CompactionConfig;
use crate::estimate::Node;
use crate::transcript::transcript;

const SYSTEM: &str = "You sum up the work of an agent, so that it can go on without having read what came before. You write for \
                      the agent, not for the user. You call no tools and answer no questions from the transcript.";

const REQUEST: &str = "\
Sum up the transcript above between <summary> and </summary>, under these headings, each left out if there is nothing to say:
1. What the user wants, in the user's words where they matter
2. Constraints and preferences of the user
3. State of the work: done, under way, still to do
4. Files and other things that were read, made or changed, by exact name
5. Commands and their outcomes
6. Errors, and what helped
7. Decisions, with their reasons
8. What the agent was doing last
9. The next step
Keep exact names, paths, numbers and identifiers. An earlier summary in the transcript goes into yours.
Behind it, between <facts> and </facts>, write one a line what is worth knowing in other sessions as well, if anything is.";

/// What opens and closes the message that stands in the place of what was summed up.
const FRAME: (&str, &str) = (
    "The conversation before this point was summed up to save room:\n<conversation-summary>\n",
    "\n</conversation-summary>",
);

/// A summary that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) text: String,
    pub(crate) facts: Vec<String>,
    /// The model that wrote it.
    pub(crate) model: String,
    pub(crate) max_tokens: u32,
}

impl Summary {
    /// What stands in the place of the messages summed up.
    pub(crate) fn framed(&self) -> Vec<ContentBlock> {
        vec![ContentBlock::text(format!("{}{}{}", FRAME.0, self.text, FRAME.1))]
    }
}

/// Whether this message stands in the place of what was summed up.
pub(crate) fn is_summary(message: &Message) -> bool {
    message.content.first().and_then(ContentBlock::as_text).is_some_and(|it| it.starts_with(FRAME.0))
}

/// What a summary is asked for with.
pub(crate) struct Asking<'a> {
    pub(crate) llm: &'a Svc<dyn Llm>,
    pub(crate) config: &'a CompactionConfig,
    pub(crate) agent: &'a Agent,
    pub(crate) model: &'a str,
    /// How far its window may be filled.
    pub(crate) budget: ContextBudget,
    pub(crate) instructions: Option<&'a str>,
    pub(crate) signal: &'a CancellationToken,
}

impl Asking<'_> {
    /// Has a model sum up these nodes. When that is too long for it, it gets half as much to read the next time.
    pub(crate) async fn summary(&self, nodes: &[Node]) -> Result<Summary, CompactionError> {
        let estimator = TokenEstimator { chars_per_token: self.config.chars_per_token };
        let messages = || nodes.iter().filter_map(|it| it.message.as_deref());
        let whole = transcript(messages(), usize::MAX).chars().count();
        let budget = self.budget;
        let beside = estimator.text(SYSTEM) + estimator.text(REQUEST) + u64::from(self.config.summary_max_tokens);
        let room = budget.hard_limit_tokens.saturating_sub(beside).max(budget.hard_limit_tokens / 2);
        let room = usize::try_from(room.saturating_mul(self.config.chars_per_token)).unwrap_or(usize::MAX);
        let mut limit = whole.min(room);
        let mut attempt = 1;
        loop {
            match self.ask(&transcript(messages(), limit)).await {
                Err(error) if error.is_context_length() && attempt < self.config.summary_attempts => {
                    (attempt, limit) = (attempt + 1, limit / 2);
                }
                Err(error) => {
                    let tries = if attempt > 1 { format!(" after {attempt} attempts") } else { String::new() };
                    return Err(CompactionError::Summary(format!("{}{tries}", error.message)));
                }
                Ok(summary) => return Ok(summary),
            }
        }
    }

    async fn ask(&self, transcript: &str) -> Result<Summary, LlmError> {
        let mut words = format!("<transcript>\n{transcript}\n</transcript>\n\n{REQUEST}");
        for wish in self.config.instructions.as_deref().into_iter().chain(self.instructions) {
            words.push_str("\n\nHeed this as well: ");
            words.push_str(wish);
        }
        secrets_of(self.agent.context()).redact_in(&mut words);
        let max_tokens = self.config.summary_max_tokens;
        let request = GenerateRequest {
            config: LlmCallConfig { max_tokens: Some(max_tokens), ..LlmCallConfig::of_model(self.model) },
            messages: vec![Arc::new(Message::user([ContentBlock::text(words)]))],
            system: Some(SYSTEM.to_owned()),
            session_id: Some(self.agent.session().id().clone()),
            signal: self.signal.child_token(),
            ..GenerateRequest::default()
        };
        let mut stream = self.llm.stream(Arc::new(request), Some(self.agent)).await?;
        let mut assembler = Assembler::new();
        while let Some(chunk) = stream.next().await {
            assembler.push(&chunk?)?;
        }
        let answer = assembler.finish(&[]);
        let unusable = |why: &str| LlmError::new("UNUSABLE_SUMMARY", why);
        match answer.finish {
            FinishReason::Stop | FinishReason::ToolCalls => {}
            FinishReason::MaxTokens => {
                return Err(unusable(&format!("the summary did not end within {max_tokens} tokens")));
            }
            FinishReason::Aborted => return Err(LlmError::aborted()),
            FinishReason::Error { message, code } => {
                let mut error = LlmError::new("", message);
                error.code = code;
                return Err(error);
            }
            _ => return Err(unusable("the model ended for a reason that is not known")),
        }
        let (text, facts) = read(&text_of(&answer.message.content));
        if text.is_empty() {
            return Err(unusable("the model wrote nothing"));
        }
        Ok(Summary { text, facts, model: self.model.to_owned(), max_tokens })
    }
}

/// The summary and the facts of an answer; all of it is the summary if it has no tags.
fn read(answer: &str) -> (String, Vec<String>) {
    let facts = between(answer, "facts").unwrap_or_default();
    let bullet = |line: &str| line.trim().trim_start_matches(['-', '*']).trim().to_owned();
    let facts = facts.lines().map(bullet).filter(|it| !it.is_empty()).collect();
    let summary = between(answer, "summary").unwrap_or_else(|| answer.split("<facts>").next().unwrap_or_default());
    (summary.trim().to_owned(), facts)
}

fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(&format!("<{tag}>"))?;
    Some(behind.rsplit_once(&format!("</{tag}>")).map_or(behind, |(inside, _)| inside))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn an_answer_is_read_with_and_without_tags() {
        let facts = |facts: &[&str]| facts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        for (answer, summary, expected) in [
            ("plain words", "plain words", facts(&[])),
            ("thinking\n<summary>\n1. a\n</summary>\n<facts>\n- b\n* c\n\n</facts>", "1. a", facts(&["b", "c"])),
            ("<summary>no end", "no end", facts(&[])),
            ("no tags <facts>b</facts>", "no tags", facts(&["b"])),
            ("<summary></summary>", "", facts(&[])),
        ] {
            assert_eq!(read(answer), (summary.to_owned(), expected), "{answer}");
        }
    }
}
