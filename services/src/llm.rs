//! Language models: who can be asked, and how an answer is put together.

mod registry;

pub use registry::{Adapter, ChunkStream, Llm, LlmError};
