//! Where a value came from: the layer it stands in, and the place within it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// One layer of the configuration. A later one wins, so they compare by precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// What the program was built with.
    BuiltIn,
    /// Files, variables and flags of existing clients, which have a precedence of their own among themselves.
    Client,
    /// `~/.config/linn/linn.toml` and what it includes.
    User,
    /// `<workspace>/.linn/linn.toml` and what it includes: only what a repository may set.
    Workspace,
    /// Variables `LINN_*`.
    Environment,
    /// `--set` and its like.
    CommandLine,
    /// Changed while the program runs, by a command of a client.
    Runtime,
}

impl Layer {
    /// What the layer is called in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Client => "client",
            Self::User => "user",
            Self::Workspace => "workspace",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
            Self::Runtime => "runtime",
        }
    }
}

/// The place within a layer where something is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// The program itself.
    BuiltIn,
    /// A file. Lines and columns count from 1, columns in characters.
    File {
        /// The file as it was asked for.
        path: Arc<Path>,
        /// Line of the value, or of the key where there is no value.
        line: u32,
        /// Column in that line.
        column: u32,
    },
    /// An environment variable.
    Variable(Arc<str>),
    /// A command line flag, with its dashes.
    Flag(Arc<str>),
    /// A command of a client, such as `set_config`.
    Command(Arc<str>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
            Self::Command(name) => write!(f, "command {name}"),
        }
    }
}

/// A layer and a place in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The layer, which decides who wins.
    pub layer: Layer,
    /// Where in it.
    pub place: Place,
}

impl Origin {
    pub(crate) fn new(layer: Layer, place: Place) -> Self {
        Self { layer, place }
    }

    pub(crate) fn built_in() -> Self {
        Self::new(Layer::BuiltIn, Place::BuiltIn)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::BuiltIn => write!(f, "{}", self.place),
            _ => write!(f, "{} ({})", self.place, self.layer.name()),
        }
    }
}

/// Turns byte offsets of a text into places of a file.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    path: Arc<Path>,
    text: &'a str,
    /// Offsets at which lines begin.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(path: &Path, text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { path: Arc::from(path), text, starts }
    }

    /// The place at byte `offset`; past the end is the end.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= offset);
        let column = self.text[self.starts[line - 1]..offset].chars().count() + 1;
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        Place::File { path: self.path.clone(), line: number(line), column: number(column) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let lines = Lines::new(Path::new("a"), "é = 1\r\nbc");
        let at = |offset| match lines.place(offset) {
            Place::File { line, column, .. } => (line, column),
            other => panic!("{other}"),
        };
        assert_eq!([at(0), at(1), at(2), at(8), at(9), at(99)], [(1, 1), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]);
    }

    #[test]
    fn layers_compare_by_precedence() {
        use Layer::{BuiltIn, Client, CommandLine, Environment, Runtime, User, Workspace};
        assert!([BuiltIn, Client, User, Workspace, Environment, CommandLine, Runtime].is_sorted());
    }
}
