//! Server-sent events, from bytes that come in any pieces.

use crate::llm::LlmError;

/// Most bytes that one event may have: 1 MiB.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name after `event:`; empty if there is none.
    pub event: &'a [u8],
    /// The lines after `data:`, put together by line feeds.
    pub data: &'a [u8],
}

/// An event is larger than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_EVENT_BYTES} bytes")]
pub struct EventTooLarge;

impl From<EventTooLarge> for LlmError {
    fn from(error: EventTooLarge) -> Self {
        Self::new("STREAM_LIMIT", error.to_string())
    }
}

/// Cuts bytes into events.
///
/// Lines end with LF, CR or both; comments, `id`, `retry` and unknown fields are passed over, and so is an event without
/// data. An event that came whole in one piece is not copied; buffers are kept from one event to the next.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last piece ended with CR: a LF that comes next belongs to it.
    after_cr: bool,
    is_begun: bool,
}

impl SseParser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a piece in; `on` is given each event that it completes. The first error ends it.
    ///
    /// # Errors
    ///
    /// [`EventTooLarge`], and those of `on`.
    pub fn feed<E: From<EventTooLarge>>(
        &mut self,
        mut bytes: &[u8],
        mut on: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::take(&mut self.after_cr) && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while !bytes.is_empty() {
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.room_in_line(self.line.len() + bytes.len())?;
                self.line.extend_from_slice(bytes);
                break;
            };
            let (line, rest) = bytes.split_at(end);
            bytes = self.after_line_end(rest);
            if self.line.is_empty() {
                bytes = self.take_line(line, bytes, &mut on)?;
            } else {
                self.room_in_line(self.line.len() + line.len())?;
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                bytes = self.take_line(&whole, bytes, &mut on)?;
                whole.clear();
                self.line = whole;
            }
        }
        Ok(())
    }

    /// The stream is over: what was begun counts as complete.
    ///
    /// # Errors
    ///
    /// Those of `on`.
    pub fn finish<E: From<EventTooLarge>>(&mut self, mut on: impl FnMut(Frame<'_>) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, b"", &mut on)?;
        }
        self.dispatch(&mut on)
    }

    /// What follows the line end at the start of `rest`.
    fn after_line_end<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        match rest {
            [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
            [b'\r'] => {
                self.after_cr = true;
                b""
            }
            [_, rest @ ..] => rest,
            [] => rest,
        }
    }

    /// Takes a line without its end, and gives what is left of `rest`, the bytes behind it.
    fn take_line<'a, E: From<EventTooLarge>>(
        &mut self,
        mut line: &[u8],
        rest: &'a [u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<&'a [u8], E> {
        if !std::mem::replace(&mut self.is_begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(on)?;
        } else if let Some(value) = field(line, b"data") {
            self.room(self.data.len() + value.len())?;
            if !self.has_data && matches!(rest, [b'\n' | b'\r', ..]) {
                on(Frame { event: &self.event, data: value })?;
                self.event.clear();
                return Ok(self.after_line_end(rest));
            }
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        } else if let Some(value) = field(line, b"event") {
            self.event.clear();
            self.event.extend_from_slice(value);
        }
        Ok(rest)
    }

    fn dispatch<E>(&mut self, on: &mut impl FnMut(Frame<'_>) -> Result<(), E>) -> Result<(), E> {
        let told = if std::mem::take(&mut self.has_data) {
            on(Frame { event: &self.event, data: &self.data })
        } else {
            Ok(())
        };
        self.event.clear();
        self.data.clear();
        told
    }

    /// Checks the bytes of the event so far.
    fn room(&self, size_bytes: usize) -> Result<(), EventTooLarge> {
        if size_bytes > MAX_EVENT_BYTES { Err(EventTooLarge) } else { Ok(()) }
    }

    /// Checks a line, which has the name of its field beside the data.
    fn room_in_line(&self, size_bytes: usize) -> Result<(), EventTooLarge> {
        self.room(size_bytes.saturating_sub("data: ".len()))
    }
}

/// The value of a line, if it is one of the field `name`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest {
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, EventTooLarge> {
        let mut parser = SseParser::new();
        let mut found = Vec::new();
        let mut on = |frame: Frame<'_>| {
            let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
            found.push((text(frame.event), text(frame.data)));
            Ok::<_, EventTooLarge>(())
        };
        for piece in pieces {
            parser.feed(piece, &mut on)?;
        }
        parser.finish(&mut on)?;
        Ok(found)
    }

    /// The same events come out whole, byte by byte, and cut in two at every place.
    fn check(bytes: &[u8], expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(event, data)| ((*event).to_owned(), (*data).to_owned())).collect();
        assert_eq!(parse(&[bytes]).unwrap(), expected);
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(parse(&single).unwrap(), expected, "byte by byte");
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(parse(&[left, right]).unwrap(), expected, "cut at {at}");
        }
    }

    #[test]
    fn r010_a_blank_behind_the_colon_is_not_needed() {
        check(b"data:a\n\ndata: b\n\ndata:  c\n\n", &[("", "a"), ("", "b"), ("", " c")]);
    }

    #[test]
    fn r011_lines_end_with_lf_cr_or_both() {
        check(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[("", "a"), ("", "b"), ("", "c")]);
        check(b"data: a\r\ndata: b\r\n\r\n", &[("", "a\nb")]);
    }

    #[test]
    fn r012_comments_are_passed_over() {
        check(b": PROCESSING\n\n:\n\n: ping - 1\ndata: a\n:\n\n:\ndata: b\n\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn events_have_names_and_lines_of_data_and_other_fields_do_not_count() {
        check(
            b"event: x\nid: 7\nretry: 9\ndatabase: no\ndata: a\ndata\ndata: b\n\nevent: y\n\ndata: c",
            &[("x", "a\n\nb"), ("", "c")],
        );
    }

    #[test]
    fn a_byte_order_mark_before_the_first_line_does_not_count() {
        check(b"\xEF\xBB\xBFdata: a\n\ndata: \xEF\xBB\xBFb\n\n", &[("", "a"), ("", "\u{feff}b")]);
    }

    #[test]
    fn an_event_past_the_limit_is_an_error_and_is_not_kept() {
        let line = [b"data: ".as_slice(), &[b'x'; MAX_EVENT_BYTES], b"\n\n"].concat();
        assert_eq!(parse(&[&line]).unwrap()[0].1.len(), MAX_EVENT_BYTES);
        assert_eq!(parse(&line.chunks(1000).collect::<Vec<_>>()).unwrap()[0].1.len(), MAX_EVENT_BYTES);
        let mut long = line.clone();
        long.insert(6, b'x');
        assert_eq!(parse(&[&long]), Err(EventTooLarge));
        let pieces: Vec<&[u8]> = long.chunks(1000).collect();
        assert_eq!(parse(&pieces), Err(EventTooLarge));
        let lines = [&b"data: "[..], &[b'x'; 600_000], b"\ndata: ", &[b'x'; 600_000], b"\n\n"].concat();
        assert_eq!(parse(&[&lines]), Err(EventTooLarge));
        let comment = [b":".as_slice(), &[b'x'; MAX_EVENT_BYTES + 10]].concat();
        assert_eq!(parse(&[&comment]), Err(EventTooLarge));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_what_they_give_whole(
            bytes in proptest::collection::vec(proptest::sample::select(&b"data: event\r\n\r\n:x"[..]), 0..200),
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().filter(|it| *it <= bytes.len()).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut from = 0;
            let mut pieces = Vec::new();
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            proptest::prop_assert_eq!(parse(&pieces), parse(&[&bytes]));
        }
    }
}
