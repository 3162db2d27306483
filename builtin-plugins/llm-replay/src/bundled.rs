//! Recordings that are part of the program.

/// A recording that is part of a program: `include_str!` gives its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundled {
    /// The name behind `replay:`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The recordings that come with this plugin.
pub const BUNDLED: &[Bundled] = &[Bundled { name: "hello", text: include_str!("../recordings/hello.jsonl") }];
