//! The declaration of a key: the one place that knows its name, type, default and who may set it.

use std::fmt::Write as _;
use std::marker::PhantomData;

use crate::value::{Choice, Value};

/// Who may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Who {
    /// Everybody, also the files of a repository.
    Repository,
    /// The user: files outside repositories, variables, the command line, commands.
    User,
    /// Whoever starts the program, by a variable or the command line: no file at all.
    Start,
}

impl Who {
    /// The word for it in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::User => "user",
            Self::Start => "start",
        }
    }
}

/// What values a key has.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number between two, both included.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A number between two.
    Number {
        /// The least.
        min: f64,
        /// Whether the least itself is left out.
        is_open: bool,
        /// The greatest.
        max: f64,
    },
    /// Text that is not empty.
    Text,
    /// A path; a relative one begins in the folder that `base` names.
    Path {
        /// That folder.
        base: Base,
    },
    /// One of these names.
    Choice {
        /// The names.
        choices: &'static [Choice],
        /// What existing clients mean by any other.
        otherwise: Option<&'static str>,
    },
    /// Texts. Of existing clients also one text with commas.
    List,
    /// Rules about calls, as `tool` or `tool(pattern)`; otherwise like a list of texts. One that is neither is kept, so that
    /// whoever heeds the rules can be on the safe side.
    Rules,
    /// A text that is never shown.
    Secret,
    /// A table of texts that are never shown; layers are merged by name.
    Secrets,
    /// Providers; layers are merged by their names.
    Providers,
    /// A table whose fields belong to someone else.
    Table,
}

/// Where a relative path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The folder that the program was started in.
    Start,
    /// The workspace.
    Workspace,
}

/// The value of a key that nobody set.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Initial {
    /// None.
    Absent,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// Text, a path, or a choice.
    Text(&'static str),
    /// Texts.
    List(&'static [&'static str]),
}

/// What existing clients call a key.
#[derive(Debug, Clone, Copy)]
pub struct ClientNames {
    /// Paths in their JSON files; of several in one file the last wins, and lists are joined.
    pub keys: &'static [&'static str],
    /// The flag with its dashes. It has a value unless the key is a [`Kind::Bool`].
    pub flag: Option<&'static str>,
    /// The flag that sets `false`.
    pub opposite_flag: Option<&'static str>,
    /// The environment variable.
    pub variable: Option<&'static str>,
    /// The key that the command `set_config` knows it by.
    pub command: Option<&'static str>,
}

/// Everything about a key but its Rust type.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// Path in `linn.toml`, with dots.
    pub name: &'static str,
    /// What it is for, in Markdown.
    pub doc: &'static str,
    /// What values it has.
    pub kind: Kind,
    /// Its value when nobody sets it.
    pub initial: Initial,
    /// Who may set it.
    pub who: Who,
    /// What existing clients call it.
    pub client: ClientNames,
}

impl Declaration {
    pub(crate) const fn new(name: &'static str, kind: Kind, initial: Initial) -> Self {
        let client = ClientNames { keys: &[], flag: None, opposite_flag: None, variable: None, command: None };
        Self { name, doc: "", kind, initial, who: Who::User, client }
    }

    pub(crate) const fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    pub(crate) const fn client(mut self, keys: &'static [&'static str]) -> Self {
        self.client.keys = keys;
        self
    }

    pub(crate) const fn flag(mut self, flag: &'static str) -> Self {
        self.client.flag = Some(flag);
        self
    }

    pub(crate) const fn opposite_flag(mut self, flag: &'static str) -> Self {
        self.client.opposite_flag = Some(flag);
        self
    }

    pub(crate) const fn variable(mut self, variable: &'static str) -> Self {
        self.client.variable = Some(variable);
        self
    }

    pub(crate) const fn command(mut self, key: &'static str) -> Self {
        self.client.command = Some(key);
        self
    }

    const fn documented(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// The variable that sets the key in the environment layer: `LINN_SHELL_TIMEOUT_SECS` for `shell.timeout_secs`.
    pub fn linn_variable(&self) -> String {
        format!("LINN_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Whether values of the key are never shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret | Kind::Secrets)
    }

    /// What a value of the key is, as a phrase: `a whole number from 1 to 16`.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Bool => "`true` or `false`".to_owned(),
            Kind::Integer { min: 0, max: u64::MAX } => "a whole number".to_owned(),
            Kind::Integer { min, max: u64::MAX } => format!("a whole number from {min} on"),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Number { min, is_open: true, max } => format!("a number above {min}, up to {max}"),
            Kind::Number { min, is_open: false, max } => format!("a number from {min} to {max}"),
            Kind::Text => "text that is not empty".to_owned(),
            Kind::Path { .. } => "a path".to_owned(),
            Kind::Choice { choices, .. } => {
                let mut text = "one of ".to_owned();
                for (at, choice) in choices.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{comma}`{}`", choice.name);
                }
                text
            }
            Kind::List => "a list of texts".to_owned(),
            Kind::Rules => "a list of rules, each `tool` or `tool(pattern)`, such as `bash(git *)`".to_owned(),
            Kind::Secret => "text that is not empty, which is never shown".to_owned(),
            Kind::Secrets => "a table of texts, which are never shown".to_owned(),
            Kind::Providers => "a list of providers, each with a `name` and a `base_url`".to_owned(),
            Kind::Table => "a table".to_owned(),
        }
    }

    /// How to set a key that no file may set.
    pub(crate) fn at_start(&self) -> String {
        let mut ways: Vec<String> = self.client.flag.iter().map(|it| format!("`{it}`")).collect();
        ways.push(format!("`--set {}=..`", self.name));
        ways.push(format!("`{}`", self.linn_variable()));
        ways.extend(self.client.variable.map(|it| format!("`{it}`")));
        format!("set it at the start by {}", ways.join(", "))
    }

    pub(crate) fn initial_value(&self) -> Value {
        match (self.initial, self.kind) {
            (Initial::Absent, Kind::Secrets) => Value::Secrets(indexmap::IndexMap::new()),
            (Initial::Absent, Kind::Providers) => Value::Providers(Vec::new()),
            (Initial::Absent, Kind::Table) => Value::Table(serde_json::Value::Object(serde_json::Map::new())),
            (Initial::Absent, _) => Value::Absent,
            (Initial::Bool(it), _) => Value::Bool(it),
            (Initial::Integer(it), _) => Value::Integer(it),
            (Initial::Number(it), _) => Value::Number(it),
            (Initial::Text(it), Kind::Path { .. }) => Value::Path(it.into()),
            (Initial::Text(it), _) => Value::Text(it.to_owned()),
            (Initial::List(it), _) => Value::List(it.iter().map(|&it| it.to_owned()).collect()),
        }
    }
}

/// A key whose values are read as `T`.
#[derive(Debug)]
pub struct Key<T> {
    pub(crate) declaration: Declaration,
    read_as: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    pub(crate) const fn new(doc: &'static str, declaration: Declaration) -> Self {
        Self { declaration: declaration.documented(doc), read_as: PhantomData }
    }

    /// What is declared of it.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }
}
