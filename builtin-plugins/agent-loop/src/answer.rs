//! The answer of the model: every chunk is logged as it comes, then the whole.

use std::sync::Arc;

use futures_util::StreamExt;
use linn_services::agent::with_own_ids;
use linn_services::events::AgentStepResult;
use linn_services::llm::{Assembler, LlmError};
use linn_services::model::{ContentBlock, FinishReason, GenerateRequest, Message, StreamChunk, TokenUsage};
use linn_services::session::{AssistantChunk, AssistantMessage, SurfaceOp};
use tokio_util::sync::CancellationToken;

use crate::calls::Call;
use crate::halt::{Halt, LoopError, race};
use crate::turn::Turn;

/// What came of asking the model.
pub(crate) struct Answer {
    pub(crate) calls: Vec<Call>,
    pub(crate) hit_max_tokens: bool,
}

/// A stream that ended well.
struct Heard {
    message: Message,
    usage: Option<TokenUsage>,
    /// The label the endpoint gave; what is done goes by the content.
    finish: FinishReason,
    /// Seqs of the chunks in the log that the answer is made of; those before a discard are not.
    chunks: Vec<u64>,
}

impl Turn<'_> {
    /// Asks the model and logs its answer. If this fails, the log has no call without an answer.
    pub(crate) async fn answer(
        &mut self,
        token: &CancellationToken,
        request: &Arc<GenerateRequest>,
    ) -> Result<Answer, Halt> {
        let Heard { message, usage, finish, chunks } = self.listen(token, request).await?;
        let hit_max_tokens = finish == FinishReason::MaxTokens;
        let message = without_cut_calls(message, hit_max_tokens);
        let (agent, turn, step) = (self.agent().clone(), self.number, self.step);
        let event = AgentStepResult { agent, turn, step, message: Arc::new(message) };
        let asked = self.ctx().waterfall(&event, async || Message::clone(&event.message));
        let message = without_cut_calls(race(token, asked).await??, hit_max_tokens);
        let content = with_own_ids(&message, &request.messages).into_owned().content;
        let calls: Vec<Call> = content.iter().filter_map(Call::of).collect();
        let is_empty = content.is_empty();
        if !is_empty || usage.is_some() {
            let sources = (!chunks.is_empty()).then_some(chunks);
            let answer = AssistantMessage { turn, step, content, usage };
            let logged = self.agent().session().append_to_surface(answer, SurfaceOp::Append, sources);
            if let Err(error) = logged {
                if error.is_logged() {
                    self.skip_calls(calls);
                }
                return Err(error.into());
            }
        }
        if is_empty && finish == FinishReason::ToolCalls {
            return Err(LoopError::EmptyAnswer.into());
        }
        Ok(Answer { calls, hit_max_tokens })
    }

    /// Logs the stream chunk by chunk, up to its finish.
    async fn listen(&mut self, token: &CancellationToken, request: &Arc<GenerateRequest>) -> Result<Heard, Halt> {
        let (turn, step) = (self.number, self.step);
        let llm = self.of.driver.seams.llm().await?;
        let mut stream = race(token, llm.stream(request.clone(), Some(self.agent()))).await??;
        let mut assembler = Assembler::new();
        let mut chunks = Vec::new();
        while assembler.finished().is_none() {
            let Some(chunk) = race(token, stream.next()).await? else { break };
            let chunk = chunk?;
            let taken = assembler.push(&chunk);
            let is_discard = chunk == StreamChunk::Discard;
            let seq = self.agent().session().append(AssistantChunk { turn, step, chunk })?.seq;
            if is_discard {
                chunks.clear();
            } else {
                chunks.push(seq);
            }
            taken?;
        }
        let finish = assembler.finished().cloned().unwrap_or(FinishReason::Stop);
        match &finish {
            FinishReason::Error { message, code } => {
                let mut error = LlmError::new("", message.as_str());
                error.code.clone_from(code);
                return Err(error.into());
            }
            FinishReason::Aborted => return Err(LlmError::new("ABORTED", "the model's side aborted the answer").into()),
            _ => {}
        }
        let answer = assembler.finish(&request.messages);
        Ok(Heard { message: answer.message, usage: answer.usage, finish, chunks })
    }
}

/// A call at the end of an answer that was cut off is not whole, and which ones are cannot be told: none is run.
fn without_cut_calls(mut message: Message, hit_max_tokens: bool) -> Message {
    if hit_max_tokens {
        message.content.retain(|it| !matches!(it, ContentBlock::ToolCall { .. }));
    }
    message
}
