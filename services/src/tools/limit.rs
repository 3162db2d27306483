//! How much of a result reaches the model and the front ends.

use std::fmt::Write;

use crate::model::ContentBlock;

/// How many bytes of text one result has at most.
pub const RESULT_LIMIT_BYTES: usize = 24 * 1024;

/// Part of the limit that lines saved from what is cut off may take: one in so many.
const SALVAGE_PART: usize = 6;

/// How many bytes of one saved line are kept.
const SALVAGED_LINE_BYTES: usize = 300;

/// Room for the longest marker.
const MARKER_BYTES: usize = 192;

/// What makes a line worth saving.
const ALARMING: &[&str] = &["error", "warning", "fatal", "panicked", "failed", "exception", "traceback"];

/// The content with its text within the limit: [`limit_text`] of all its text, if that is too long. Other blocks stay.
///
/// This is the one place where results of tools are cut for their size; a tool that can give its result in pages does so.
pub fn limit_content(content: Vec<ContentBlock>, limit_bytes: usize) -> Vec<ContentBlock> {
    let texts: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
    if texts.iter().map(|it| it.len()).sum::<usize>() <= limit_bytes {
        return content;
    }
    let mut text = Some(limit_text(&texts.join("\n"), limit_bytes).into_owned());
    let replaced = content.into_iter().filter_map(|block| match block {
        // The first text block stands for all of them.
        ContentBlock::Text { .. } => text.take().map(|text| ContentBlock::Text { text }),
        other => Some(other),
    });
    replaced.collect()
}

/// The end of a text that is longer than the limit, behind a marker that says how much was left out. Lines of the part
/// that was cut off that speak of errors or warnings are saved ahead of the marker.
///
/// The result has at most `limit_bytes` bytes, unless that is too little for the marker.
pub fn limit_text(text: &str, limit_bytes: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= limit_bytes {
        return text.into();
    }
    let room = limit_bytes.saturating_sub(MARKER_BYTES);
    let longest_tail = &text[text.ceil_char_boundary(text.len() - room)..];
    let saved = salvage(&text[..text.len() - longest_tail.len()], room / SALVAGE_PART);
    let saved_bytes: usize = saved.iter().map(|it| it.len() + 1).sum();
    let tail = &longest_tail[longest_tail.ceil_char_boundary(saved_bytes.min(longest_tail.len()))..];

    let mut limited = String::with_capacity(limit_bytes);
    for line in &saved {
        limited.push_str(line);
        limited.push('\n');
    }
    let last_kb = tail.len() / 1024;
    let marker = if saved.is_empty() {
        format!("...[output truncated, showing last {last_kb}KB]...")
    } else {
        let n = saved.len();
        format!("...[output truncated: {n} salvaged error/warning line(s) from the head + last {last_kb}KB]...")
    };
    let shown = saved_bytes + tail.len();
    write!(limited, "{marker} [{shown} of {} bytes]\n{tail}", text.len()).expect("a string takes all that is written");
    limited.into()
}

/// The first lines that speak of errors or warnings, as many as have room.
fn salvage(head: &str, mut room: usize) -> Vec<&str> {
    let mut saved = Vec::new();
    for line in head.lines().filter(|it| is_alarming(it)) {
        let line = &line[..line.floor_char_boundary(SALVAGED_LINE_BYTES.min(line.len()))];
        let Some(left) = room.checked_sub(line.len() + 1) else { break };
        room = left;
        saved.push(line);
    }
    saved
}

fn is_alarming(line: &str) -> bool {
    // A line as long as a file is no message, and is not looked through to its end.
    let line = &line.as_bytes()[..line.len().min(4096)];
    let has = |word: &str| line.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    ALARMING.iter().any(|word| has(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_stays() {
        assert_eq!(limit_text("error: x", 8), "error: x");
        let content = vec![ContentBlock::text("a"), ContentBlock::text("b")];
        assert_eq!(limit_content(content.clone(), 2), content);
    }

    #[test]
    fn the_end_stays_behind_a_marker() {
        let text = "x".repeat(100_000) + "the end";
        let limited = limit_text(&text, RESULT_LIMIT_BYTES);
        assert!(limited.len() <= RESULT_LIMIT_BYTES, "{}", limited.len());
        let (marker, tail) = limited.split_once('\n').unwrap();
        assert_eq!(marker, format!("...[output truncated, showing last 23KB]... [{} of 100007 bytes]", tail.len()));
        assert!(tail.ends_with("xthe end"));
    }

    #[test]
    fn errors_of_the_head_are_saved_ahead_of_the_marker() {
        let text =
            format!("fine\nsrc/a.rs: ERROR one\n{}Warning: two\n{}", "line\n".repeat(10), "line\n".repeat(20_000));
        let limited = limit_text(&text, RESULT_LIMIT_BYTES);
        assert!(limited.len() <= RESULT_LIMIT_BYTES);
        let marker = "...[output truncated: 2 salvaged error/warning line(s) from the head + last 23KB]...";
        let expected = format!("src/a.rs: ERROR one\nWarning: two\n{marker} [");
        assert!(limited.starts_with(&expected), "{}", &limited[..200]);
        assert!(limited.ends_with("line\nline\n"));
    }

    #[test]
    fn saved_lines_take_their_part_and_no_more() {
        let long = format!("error {}\n", "y".repeat(5_000));
        let text = long.repeat(40) + &"line\n".repeat(20_000);
        let limited = limit_text(&text, RESULT_LIMIT_BYTES);
        assert!(limited.len() <= RESULT_LIMIT_BYTES);
        let saved = limited.split("...[").next().unwrap();
        assert!(saved.len() <= RESULT_LIMIT_BYTES / SALVAGE_PART, "{}", saved.len());
        assert!(saved.lines().count() > 5 && saved.lines().all(|it| it.len() == SALVAGED_LINE_BYTES));
    }

    #[test]
    fn r108_a_result_of_five_mebibytes_is_cut_before_anybody_stores_it() {
        let block = ContentBlock::text("word ".repeat(1024 * 1024));
        let picture = ContentBlock::Image { url: "data:,".into() };
        let limited = limit_content(vec![block.clone(), picture.clone(), block], RESULT_LIMIT_BYTES);
        let [text, kept] = &limited[..] else { panic!("{} blocks", limited.len()) };
        assert_eq!(*kept, picture);
        let text = text.as_text().unwrap();
        assert!(text.len() <= RESULT_LIMIT_BYTES && text.contains("of 10485761 bytes]\n"), "{}", &text[..200]);
    }

    #[test]
    fn r120_a_cut_never_falls_into_a_character() {
        for character in ['\u{4e2d}', '\u{1f642}'] {
            for n_before in 0..12 {
                let text = format!("{}{}{}", "a".repeat(n_before), character.to_string().repeat(12_000), "b");
                for limit in 29_998..=30_003 {
                    let limited = limit_text(&text, limit);
                    assert!(limited.len() <= limit);
                    let (marker, tail) = limited.split_once('\n').unwrap();
                    assert!(text.ends_with(tail) && tail.ends_with('b'));
                    assert!(marker.ends_with(&format!("[{} of {} bytes]", tail.len(), text.len())), "{marker}");
                }
            }
        }
    }
}
