//! What a streamed chunk costs the processor, from the socket to the assembled answer.
//!
//! `cargo run --release -p linn-plugin-llm-openai --example stream_cost`
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use linn_bus::{Root, TokioRuntime};
use linn_model_server::{Answer, ModelServer};
use linn_plugin_llm_openai::{ChatDecoder, OpenAiConfig, OpenAiPlugin};
use linn_services::llm::wire::{Decoder as _, Endpoint, SseParser};
use linn_services::llm::{Assembler, Llm, LlmPlugin};
use linn_services::model::{ContentBlock, GenerateRequest, LlmCallConfig, Message};
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn std::error::Error>;

/// Chunks of a stream.
const N_CHUNKS: usize = 20_000;

/// How often each is measured; the best round counts, so that a busy machine shows less.
const ROUNDS: usize = 5;

/// Time that this thread had a processor.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn frame(delta: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
    )
}

fn end(reason: &str) -> [String; 2] {
    let usage = "{\"prompt_tokens\":10,\"completion_tokens\":20000}";
    [
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}],\"usage\":{usage}}}\n\n"
        ),
        "data: [DONE]\n\n".to_owned(),
    ]
}

fn text(n_chunks: usize) -> Vec<String> {
    (0..n_chunks).map(|n| frame(&format!("{{\"content\":\"word{} \"}}", n % 100))).chain(end("stop")).collect()
}

/// A call whose arguments, `size` bytes, come in `n_chunks` pieces.
fn arguments(n_chunks: usize, size: usize) -> Vec<String> {
    let piece = "x".repeat(size / n_chunks);
    let call = |rest: String| frame(&format!("{{\"tool_calls\":[{{\"index\":0,{rest}}}]}}"));
    let begin =
        call("\"id\":\"call_a\",\"function\":{\"name\":\"write\",\"arguments\":\"{\\\"a\\\":\\\"\"}".to_owned());
    let more = (0..n_chunks).map(|_| call(format!("\"function\":{{\"arguments\":\"{piece}\"}}")));
    let close = call("\"function\":{\"arguments\":\"\\\"}\"}".to_owned());
    std::iter::once(begin).chain(more).chain(std::iter::once(close)).chain(end("tool_calls")).collect()
}

/// Parsed, decoded and assembled, without a network: what it took, and the bytes of the answer.
fn in_memory(frames: &[String]) -> Result<(Duration, usize), Failure> {
    let begin = busy();
    let (mut sse, mut decoder, mut assembler) = (SseParser::new(), ChatDecoder::new([].into()), Assembler::new());
    let mut out = VecDeque::new();
    for frame in frames {
        sse.feed(frame.as_bytes(), |frame| decoder.frame(frame, &mut out))?;
        for chunk in out.drain(..) {
            assembler.push(&chunk)?;
        }
    }
    decoder.end(&mut out);
    for chunk in out.drain(..) {
        assembler.push(&chunk)?;
    }
    let answer = assembler.finish(&[]);
    Ok((busy() - begin, size(&answer.message)))
}

fn size(message: &Message) -> usize {
    let size = |it: &ContentBlock| match it {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::ToolCall { arguments, .. } => arguments.len(),
        _ => 0,
    };
    message.content.iter().map(size).sum()
}

/// The same over a connection, with an HTTP chunk for each frame.
fn over_a_socket(frames: &[String]) -> Result<(Duration, usize), Failure> {
    let server = ModelServer::start([Answer::stream(frames.to_vec())])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let root = Root::new(TokioRuntime::seams());
        root.mount::<LlmPlugin>(())?.running().await?;
        let config = OpenAiConfig { endpoints: vec![Endpoint::new("here", server.base_url(), ["*"])], transport: None };
        root.mount::<OpenAiPlugin>(config)?.running().await?;
        let llm = root.get::<dyn Llm>().ok_or("nobody asks models")?;
        let messages = vec![Arc::new(Message::user(["hi".into()]))];
        let request = GenerateRequest { config: LlmCallConfig::of_model("m"), messages, ..GenerateRequest::default() };
        let mut stream = llm.stream(Arc::new(request), None).await?;
        let mut assembler = Assembler::new();
        let begin = busy();
        while let Some(chunk) = stream.next().await {
            assembler.push(&chunk?)?;
        }
        let took = busy() - begin;
        Ok((took, size(&assembler.finish(&[]).message)))
    })
}

/// The limit: the bytes read from a connection, and not looked at.
fn bare(frames: &[String]) -> Result<(Duration, usize), Failure> {
    let server = ModelServer::start([Answer::stream(frames.to_vec())])?;
    let base_url = server.base_url();
    let address = base_url.trim_start_matches("http://").trim_end_matches("/v1");
    let mut connection = std::net::TcpStream::connect(address)?;
    connection.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")?;
    let begin = busy();
    let (mut buffer, mut n_bytes) = (vec![0; 8192], 0);
    loop {
        match connection.read(&mut buffer)? {
            0 => return Ok((busy() - begin, n_bytes)),
            n => n_bytes += n,
        }
    }
}

fn row(
    name: &str,
    frames: &[String],
    measure: impl Fn(&[String]) -> Result<(Duration, usize), Failure>,
) -> Result<(), Failure> {
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        best = best.min(measure(frames)?);
    }
    let us = best.0.as_secs_f64() * 1e6 / frames.len() as f64;
    println!("| {name} | {} | {} | {us:.2} |", frames.len(), best.1);
    Ok(())
}

fn main() -> Result<(), Failure> {
    println!("| stream | chunks | bytes | us a chunk |\n|---|--:|--:|--:|");
    let words = text(N_CHUNKS);
    row("text, read and not looked at", &words, bare)?;
    row("text, in memory", &words, in_memory)?;
    row("text, over a socket", &words, over_a_socket)?;
    for n_chunks in [N_CHUNKS / 4, N_CHUNKS / 2, N_CHUNKS] {
        let frames = arguments(n_chunks, n_chunks * 250);
        row("arguments of a call, in memory", &frames, in_memory)?;
        row("arguments of a call, over a socket", &frames, over_a_socket)?;
    }
    Ok(())
}
