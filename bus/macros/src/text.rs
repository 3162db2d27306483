//! Text made from tokens: docs, type names, digests; and what to suggest instead of a wrong word.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The doc comment: one line per `#[doc]`, without the space after `///`, trimmed.
///
/// Docs that are no literal (`include_str!`) are left out, as nothing can read them here.
pub(crate) fn docs(attrs: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attr.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value
        {
            let text = text.value();
            // A `/** .. */` comment is one attribute of several lines.
            lines.extend(text.split('\n').map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()));
        }
    }
    lines.join("\n").trim().to_owned()
}

/// Digest (FNV-1a, 64 bit) of the tokens without their doc attributes.
///
/// Layout of the source does not count: the digest is made from the tokens, not from the text the compiler prints for them.
pub(crate) fn digest(tokens: TokenStream) -> u64 {
    fn feed(hash: &mut u64, text: &str) {
        // The zero keeps `a b` and `ab` apart; no token contains one.
        for byte in text.bytes().chain([0]) {
            *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    fn walk(hash: &mut u64, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' && tokens.peek().is_some_and(is_doc) => {
                    tokens.next();
                }
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        // Invisible, the trace of another macro: the tokens in it are all that counts.
                        Delimiter::None => {
                            walk(hash, group.stream());
                            continue;
                        }
                    };
                    feed(hash, open);
                    walk(hash, group.stream());
                    feed(hash, close);
                }
                other => feed(hash, &other.to_string()),
            }
        }
    }
    let mut hash = 0xcbf2_9ce4_8422_2325;
    walk(&mut hash, tokens);
    hash
}

fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    group.delimiter() == Delimiter::Bracket
        && matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(first)) if first == "doc")
}

/// The type as one writes it: `Result<Vec<u8>, &'static str>`.
pub(crate) fn type_text(tokens: TokenStream) -> String {
    let mut pieces = Vec::new();
    flatten(tokens, &mut pieces);
    let mut text = String::new();
    let mut last = "";
    for piece in &pieces {
        if spaced(last, piece) {
            text.push(' ');
        }
        text.push_str(piece);
        last = piece;
    }
    text
}

/// Splits tokens into the pieces that are printed without a space in them, such as `::`, `->`, `'a` and `Vec`.
fn flatten(tokens: TokenStream, pieces: &mut Vec<String>) {
    let mut joint = false;
    for token in tokens {
        let was_joint = std::mem::take(&mut joint);
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                pieces.push(open.to_owned());
                flatten(group.stream(), pieces);
                pieces.push(close.to_owned());
            }
            TokenTree::Punct(punct) => {
                joint = punct.spacing() == Spacing::Joint;
                match pieces.last_mut() {
                    Some(last) if was_joint && matches!((last.as_str(), punct.as_char()), (":", ':') | ("-", '>')) => {
                        last.push(punct.as_char());
                    }
                    _ => pieces.push(punct.to_string()),
                }
            }
            TokenTree::Ident(ident) if was_joint && pieces.last().is_some_and(|last| last == "'") => {
                let last = pieces.last_mut().expect("the arm's guard saw it");
                last.push_str(&ident.to_string());
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => pieces.push(token.to_string()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
}

/// Whether a type is written with a space between the two pieces.
fn spaced(left: &str, right: &str) -> bool {
    let is_word = |piece: &str| piece.starts_with(|first: char| first.is_alphanumeric() || "_'\"".contains(first));
    if left.is_empty() || [")", "]", ",", ";", ":"].contains(&right) {
        return false;
    }
    ["->", "+", "=", "{"].contains(&left)
        || ["->", "+", "=", "}"].contains(&right)
        || [",", ";", ":"].contains(&left) && right != ">"
        || ["mut", "dyn", "impl", "const", "as"].contains(&left) && right != ">"
        || left.starts_with('\'') && ["(", "["].contains(&right)
        // `for<'a> Fn(..)`; everywhere else a `>` is followed by punctuation.
        || left == ">" && is_word(right)
        || is_word(left) && is_word(right)
}

/// What a name may consist of.
#[derive(Clone, Copy)]
pub(crate) struct NameRule {
    /// What has the name: `event`.
    pub(crate) of: &'static str,
    /// The characters that separate segments.
    pub(crate) separators: &'static [char],
    /// The rule in words.
    pub(crate) words: &'static str,
    /// How many segments it has at least.
    pub(crate) n_least: usize,
    /// Names that are right as they are.
    pub(crate) whole: &'static [&'static str],
    /// A right name.
    pub(crate) example: &'static str,
}

impl NameRule {
    /// What is wrong with the name, with a right one: the nearest to it, where there is one.
    pub(crate) fn objection(self, name: &str) -> Option<String> {
        if self.allows(name) {
            return None;
        }
        let repaired = self.repair(name);
        let right = if self.allows(&repaired) { &repaired } else { self.example };
        Some(format!("`{name}` is no {} name: {}, as in \"{right}\"", self.of, self.words))
    }

    fn allows(self, name: &str) -> bool {
        let is_right = |segment: &str| {
            !segment.is_empty()
                && segment.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let mut segments = name.split(self.separators);
        self.whole.contains(&name) || (segments.clone().count() >= self.n_least && segments.all(is_right))
    }

    /// `Tools::PreExecute` and `tools.pre_execute` become `tools/pre-execute`.
    fn repair(self, name: &str) -> String {
        let mut repaired = String::new();
        let mut last = ' ';
        for next in name.trim_matches(|it: char| !it.is_ascii_alphanumeric()).chars() {
            if next.is_ascii_uppercase() && (last.is_ascii_lowercase() || last.is_ascii_digit()) {
                repaired.push('-');
            }
            let wanted = match next {
                _ if next.is_ascii_alphanumeric() || self.separators.contains(&next) => next.to_ascii_lowercase(),
                ':' | '.' | '/' | '\\' => '/',
                _ => '-',
            };
            if wanted.is_ascii_alphanumeric() || repaired.ends_with(|it: char| it.is_ascii_alphanumeric()) {
                repaired.push(wanted);
            }
            last = next;
        }
        repaired
    }
}

/// ``; did you mean `Waterfall`?`` when one of the words is near, else nothing.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let lower = word.to_lowercase();
    let near = known
        .iter()
        .map(|known| (distance(&lower, &known.to_lowercase()), known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance <= (known.len() / 2).min(3));
    near.map_or_else(String::new, |(_, known)| format!("; did you mean `{known}`?"))
}

/// ```text
/// `name`, `mode` and `output`
/// ```
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (i, left) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in right.chars().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn tokens(source: &str) -> TokenStream {
        source.parse().expect("the test's source is Rust")
    }

    #[test]
    fn docs_are_joined_and_trimmed() {
        let item: syn::ItemStruct = parse_quote! {
            ///
            /// One.
            ///
            ///   - indented
            #[doc(hidden)]
            #[doc = include_str!("more.md")]
            ///
            struct S;
        };
        assert_eq!(docs(&item.attrs), "One.\n\n  - indented");
    }

    #[test]
    fn types_are_printed_as_written() {
        for text in [
            "()",
            "(A,)",
            "Decision",
            "Result<Vec<u8>, &'static str>",
            "Option<std::sync::Arc<[u8; 4]>>",
            "Box<dyn Fn(&str, &mut [u8]) -> Result<(), E> + Send + 'static>",
            "&'a [u8]",
            "Box<dyn for<'a> Fn(&'a str) -> Cow<'a, str>>",
            "<T as Trait>::Out",
            "Box<dyn Iterator<Item = (A, B)> + '_>",
            "*const u8",
            "[u8; { N + 1 }]",
        ] {
            assert_eq!(type_text(tokens(text)), text);
            assert_eq!(type_text(tokens(&text.replace(',', " ,\n").replace('<', " < "))), text);
        }
    }

    #[test]
    fn the_digest_sees_tokens_only() {
        let base = digest(tokens("struct S { a: u8, b: Vec<u8> }"));
        assert_eq!(base, digest(tokens("/// Docs.\nstruct S {\n #[doc = \"x\"] a : u8,\n /** y */ b: Vec < u8 >\n}")));
        assert_ne!(base, digest(tokens("struct S { a: u8, b: Vec<u16> }")));
        assert_ne!(base, digest(tokens("struct S { b: Vec<u8>, a: u8 }")));
        assert_ne!(base, digest(tokens("#[repr(C)] struct S { a: u8, b: Vec<u8> }")));
        assert_ne!(digest(tokens("a b")), digest(tokens("ab")));
        // The published test vector of FNV-1a for no input at all.
        assert_eq!(digest(TokenStream::new()), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn near_words_are_suggested() {
        let modes = ["Emit", "Bail", "Serial", "Parallel", "Waterfall"];
        assert_eq!(did_you_mean("waterfal", &modes), "; did you mean `Waterfall`?");
        assert_eq!(did_you_mean("Paralel", &modes), "; did you mean `Parallel`?");
        assert_eq!(did_you_mean("Broadcast", &modes), "");
    }

    #[test]
    fn names_are_checked_and_repaired() {
        const RULE: NameRule = NameRule {
            of: "event",
            separators: &['/'],
            words: "w",
            n_least: 2,
            whole: &["exit"],
            example: "tools/pre-execute",
        };
        for name in ["exit", "tools/pre-execute", "a/b/c", "v2/x"] {
            assert_eq!(RULE.objection(name), None);
        }
        for (name, right) in [
            ("Tools/PreExecute", "tools/pre-execute"),
            ("Tools::PreExecute", "tools/pre-execute"),
            ("tools.pre_execute", "tools/pre-execute"),
            ("tools//changed", "tools/changed"),
            ("/session/started/", "session/started"),
            ("session/HTTPOpen", "session/httpopen"),
            ("ping", "tools/pre-execute"),
            ("Exit", "exit"),
            ("", "tools/pre-execute"),
            ("äöü", "tools/pre-execute"),
        ] {
            assert_eq!(RULE.objection(name), Some(format!("`{name}` is no event name: w, as in \"{right}\"")));
        }
    }

    #[test]
    fn words_are_listed() {
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
