//! What a chunk costs, in counts that hold on every machine.
//!
//! Each test counts what its own thread allocates, so tests beside it do not matter.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

use linn_plugin_llm_openai::ChatDecoder;
use linn_services::llm::wire::{Decoder as _, Frame, SseParser};
use linn_services::llm::{Answer, Assembler};
use linn_services::model::ContentBlock;

struct Counting;

thread_local! {
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: every call goes to the system allocator unchanged; the counter is a plain thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (times, bytes) = COUNT.get();
        COUNT.set((times + 1, bytes + layout.size()));
        // SAFETY: by the contract of this method.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this method.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn frame(delta: &str) -> String {
    format!("data: {{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n")
}

/// How often was allocated, and how many bytes, for parsing, decoding and assembling these bytes, which come in pieces of
/// `piece` bytes; and what came of it.
fn cost(bytes: &[u8], piece: usize) -> ((usize, usize), Answer) {
    let before = COUNT.get();
    let (mut sse, mut decoder, mut assembler) = (SseParser::new(), ChatDecoder::new([].into()), Assembler::new());
    let mut out = VecDeque::new();
    for piece in bytes.chunks(piece) {
        sse.feed(piece, |it: Frame<'_>| decoder.frame(it, &mut out)).unwrap();
        out.drain(..).for_each(|it| assembler.push(&it).unwrap());
    }
    decoder.end(&mut out);
    out.drain(..).for_each(|it| assembler.push(&it).unwrap());
    let answer = assembler.finish(&[]);
    let after = COUNT.get();
    ((after.0 - before.0, after.1 - before.1), answer)
}

/// A call whose arguments come in this many pieces of 250 bytes.
fn arguments(n_pieces: usize) -> Vec<u8> {
    let more =
        frame(&format!("{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{}\"}}}}]}}", "x".repeat(250)));
    let begin =
        "{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"function\":{\"name\":\"write\",\"arguments\":\"\"}}]}";
    [frame(begin), more.repeat(n_pieces)].concat().into_bytes()
}

#[test]
fn r024_five_megabytes_of_arguments_in_20_000_pieces_cost_in_proportion() {
    // Whole frames, and pieces that end anywhere.
    for piece in [usize::MAX, 1400] {
        let ((half_times, half_bytes), _) = cost(&arguments(10_000), piece);
        let ((times, bytes), answer) = cost(&arguments(20_000), piece);
        let [ContentBlock::ToolCall { arguments, .. }] = &answer.message.content[..] else { panic!("{answer:?}") };
        assert_eq!(arguments.len(), 5_000_000);
        assert!(times * 10 <= half_times * 21, "{half_times} allocations for half of it, {times} for all");
        // Buffers that double make up to two more of the answer itself.
        assert!(bytes <= half_bytes * 2 + 10_000_000, "{half_bytes} bytes for half of it, {bytes} for all");
    }
}

#[test]
fn a_chunk_of_text_is_allocated_but_a_few_times() {
    let bytes = frame("{\"content\":\"word \"}").repeat(1000).into_bytes();
    let ((times, _), answer) = cost(&bytes, usize::MAX);
    assert_eq!(linn_services::model::text_of(&answer.message.content).len(), 5000);
    // The choices of the frame, and the text that is passed on.
    assert!(times <= 2 * 1000 + 50, "{times} allocations for 1000 chunks");
}
