//! What the model reads of an output.

use linn_services::secrets::SecretKeeper;
use linn_services::shell::{Captured, ShellOutput};

use crate::flow::whole_characters;

/// Between the two outputs.
const SEPARATOR: &str = "\n--- stderr ---\n";

/// Room for a marker and the notes behind the output, without paths.
const WORDS_BYTES: usize = 256;

/// A file that holds an output, and how many bytes of it.
pub(crate) type KeptFile = Option<(String, u64)>;

/// The text of both outputs, of at most about `limit_bytes` bytes, cut in the middle where it is too long.
pub(crate) fn show(output: &ShellOutput, files: [KeptFile; 2], limit_bytes: usize, secrets: &SecretKeeper) -> String {
    let (mut stdout, mut stderr) = (Part::new(&output.stdout, secrets), Part::new(&output.stderr, secrets));
    let is_cut = |it: &Part| it.omitted_bytes > 0;
    if is_cut(&stdout) || is_cut(&stderr) || stdout.len() + stderr.len() > limit_bytes {
        let paths: usize = files.iter().flatten().map(|(path, _)| 2 * path.len()).sum();
        let room = limit_bytes.saturating_sub(2 * WORDS_BYTES + paths);
        let of_stderr = stderr.len().min((room / 2).max(room.saturating_sub(stdout.len())));
        stdout = stdout.cut_to(room - of_stderr);
        stderr = stderr.cut_to(of_stderr);
    }
    let [stdout_file, stderr_file] = files;
    let (stdout, stderr) = (stdout.text(stdout_file), stderr.text(stderr_file));
    match (stdout.is_empty(), stderr.is_empty()) {
        (true, true) => "(no output)".to_owned(),
        (false, true) => stdout,
        _ => format!("{stdout}{SEPARATOR}{stderr}"),
    }
}

/// One output as text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    head: String,
    tail: String,
    omitted_bytes: u64,
}

impl Part {
    fn new(captured: &Captured, secrets: &SecretKeeper) -> Self {
        let Captured { head, tail, omitted_bytes } = captured;
        let text = |bytes: &[u8]| secrets.redact(String::from_utf8_lossy(bytes)).into_owned();
        if *omitted_bytes == 0 {
            return Self { head: text(head), tail: String::new(), omitted_bytes: 0 };
        }
        // What was left out took parts of characters with it.
        let head_end = whole_characters(head);
        let tail_start = tail.iter().take(3).take_while(|it| **it & 0b1100_0000 == 0b1000_0000).count();
        let torn = (head.len() - head_end + tail_start) as u64;
        let (head, tail) = (text(&head[..head_end]), text(&tail[tail_start..]));
        Self { head, tail, omitted_bytes: omitted_bytes + torn }
    }

    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The same in at most `room` bytes: half of them from the beginning, half from the end.
    fn cut_to(self, room: usize) -> Self {
        if self.len() <= room {
            return self;
        }
        let Self { mut head, mut tail, omitted_bytes } = self;
        let before = head.len() + tail.len();
        if omitted_bytes == 0 {
            tail.clone_from(&head);
        }
        let of_tail = (room / 2).min(tail.len());
        tail.drain(..tail.ceil_char_boundary(tail.len() - of_tail));
        head.truncate(head.floor_char_boundary(room - tail.len()));
        let omitted_bytes = omitted_bytes + (before - head.len() - tail.len()) as u64;
        Self { head, tail, omitted_bytes }
    }

    fn text(self, file: KeptFile) -> String {
        if self.omitted_bytes == 0 {
            return self.head;
        }
        let shown = self.len() as u64;
        let total = shown + self.omitted_bytes;
        let line_end = if self.head.is_empty() || self.head.ends_with('\n') { "" } else { "\n" };
        let place = file.map_or_else(String::new, |(path, n_bytes)| {
            let what = if n_bytes < total { format!("the first {n_bytes} bytes are") } else { "all of it is".into() };
            let next = self.head.len() + 1;
            format!("; {what} in {path}, the next part: tail -c +{next} {path} | head -c 16384")
        });
        format!("{}{line_end}...[{shown} of {total} bytes shown{place}]...\n{}", self.head, self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;

    fn shown(stdout: &[u8], stderr: &[u8], limit: usize) -> String {
        let capture = |bytes: &[u8]| {
            let mut capture = Capture::new(limit);
            bytes.chunks(7_000).for_each(|it| capture.push(it));
            capture.finish()
        };
        let output = ShellOutput { stdout: capture(stdout), stderr: capture(stderr), ..ShellOutput::default() };
        show(&output, [None, None], limit, &SecretKeeper::new())
    }

    #[test]
    fn both_outputs_are_told_apart_as_the_protocol_says() {
        assert_eq!(shown(b"out\n", b"err\n", 100), "out\n\n--- stderr ---\nerr\n");
        assert_eq!(shown(b"", b"err\n", 100), "\n--- stderr ---\nerr\n");
        assert_eq!(shown(b"out", b"", 100), "out");
        assert_eq!(shown(b"", b"", 100), "(no output)");
    }

    #[test]
    fn r120_a_cut_never_falls_into_a_character() {
        for character in ["\u{4e2d}", "\u{1f642}"] {
            let stdout = format!("{}{character}{}", "a".repeat(29_999), "b".repeat(10));
            for limit in 29_998..=30_003 {
                let text = shown(stdout.as_bytes(), b"", limit);
                assert!(!text.contains('\u{fffd}') && text.len() <= limit, "{limit}: {}", text.len());
                let (head, rest) = text.split_once("\n...[").unwrap();
                let (marker, tail) = rest.split_once("]...\n").unwrap();
                assert!(stdout.starts_with(head) && stdout.ends_with(tail));
                assert_eq!(marker, format!("{} of {} bytes shown", head.len() + tail.len(), stdout.len()));
            }
            // The same where nothing but such characters comes, so that both cuts want to fall into one.
            let stdout = character.repeat(20_000);
            for limit in 29_998..=30_003 {
                let text = shown(stdout.as_bytes(), b"", limit);
                let kept: usize = text.matches(character).count() * character.len();
                assert!(!text.contains('\u{fffd}'));
                assert!(text.contains(&format!("...[{kept} of {} bytes shown]...", stdout.len())), "{limit}");
            }
        }
    }

    #[test]
    fn r121_raw_bytes_become_text_and_nothing_else_changes() {
        let text = shown(b"a\0b\xffc\x1b[2J\x1b]0;title\x07d\r\ne", b"", 1_000);
        assert_eq!(text, "a\0b\u{fffd}c\u{1b}[2J\u{1b}]0;title\u{7}d\r\ne");
        let line = serde_json::to_string(&text).unwrap();
        assert!(
            line.contains(r"a\u0000b") && line.contains(r"\u001b[2J") && line.bytes().all(|it| it >= b' '),
            "{line}"
        );
    }

    #[test]
    fn bytes_that_are_no_text_do_not_grow_past_the_limit() {
        let text = shown(&[0xff; 100_000], &[0xfe; 100_000], 10_000);
        assert!(text.len() <= 10_000, "{}", text.len());
    }

    #[test]
    fn each_output_gets_its_share() {
        let text = shown(&[b'o'; 50_000], b"the error", 10_000);
        assert!(text.len() <= 10_000 && text.ends_with("\n--- stderr ---\nthe error"));
        let text = shown(&[b'o'; 50_000], &[b'e'; 50_000], 10_000);
        let (stdout, stderr) = text.split_once("--- stderr ---").unwrap();
        assert!(text.len() <= 10_000 && stdout.len() > 4_000 && stderr.len() > 4_000);
    }

    #[test]
    fn r122_the_marker_says_how_to_read_the_rest_by_bytes() {
        let output = ShellOutput {
            stdout: Captured { head: b"abc".to_vec(), tail: b"xyz".to_vec(), omitted_bytes: 94 },
            ..ShellOutput::default()
        };
        let file = Some(("/tmp/1.txt".to_owned(), 100));
        let text = show(&output, [file, None], 1_000, &SecretKeeper::new());
        assert_eq!(
            text,
            "abc\n...[6 of 100 bytes shown; all of it is in /tmp/1.txt, the next part: tail -c +4 /tmp/1.txt | head -c 16384]...\nxyz"
        );
    }
}
