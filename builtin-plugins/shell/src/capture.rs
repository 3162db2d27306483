//! The beginning and the end of an output, in bounded memory.

use std::collections::VecDeque;

use linn_services::shell::Captured;

/// Keeps the beginning and the end of what it is given, and counts the rest.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    /// Keeps `limit_bytes`, half of them for the end.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let tail_limit = limit_bytes / 2;
        let head_limit = limit_bytes - tail_limit;
        Self { head: Vec::new(), head_limit, tail: VecDeque::new(), tail_limit, total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let too_many = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..too_many);
        self.tail.extend(rest);
    }

    pub(crate) fn finish(self) -> Captured {
        let Self { mut head, tail, total, .. } = self;
        let omitted_bytes = total - (head.len() + tail.len()) as u64;
        if omitted_bytes == 0 {
            head.extend(tail);
            return Captured { head, ..Captured::default() };
        }
        Captured { head, tail: tail.into(), omitted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_is_kept_whole() {
        let mut capture = Capture::new(5);
        capture.push(b"abc");
        capture.push(b"de");
        assert_eq!(capture.finish(), Captured { head: b"abcde".to_vec(), ..Captured::default() });
    }

    #[test]
    fn r122_fifty_mebibytes_without_a_line_feed_take_no_more_than_the_limit() {
        let mut capture = Capture::new(1_000);
        let piece = [b'x'; 65_536];
        for _ in 0..800 {
            capture.push(&piece);
            assert!(capture.head.capacity() + capture.tail.capacity() <= 4_096);
        }
        let kept = capture.finish();
        assert_eq!((kept.head.len(), kept.tail.len(), kept.omitted_bytes), (500, 500, 52_428_800 - 1_000));
    }

    proptest! {
        #[test]
        fn the_ends_are_the_same_however_the_output_comes(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..12),
            limit in 0_usize..60,
        ) {
            let mut capture = Capture::new(limit);
            pieces.iter().for_each(|it| capture.push(it));
            let all = pieces.concat();
            let kept = capture.finish();
            if all.len() <= limit {
                prop_assert_eq!(kept, Captured { head: all, ..Captured::default() });
            } else {
                let (head, tail) = (limit - limit / 2, limit / 2);
                prop_assert_eq!(&kept.head[..], &all[..head]);
                prop_assert_eq!(&kept.tail[..], &all[all.len() - tail..]);
                prop_assert_eq!(kept.omitted_bytes, (all.len() - limit) as u64);
            }
        }
    }
}
