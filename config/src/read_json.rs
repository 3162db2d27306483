//! Reads the JSON files of existing clients, with places. Comments and trailing commas are accepted.

use std::path::Path;

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::node::{Data, Node};
use crate::origin::{Lines, Place};
use crate::problem::Problem;

/// What the files may look like beyond JSON.
pub(crate) fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Reads `text`, the content of `path`; an empty file is an empty table.
pub(crate) fn read(path: &Path, text: &str) -> Result<Node, Problem> {
    let lines = Lines::new(path, text);
    parse(text, &|offset| lines.place(offset))
}

/// Reads the text of a variable or flag, all of which is at `place`.
pub(crate) fn read_at(place: &Place, text: &str) -> Result<Node, Problem> {
    parse(text, &|_| place.clone())
}

fn parse(text: &str, place: &dyn Fn(usize) -> Place) -> Result<Node, Problem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options())
        .map_err(|error| Problem::Syntax { place: place(error.range().start), message: error.kind().to_string() })?;
    match parsed.value {
        Some(value) => Ok(node(&value, place)),
        None => Ok(Node { data: Data::Table(indexmap::IndexMap::new()), place: place(0) }),
    }
}

fn node(ast: &Ast<'_>, place: &dyn Fn(usize) -> Place) -> Node {
    let data = match ast {
        Ast::NullKeyword(_) => Data::Null,
        Ast::BooleanLit(it) => Data::Bool(it.value),
        Ast::NumberLit(it) => match it.value.parse() {
            Ok(whole) => Data::Integer(whole),
            Err(_) => Data::Number(it.value.parse().unwrap_or(f64::NAN)),
        },
        Ast::StringLit(it) => Data::Text { value: it.value.to_string(), written: None },
        Ast::Array(it) => Data::List(it.elements.iter().map(|it| node(it, place)).collect()),
        Ast::Object(it) => {
            let field = |it: &jsonc_parser::ast::ObjectProp<'_>| (it.name.as_str().to_owned(), node(&it.value, place));
            Data::Table(it.properties.iter().map(field).collect())
        }
    };
    Node { data, place: place(ast.range().start) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_know_their_places() {
        let node =
            read(Path::new("a.json"), "{\n  \"a\": {\"b\": [1, 2.5, \"x\", null, true]}, // c\n}").expect("JSON");
        assert_eq!(node.to_json(), json!({"a": {"b": [1, 2.5, "x", null, true]}}));
        assert_eq!(node.at_path("a.b").expect("b").place.to_string(), "a.json:2:14");
    }

    #[test]
    fn syntax_is_reported_with_its_place_and_without_the_text() {
        let problem = read(Path::new("a.json"), "{\"api_key\": \"hidden\" \"x\"}").expect_err("no JSON");
        assert_eq!(problem.code(), "CONFIG_SYNTAX");
        assert!(problem.to_string().starts_with("a.json:1:"), "{problem}");
        assert!(!problem.to_string().contains("hidden"));
        assert!(read(Path::new("a.json"), &"[".repeat(100_000)).is_err());
    }
}
