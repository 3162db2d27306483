//! What one request shows a model: put together from what the log holds, and from nothing else.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::ids::{CallId, SessionId};
use crate::model::{ContentBlock, EpochHeader, GenerateRequest, Message, Role};
use crate::session::{Fact, HeaderFold, Overlay, Session};

/// The request that shows `history` under `header`, with what overlays change for this request alone.
///
/// In front stands the prefix of the header; then the history, or what replaces it, and what is added behind; in all of it
/// each call is followed by its result, see [`paired`].
pub fn build_request<'a>(
    header: &EpochHeader,
    history: Vec<Arc<Message>>,
    overlays: impl IntoIterator<Item = &'a Overlay>,
    session: &SessionId,
    signal: CancellationToken,
) -> GenerateRequest {
    let mut shown = history;
    for overlay in overlays {
        match overlay {
            Overlay::Messages(messages) => shown.extend(messages.iter().cloned().map(Arc::new)),
            Overlay::Replacement(messages) => shown = messages.iter().cloned().map(Arc::new).collect(),
        }
    }
    let prefix = header.message_prefix.iter().flatten().cloned().map(Arc::new);
    GenerateRequest {
        config: header.config.clone(),
        messages: prefix.chain(paired(shown)).collect(),
        system: header.system.clone(),
        tools: header.tools.clone().unwrap_or_default(),
        session_id: Some(session.clone()),
        signal,
    }
}

/// The request of a step as its log tells it, equal to the one that was sent; `None` if the log has no such step, or the
/// step failed before its request.
///
/// Walks the whole log.
pub fn rebuild_request(session: &Session, turn: u32, step: u32) -> Option<GenerateRequest> {
    let records = session.records_from(0);
    let start = records
        .iter()
        .position(|it| matches!(&it.fact, Fact::StepStart(start) if start.turn == turn && start.step == step))?;
    let mut headers = HeaderFold::default();
    records[..start].iter().for_each(|it| headers.take(&it.fact));
    let mut overlays = Vec::new();
    for record in &records[start..] {
        match &record.fact {
            Fact::RequestOverlay(it) => overlays.push(&it.overlay),
            Fact::StepEnd(_) => break,
            fact => headers.take(fact),
        }
    }
    let history = session.messages_before(records[start].seq);
    Some(build_request(&*headers.current()?, history, overlays, session.id(), CancellationToken::new()))
}

/// The same messages with each answer's calls followed by their results, in the order of the calls, as endpoints demand it.
///
/// A call without a result gets one that says so, a result without a call is left out, and what stood between a call and
/// its result comes behind it.
pub fn paired(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    if is_paired(&messages) {
        return messages;
    }
    let mut shown = Vec::with_capacity(messages.len() + 1);
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        if message.role != Role::Assistant {
            shown.extend(without_results(message, |_, _| {}));
            continue;
        }
        let calls: Vec<CallId> = calls_of(&message).cloned().collect();
        shown.push(message);
        let mut results = HashMap::new();
        let mut others = Vec::new();
        while let Some(between) = rest.next_if(|it| it.role != Role::Assistant) {
            let keep = |id: &CallId, block| {
                results.entry(id.clone()).or_insert(block);
            };
            others.extend(without_results(between, keep));
        }
        for id in calls {
            let block = results.remove(&id).unwrap_or_else(|| unanswered(id));
            shown.push(Arc::new(Message::user([block])));
        }
        shown.extend(others);
    }
    shown
}

/// Whether each call is followed by its result already, and nothing else is a result.
fn is_paired(messages: &[Arc<Message>]) -> bool {
    let mut open: std::collections::VecDeque<&CallId> = std::collections::VecDeque::new();
    for message in messages {
        for block in &message.content {
            match block {
                ContentBlock::ToolResult { tool_call_id, .. } if open.front() == Some(&tool_call_id) => {
                    open.pop_front();
                }
                ContentBlock::ToolResult { .. } => return false,
                ContentBlock::ToolCall { id, .. } if message.role == Role::Assistant => open.push_back(id),
                _ if !open.is_empty() && message.role != Role::Assistant => return false,
                _ => {}
            }
        }
        if message.role == Role::Assistant && open.len() != calls_of(message).count() {
            return false;
        }
    }
    open.is_empty()
}

fn calls_of(message: &Message) -> impl Iterator<Item = &CallId> {
    message.content.iter().filter_map(|it| match it {
        ContentBlock::ToolCall { id, .. } => Some(id),
        _ => None,
    })
}

/// The message without its results, which `take` gets; nothing if there is nothing else in it.
fn without_results(message: Arc<Message>, mut take: impl FnMut(&CallId, ContentBlock)) -> Option<Arc<Message>> {
    let is_result = |it: &ContentBlock| matches!(it, ContentBlock::ToolResult { .. });
    if !message.content.iter().any(is_result) {
        return Some(message);
    }
    for block in &message.content {
        if let ContentBlock::ToolResult { tool_call_id, .. } = block {
            take(tool_call_id, block.clone());
        }
    }
    let content: Vec<_> = message.content.iter().filter(|it| !is_result(it)).cloned().collect();
    (!content.is_empty()).then(|| Arc::new(Message { role: message.role, content }))
}

fn unanswered(tool_call_id: CallId) -> ContentBlock {
    let content = vec![ContentBlock::text("Error: the call was interrupted; there is no result")];
    ContentBlock::ToolResult { tool_call_id, content, is_error: true }
}

/// The answer with calls whose ids are neither empty nor taken, by a call before it in the answer or in `history`.
pub fn with_own_ids<'a>(answer: &'a Message, history: &[Arc<Message>]) -> Cow<'a, Message> {
    let mut taken: HashSet<&CallId> = HashSet::new();
    let is_own = calls_of(answer).all(|id| !id.as_str().is_empty() && taken.insert(id));
    if is_own && !history.iter().flat_map(|it| calls_of(it)).any(|id| taken.contains(id)) {
        return Cow::Borrowed(answer);
    }
    let mut taken: HashSet<CallId> = history.iter().flat_map(|it| calls_of(it)).cloned().collect();
    let mut answer = answer.clone();
    for block in &mut answer.content {
        let ContentBlock::ToolCall { id, .. } = block else { continue };
        if id.as_str().is_empty() || taken.contains(id) {
            let stem = if id.as_str().is_empty() { "call" } else { id.as_str() };
            *id = (2..)
                .map(|n| CallId::from(format!("{stem}-{n}")))
                .find(|it| !taken.contains(it))
                .expect("there are more numbers than calls");
        }
        taken.insert(id.clone());
    }
    Cow::Owned(answer)
}
