//! Language models: who can be asked, and how an answer is put together.

mod assembler;
mod provider;
mod registry;
mod stream;
pub mod wire;
mod wires;

pub use assembler::{Answer, Assembler, MAX_ANSWER_BYTES, MAX_ARGUMENTS_BYTES};
pub use provider::LlmPlugin;
pub use registry::{Adapter, CONTEXT_LENGTH, ChunkStream, Llm, LlmError, Wire};
