//! Puts the chunks of a stream together to an answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ids::CallId;
use crate::llm::LlmError;
use crate::model::{BlockType, ContentBlock, FinishReason, Message, Role, StreamChunk, TokenUsage};

/// Most bytes that the arguments of one call may have: 8 MiB.
pub const MAX_ARGUMENTS_BYTES: usize = 8 << 20;

/// Most bytes that all text, reasoning and arguments of one answer may have: 16 MiB.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Puts the chunks of one stream together.
///
/// Blocks stand in the order in which they were first met. A delta opens its block if nothing else did; a block that ended
/// stays as it is, and so does everything after the finish. What stands before a `Discard` is gone.
///
/// ```
/// use linn_services::llm::Assembler;
/// use linn_services::model::{ContentBlock, FinishReason, StreamChunk};
///
/// let mut assembler = Assembler::new();
/// for text in ["Hel", "lo"] {
///     assembler.push(&StreamChunk::TextDelta { index: 0, text: text.into() })?;
/// }
/// let answer = assembler.finish(&[]);
/// assert_eq!(answer.message.content, [ContentBlock::text("Hello")]);
/// assert_eq!(answer.finish, FinishReason::Stop);
/// # Ok::<_, linn_services::llm::LlmError>(())
/// ```
#[derive(Debug, Default)]
pub struct Assembler {
    blocks: Vec<Block>,
    /// Where the block of an index is. Indices are the endpoint's and may be any number.
    places: HashMap<u32, usize>,
    usage: Option<TokenUsage>,
    finish: Option<FinishReason>,
    size_bytes: usize,
}

/// An answer put together.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer; empty blocks are left out.
    pub message: Message,
    /// What it cost, as told last.
    pub usage: Option<TokenUsage>,
    /// Why it ended. `ToolCalls` and `Stop` go by what the answer holds, whatever the endpoint said.
    pub finish: FinishReason,
}

#[derive(Debug)]
struct Block {
    index: u32,
    state: BlockState,
}

#[derive(Debug)]
enum BlockState {
    Text(String),
    Reasoning(String),
    Call { id: CallId, name: String, arguments: String },
    Ended(ContentBlock),
}

impl BlockState {
    fn open(kind: BlockType) -> Self {
        match kind {
            BlockType::Text => Self::Text(String::new()),
            BlockType::Reasoning => Self::Reasoning(String::new()),
            BlockType::ToolCall => Self::Call { id: "".into(), name: String::new(), arguments: String::new() },
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Reasoning(_) => "reasoning",
            Self::Call { .. } => "tool-call",
            Self::Ended(_) => "ended",
        }
    }
}

impl Assembler {
    /// An assembler that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a chunk in.
    ///
    /// # Errors
    ///
    /// `MALFORMED_RESPONSE` for a delta that does not fit its block, `ANSWER_TOO_LARGE` past [`MAX_ARGUMENTS_BYTES`] or
    /// [`MAX_ANSWER_BYTES`]; neither gets better by asking again. What was taken in before stays.
    pub fn push(&mut self, chunk: &StreamChunk) -> Result<(), LlmError> {
        if self.finish.is_some() {
            return Ok(());
        }
        match chunk {
            StreamChunk::BlockStart { index, block_type } => {
                self.block(*index, *block_type);
            }
            StreamChunk::TextDelta { index, text } => {
                self.grow(text.len())?;
                match self.block(*index, BlockType::Text) {
                    BlockState::Text(sofar) => sofar.push_str(text),
                    BlockState::Ended(_) => {}
                    other => return Err(misfit(*index, "text", other)),
                }
            }
            StreamChunk::ReasoningDelta { index, text } => {
                self.grow(text.len())?;
                match self.block(*index, BlockType::Reasoning) {
                    BlockState::Reasoning(sofar) => sofar.push_str(text),
                    BlockState::Ended(_) => {}
                    other => return Err(misfit(*index, "reasoning", other)),
                }
            }
            StreamChunk::ToolCallDelta { index, id, name, arguments_delta } => {
                self.grow(arguments_delta.len())?;
                match self.block(*index, BlockType::ToolCall) {
                    BlockState::Call { id: known_id, name: known_name, arguments } => {
                        if known_id.as_str().is_empty() {
                            *known_id = id.clone();
                        }
                        if let Some(name) = name.as_ref().filter(|_| known_name.is_empty()) {
                            known_name.clone_from(name);
                        }
                        if arguments.len() + arguments_delta.len() > MAX_ARGUMENTS_BYTES {
                            return Err(too_large("the arguments of a call", MAX_ARGUMENTS_BYTES));
                        }
                        arguments.push_str(arguments_delta);
                    }
                    BlockState::Ended(_) => {}
                    other => return Err(misfit(*index, "tool-call", other)),
                }
            }
            StreamChunk::BlockEnd { index, block } => self.end(*index, block),
            StreamChunk::Usage { usage } => self.usage = Some(*usage),
            StreamChunk::Finish { reason } => self.finish = Some(reason.clone()),
            StreamChunk::Discard => *self = Self::default(),
        }
        Ok(())
    }

    /// Why the answer ended, once it has.
    pub fn finished(&self) -> Option<&FinishReason> {
        self.finish.as_ref()
    }

    /// What the answer cost, as told so far.
    pub fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    /// The answer. An answer without a finish has stopped.
    ///
    /// Ids of calls become fresh ones where they are missing, stand twice in the answer, or stand in `history`, the messages
    /// of the request: results are told apart by them.
    pub fn finish(self, history: &[Arc<Message>]) -> Answer {
        let mut content: Vec<(u32, ContentBlock)> =
            self.blocks.into_iter().filter_map(|it| Some((it.index, it.state.content()?))).collect();
        name_calls(&mut content, history);
        let has_calls = content.iter().any(|(_, it)| matches!(it, ContentBlock::ToolCall { .. }));
        let finish = match self.finish {
            None | Some(FinishReason::Stop | FinishReason::ToolCalls) if has_calls => FinishReason::ToolCalls,
            None | Some(FinishReason::Stop | FinishReason::ToolCalls) => FinishReason::Stop,
            Some(other) => other,
        };
        let content = content.into_iter().map(|(_, block)| block).collect();
        Answer { message: Message { role: Role::Assistant, content }, usage: self.usage, finish }
    }

    /// The block of an index, opened as `kind` if it is new.
    fn block(&mut self, index: u32, kind: BlockType) -> &mut BlockState {
        let place = *self.places.entry(index).or_insert_with(|| {
            self.blocks.push(Block { index, state: BlockState::open(kind) });
            self.blocks.len() - 1
        });
        &mut self.blocks[place].state
    }

    fn end(&mut self, index: u32, block: &ContentBlock) {
        let Some(place) = self.places.get(&index) else {
            self.places.insert(index, self.blocks.len());
            self.blocks.push(Block { index, state: BlockState::Ended(block.clone()) });
            return;
        };
        let state = &mut self.blocks[*place].state;
        let mut ended = block.clone();
        match (&*state, &mut ended) {
            (BlockState::Ended(_), _) => return,
            (BlockState::Call { id, .. }, ContentBlock::ToolCall { id: ended_id, .. })
                if ended_id.as_str().is_empty() =>
            {
                *ended_id = id.clone();
            }
            _ => {}
        }
        *state = BlockState::Ended(ended);
    }

    fn grow(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.size_bytes += bytes;
        if self.size_bytes > MAX_ANSWER_BYTES { Err(too_large("the answer", MAX_ANSWER_BYTES)) } else { Ok(()) }
    }
}

impl BlockState {
    /// The block as it is; none if there is nothing in it.
    fn content(self) -> Option<ContentBlock> {
        let block = match self {
            Self::Text(text) => ContentBlock::Text { text },
            Self::Reasoning(text) => ContentBlock::Reasoning { text, signature: None },
            Self::Call { id, name, arguments } => ContentBlock::ToolCall { id, name: name.into(), arguments },
            Self::Ended(block) => block,
        };
        match &block {
            ContentBlock::Text { text } | ContentBlock::Reasoning { text, signature: None } if text.is_empty() => None,
            _ => Some(block),
        }
    }
}

/// Gives every call an id that no other call has.
fn name_calls(content: &mut [(u32, ContentBlock)], history: &[Arc<Message>]) {
    let mut taken: HashSet<CallId> = HashSet::new();
    for (index, block) in content {
        let ContentBlock::ToolCall { id, .. } = block else { continue };
        if id.as_str().is_empty() {
            *id = format!("call-{index}").into();
        }
        let is_known = |id: &CallId| taken.contains(id) || is_in(history, id);
        if is_known(id) {
            let given = id.clone();
            *id = (2..)
                .map(|n| CallId::from(format!("{given}-{n}")))
                .find(|it| !is_known(it))
                .expect("there are more numbers than calls");
        }
        taken.insert(id.clone());
    }
}

fn is_in(history: &[Arc<Message>], id: &CallId) -> bool {
    let mut blocks = history.iter().flat_map(|it| &it.content);
    blocks.any(|it| matches!(it, ContentBlock::ToolCall { id: known, .. } if known == id))
}

fn misfit(index: u32, delta: &str, block: &BlockState) -> LlmError {
    LlmError::new(
        "MALFORMED_RESPONSE",
        format!("the model streamed a {delta} delta for block {index}, which is a {} block", block.kind()),
    )
}

fn too_large(what: &str, limit: usize) -> LlmError {
    LlmError::new("ANSWER_TOO_LARGE", format!("{what} went past the limit of {limit} bytes"))
}
