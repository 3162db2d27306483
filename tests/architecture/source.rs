//! A Rust file as the rules see it: its tokens, without comments, each knowing its line and whether it is test code.
//!
//! Rules look at tokens because lines lie: a comment, a string or a doc text may name what the code does not use.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// What a file is for, which decides the rules that hold in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Code that ships: libraries, programs, build scripts.
    Product,
    /// Integration tests and the out-of-line test modules of a crate.
    Test,
    /// Benchmarks.
    Bench,
    /// Examples.
    Example,
}

/// One token; a group is flattened to its two brackets and what is between them.
#[derive(Debug)]
pub(crate) struct Token {
    /// An identifier, a literal, a bracket or a punctuation mark; `::` is one token.
    pub(crate) text: String,
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// Whether the token belongs to an item under `#[cfg(test)]` or `#[test]`, or to a file of tests.
    pub(crate) in_test: bool,
    /// Whether it can be a part of a path: an identifier or a keyword.
    pub(crate) is_ident: bool,
}

/// A path of the code, `use` trees spelled out: `use std::{fs, io::Read}` gives `std::fs` and `std::io::Read`.
#[derive(Debug)]
pub(crate) struct CodePath {
    /// The segments, joined by `::`.
    pub(crate) text: String,
    /// Line of the last segment.
    pub(crate) line: usize,
    /// As in [`Token::in_test`].
    pub(crate) in_test: bool,
}

/// A Rust file of the repository.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Path from the top of the repository, with `/`.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
    /// What the file is for.
    pub(crate) role: Role,
    /// The tokens in order.
    pub(crate) tokens: Vec<Token>,
}

impl SourceFile {
    /// Reads `text` as Rust.
    ///
    /// # Panics
    ///
    /// If `text` has no tokens in the sense of Rust's lexer, such as an open bracket that is never closed.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let role = role_of(path);
        let stream: TokenStream = match text.parse() {
            Ok(stream) => stream,
            Err(error) => panic!("{path} is no Rust: {error}"),
        };
        let mut tokens = Vec::new();
        flatten(stream, role == Role::Test, &mut tokens);
        join_path_separators(&mut tokens);
        Self { path: path.to_owned(), text: text.to_owned(), role, tokens }
    }

    /// Whether the file is the module `module`, or below it; `bus/src/frames` covers `frames.rs` and `frames/*`.
    pub(crate) fn is_within(&self, module: &str) -> bool {
        self.path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
    }

    /// Every path of the code.
    pub(crate) fn paths(&self) -> Vec<CodePath> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if self.tokens[at].is_ident {
                at = self.tree(at, "", &mut found);
            } else {
                at += 1;
            }
        }
        found
    }

    /// Reads one path or `use` tree from token `at` on; returns the place behind it.
    fn tree(&self, mut at: usize, prefix: &str, found: &mut Vec<CodePath>) -> usize {
        let mut path = prefix.to_owned();
        while let Some(token) = self.tokens.get(at) {
            if token.is_ident || token.text == "*" {
                if !path.is_empty() {
                    path.push_str("::");
                }
                path.push_str(&token.text);
                at += 1;
                let next = |offset: usize| self.tokens.get(at + offset);
                let goes_on = next(0).is_some_and(|it| it.text == "::")
                    && next(1).is_some_and(|it| it.is_ident || it.text == "{" || it.text == "*");
                if goes_on {
                    at += 1;
                    continue;
                }
                found.push(CodePath { text: path, line: token.line, in_test: token.in_test });
                return at;
            }
            // Only `{` of a tree is left: `goes_on` let nothing else through.
            at += 1;
            while let Some(inner) = self.tokens.get(at) {
                match inner.text.as_str() {
                    "}" => return at + 1,
                    // The new name says nothing of what is reached.
                    "as" => at += 2,
                    _ if inner.is_ident || inner.text == "*" => at = self.tree(at, &path, found),
                    _ => at += 1,
                }
            }
        }
        at
    }
}

fn role_of(path: &str) -> Role {
    let folders: Vec<&str> = path.split('/').collect();
    let in_src = folders.iter().position(|it| *it == "src");
    let has =
        |name: &str| folders.iter().position(|it| *it == name).is_some_and(|at| in_src.is_none_or(|src| at < src));
    if has("tests") || in_src.is_some_and(|src| folders[src..].iter().any(|it| matches!(*it, "tests" | "tests.rs"))) {
        Role::Test
    } else if has("benches") {
        Role::Bench
    } else if has("examples") {
        Role::Example
    } else {
        Role::Product
    }
}

fn flatten(stream: TokenStream, in_test: bool, out: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut whole_test = in_test;
    let mut item_test = false;
    let mut at = 0;
    while at < trees.len() {
        if let Some((inner, len)) = test_attribute(&trees[at..]) {
            whole_test |= inner;
            item_test |= !inner;
            for tree in &trees[at..at + len] {
                push(tree, whole_test || item_test, out);
            }
            at += len;
            continue;
        }
        let tree = &trees[at];
        push(tree, whole_test || item_test, out);
        let ends_item = match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            _ => false,
        };
        item_test &= !ends_item;
        at += 1;
    }
}

/// Whether an attribute that marks test code starts here: if it is an inner one, and its length in trees.
fn test_attribute(trees: &[TokenTree]) -> Option<(bool, usize)> {
    let is = |at: usize, c: char| matches!(trees.get(at), Some(TokenTree::Punct(it)) if it.as_char() == c);
    if !is(0, '#') {
        return None;
    }
    let inner = is(1, '!');
    let at = usize::from(inner) + 1;
    let Some(TokenTree::Group(group)) = trees.get(at) else {
        return None;
    };
    let text = group.stream().to_string().replace(' ', "");
    let head = text.split('(').next().unwrap_or_default();
    let is_test = head == "test" || head.ends_with("::test");
    let is_cfg_test = head == "cfg"
        && !text.contains("not(test")
        && text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "test");
    (is_test || is_cfg_test).then_some((inner, at + 1))
}

fn push(tree: &TokenTree, in_test: bool, out: &mut Vec<Token>) {
    let token = |text: String, line: usize, is_ident: bool| Token { text, line, in_test, is_ident };
    match tree {
        TokenTree::Group(group) => {
            let (open, close) = match group.delimiter() {
                Delimiter::Brace => ("{", "}"),
                Delimiter::Bracket => ("[", "]"),
                Delimiter::Parenthesis => ("(", ")"),
                Delimiter::None => ("", ""),
            };
            out.push(token(open.to_owned(), group.span_open().start().line, false));
            flatten(group.stream(), in_test, out);
            out.push(token(close.to_owned(), group.span_close().start().line, false));
        }
        TokenTree::Ident(ident) => out.push(token(ident.to_string(), ident.span().start().line, true)),
        TokenTree::Literal(literal) => out.push(token(literal.to_string(), literal.span().start().line, false)),
        TokenTree::Punct(punct) => {
            let mut text = punct.as_char().to_string();
            // A joint colon waits for its twin, see `join_path_separators`.
            if punct.as_char() == ':' && punct.spacing() == Spacing::Joint {
                text.push('+');
            }
            out.push(token(text, punct.span().start().line, false));
        }
    }
}

/// Makes one `::` of a joint colon and the colon behind it.
fn join_path_separators(tokens: &mut Vec<Token>) {
    let mut joined: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens.drain(..) {
        match joined.last_mut() {
            Some(last) if last.text == ":+" && token.text.starts_with(':') => last.text = "::".to_owned(),
            _ => joined.push(token),
        }
    }
    *tokens = joined;
}

#[test]
fn use_trees_are_spelled_out() {
    let file = SourceFile::new(
        "bus/src/a.rs",
        "use std::{fs, io::{self, Read as _}, net::*};\nfn f() { ::rand::random::<u8>(); a.b::<C>() }",
    );
    let paths: Vec<String> = file.paths().into_iter().map(|it| it.text).collect();
    let expected = [
        "use",
        "std::fs",
        "std::io::self",
        "std::io::Read",
        "std::net::*",
        "fn",
        "f",
        "rand::random",
        "u8",
        "a",
        "b",
        "C",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn comments_and_strings_are_no_code() {
    let file = SourceFile::new("bus/src/a.rs", "// std::fs\n/* unsafe */ const A: &str = \"std::fs\";");
    assert!(file.paths().iter().all(|it| it.text != "std::fs" && it.text != "unsafe"));
}

#[test]
fn test_items_are_told_from_the_rest() {
    let file = SourceFile::new(
        "bus/src/a.rs",
        "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n\
         #[tokio::test(start_paused = true)]\nasync fn e() {}\n#[cfg(all(test, not(loom)))]\nuse f::g;\nfn h() {}",
    );
    let in_test = |name: &str| file.tokens.iter().find(|it| it.text == name).map(|it| it.in_test);
    let seen = ["a", "b", "c", "d", "e", "g", "h"].map(in_test);
    let expected = [false, true, false, false, true, true, false].map(Some);
    assert_eq!(seen, expected);
}

#[test]
fn the_role_follows_the_folder() {
    let role = |path: &str| SourceFile::new(path, "").role;
    assert_eq!(role("bus/src/tests.rs"), Role::Test);
    assert_eq!(role("bus/src/frames/tests/order.rs"), Role::Test);
    assert_eq!(role("bus/tests/modes.rs"), Role::Test);
    assert_eq!(role("tests/architecture/main.rs"), Role::Test);
    assert_eq!(role("bus/test/src/lib.rs"), Role::Product);
    assert_eq!(role("bus/benches/dispatch.rs"), Role::Bench);
    assert_eq!(role("bus/examples/build_pipeline/main.rs"), Role::Example);
    assert_eq!(role("bus/src/examples.rs"), Role::Product);
}

#[test]
fn a_module_covers_its_file_and_its_folder() {
    let within = |path: &str| SourceFile::new(path, "").is_within("bus/src/frames");
    assert!(within("bus/src/frames.rs"));
    assert!(within("bus/src/frames/arena.rs"));
    assert!(!within("bus/src/frames_list.rs"));
}
