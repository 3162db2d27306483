//! A history as text, for a model that shall sum it up.

use linn_services::model::{ContentBlock, Message, Role};

use crate::digest::middle_cut;

/// The history in about `limit` characters: long messages lose their middle first, then whole messages between the beginning
/// and the end go. How it began and what came last is there in any case, if only in part.
pub(crate) fn transcript<'a>(messages: impl Iterator<Item = &'a Message>, limit: usize) -> String {
    let parts: Vec<String> = messages.map(message).collect();
    if length(&parts) <= limit {
        return parts.join("\n");
    }
    let parts: Vec<String> = parts.iter().map(|it| middle_cut(it, limit / 8, "they are not known")).collect();
    if length(&parts) <= limit {
        return parts.join("\n");
    }
    // A quarter for how it began, the rest for where it stands.
    let n_tail = fitting(parts.iter().rev(), limit - limit / 4);
    let (rest, tail) = parts.split_at(parts.len() - n_tail);
    let n_head = fitting(rest.iter(), limit / 4);
    let (head, gap) = rest.split_at(n_head);
    let cut = |it: Option<&String>, room| it.map(|it| it.chars().take(room).collect::<String>());
    let first = if head.is_empty() { cut(gap.first(), limit / 4) } else { None };
    let last = if tail.is_empty() && gap.len() > 1 { cut(gap.last(), limit - limit / 4) } else { None };
    let n_gone = gap.len() - usize::from(first.is_some()) - usize::from(last.is_some());
    let gone = (n_gone > 0).then(|| format!("[... {n_gone} messages were left out here ...]"));
    let all = head.iter().chain(&first).chain(&gone).chain(&last).chain(tail);
    all.map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Characters of all parts, with the breaks between.
fn length(parts: &[String]) -> usize {
    parts.iter().map(|it| it.chars().count() + 1).sum()
}

/// How many of the parts fit, one after the other.
fn fitting<'a>(parts: impl Iterator<Item = &'a String>, mut room: usize) -> usize {
    let fits = |it: &&String| {
        let length = it.chars().count() + 1;
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    };
    parts.take_while(fits).count()
}

fn message(message: &Message) -> String {
    let who = match message.role {
        Role::System => "System",
        Role::User => "User",
        Role::Assistant => "Assistant",
    };
    let blocks = message.content.iter().map(|it| match it {
        ContentBlock::Text { text } => format!("{who}: {text}"),
        ContentBlock::Reasoning { text, .. } => format!("{who}, thinking: {text}"),
        ContentBlock::ToolCall { id, name, arguments } => format!("{who} calls {name} ({id}): {arguments}"),
        ContentBlock::ToolResult { tool_call_id, content, is_error } => {
            let what = if *is_error { "Error" } else { "Result" };
            format!("{what} of {tool_call_id}: {}", linn_services::model::text_of(content))
        }
        ContentBlock::Image { .. } => format!("{who}: [a picture]"),
        _ => format!("{who}: [something that is no text]"),
    });
    blocks.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use linn_services::model::{ContentBlock, Message};

    use super::transcript;

    #[test]
    fn less_room_makes_a_smaller_transcript_that_keeps_both_ends() {
        let said = |at: usize| Message::user([ContentBlock::text(format!("{at}{}", "x".repeat(at * 7 % 90)))]);
        let messages: Vec<_> = (0..60).map(said).collect();
        let of = |limit| transcript(messages.iter(), limit);
        let whole = of(usize::MAX);
        assert_eq!(whole.lines().count(), 60);
        let mut before = whole.chars().count();
        while before > 200 {
            let text = of(before / 2);
            let n_chars = text.chars().count();
            assert!(n_chars < before, "{n_chars} of {before}");
            assert!(text.starts_with("User: 0") && text.contains("User: 59x"), "{text}");
            before = n_chars;
        }
    }
}
