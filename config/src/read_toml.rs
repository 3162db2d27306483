//! Reads Linn's own files, with places, and fills in variables.

use std::path::Path;

use toml_edit::{Document, Item, TableLike, Value as TomlValue};

use crate::node::{Data, Node};
use crate::origin::{Lines, Place};
use crate::problem::Problem;
use crate::sources::Variables;

/// Where a text comes from, for the places of what is in it.
enum Text<'a> {
    File(Lines<'a>),
    Elsewhere(&'a Place),
}

impl Text<'_> {
    fn place(&self, span: Option<std::ops::Range<usize>>) -> Place {
        match self {
            Self::File(lines) => lines.place(span.map_or(0, |it| it.start)),
            Self::Elsewhere(place) => (*place).clone(),
        }
    }
}

/// Reads `text`, the content of `path`, as a table.
pub(crate) fn read(path: &Path, text: &str) -> Result<Node, Problem> {
    parse(&Text::File(Lines::new(path, text)), text)
}

/// Reads one value, the text of a variable or flag.
pub(crate) fn read_value(place: &Place, text: &str) -> Result<Node, Problem> {
    let table = parse(&Text::Elsewhere(place), &format!("value = {text}"))?;
    match table.data {
        Data::Table(fields) if fields.len() == 1 => match fields.into_values().next() {
            Some(value) => Ok(value),
            None => Ok(Node { data: Data::Null, place: place.clone() }),
        },
        _ => Err(Problem::Syntax { place: place.clone(), message: "more than one value".to_owned() }),
    }
}

fn parse(source: &Text<'_>, text: &str) -> Result<Node, Problem> {
    let document = Document::parse(text).map_err(|error| Problem::Syntax {
        place: source.place(error.span()),
        // The message alone: the whole display quotes the line, which may hold a key.
        message: error.message().trim_end().replace('\n', "; "),
    })?;
    Ok(table(document.as_table(), source, source.place(None)))
}

fn table(from: &dyn TableLike, source: &Text<'_>, place: Place) -> Node {
    let field = |(name, it): (&str, &Item)| {
        let key_place = || source.place(from.get_key_value(name).and_then(|(key, _)| key.span()));
        Some((name.to_owned(), item(it, source, key_place)?))
    };
    Node { data: Data::Table(from.iter().filter_map(field).collect()), place }
}

fn item(from: &Item, source: &Text<'_>, key_place: impl Fn() -> Place) -> Option<Node> {
    let place = from.span().map_or_else(&key_place, |span| source.place(Some(span)));
    Some(match from {
        Item::None => return None,
        Item::Value(it) => value(it, source, place),
        Item::Table(it) => table(it, source, place),
        Item::ArrayOfTables(tables) => {
            let each = tables
                .iter()
                .map(|it| table(it, source, it.span().map_or_else(&key_place, |span| source.place(Some(span)))));
            Node { data: Data::List(each.collect()), place }
        }
    })
}

fn value(from: &TomlValue, source: &Text<'_>, place: Place) -> Node {
    let data = match from {
        TomlValue::String(it) => Data::Text { value: it.value().clone(), written: None },
        TomlValue::Integer(it) => Data::Integer(*it.value()),
        TomlValue::Float(it) => Data::Number(*it.value()),
        TomlValue::Boolean(it) => Data::Bool(*it.value()),
        // No key has times, and a plugin that wants one reads the text.
        TomlValue::Datetime(it) => Data::Text { value: it.value().to_string(), written: None },
        TomlValue::Array(items) => {
            let each = |it: &TomlValue| {
                value(it, source, it.span().map_or_else(|| place.clone(), |span| source.place(Some(span))))
            };
            Data::List(items.iter().map(each).collect())
        }
        TomlValue::InlineTable(it) => return table(it, source, place),
    };
    Node { data, place }
}

/// Whether, and from what, `${env:NAME}` is filled in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill<'a> {
    /// With these variables.
    From(&'a Variables),
    /// It is a problem where it stands.
    Forbidden,
}

const OPEN: &str = "${env:";

/// Fills in the variables of all texts in `node`, which is the value of `key`. `$${env:` stands for `${env:` itself.
pub(crate) fn fill(node: &mut Node, key: &str, with: Fill<'_>) -> Result<(), Problem> {
    match &mut node.data {
        Data::Text { value, written } if value.contains(OPEN) => {
            let filled = fill_text(value, key, &node.place, with)?;
            *written = Some(std::mem::replace(value, filled));
            Ok(())
        }
        Data::List(items) => items.iter_mut().try_for_each(|it| fill(it, key, with)),
        Data::Table(fields) => fields.iter_mut().try_for_each(|(name, it)| fill(it, &format!("{key}.{name}"), with)),
        _ => Ok(()),
    }
}

fn fill_text(text: &str, key: &str, place: &Place, with: Fill<'_>) -> Result<String, Problem> {
    let Fill::From(variables) = with else {
        return Err(Problem::VariableForbidden { place: place.clone(), key: key.to_owned() });
    };
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str(OPEN);
            rest = after;
            continue;
        }
        let Some((name, after)) = after.split_once('}') else {
            return Err(Problem::WrongValue {
                place: place.clone(),
                key: key.to_owned(),
                value: "text with `${env:` and no `}`".into(),
                expected: "text in which `${env:NAME}` ends with `}`; `$${env:` is the text `${env:`".into(),
                similar: None,
            });
        };
        let Some(value) = variables.get(name) else {
            return Err(Problem::VariableUnset {
                place: place.clone(),
                key: key.to_owned(),
                variable: name.to_owned(),
            });
        };
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "# c\na.b = 1\n[t]\nx = [1,\n  'y']\n[[l]]\nid = 'one'\n[[l]]\nd = 2020-01-01\nf = {g = 1.5}\n";

    #[test]
    fn values_know_their_places() {
        let node = read(Path::new("a.toml"), FILE).expect("TOML");
        assert_eq!(
            node.to_json(),
            json!({"a": {"b": 1}, "t": {"x": [1, "y"]}, "l": [{"id": "one"}, {"d": "2020-01-01", "f": {"g": 1.5}}]})
        );
        let at = |path| node.at_path(path).expect("a value").place.to_string();
        assert_eq!([at("a.b"), at("t"), at("t.x")], ["a.toml:2:7", "a.toml:3:1", "a.toml:4:5"]);
        let Data::List(tables) = &node.at_path("l").expect("l").data else { panic!("no list") };
        assert_eq!(tables[1].place.to_string(), "a.toml:8:1");
    }

    #[test]
    fn syntax_is_reported_with_its_place_and_without_the_text() {
        let problem = read(Path::new("a.toml"), "x = 1\napi_key = \"hidden\" y").expect_err("no TOML");
        assert!(problem.to_string().starts_with("a.toml:2:"), "{problem}");
        assert!(!problem.to_string().contains("hidden"), "{problem}");
        let twice = read(Path::new("a.toml"), "x = 1\nx = 2").expect_err("twice");
        assert!(twice.to_string().starts_with("a.toml:2:1: duplicate key"), "{twice}");
    }

    #[test]
    fn one_value_is_read_from_text() {
        let place = Place::Variable("V".into());
        assert_eq!(read_value(&place, "[{id = 'a'}]").expect("TOML").to_json(), json!([{"id": "a"}]));
        assert!(read_value(&place, "1\nb = 2").is_err());
        assert!(read_value(&place, "[1").is_err());
    }

    #[track_caller]
    fn check_fill(text: &str, expected: &str) {
        let variables: Variables = [("A", "1"), ("EMPTY", "")].into_iter().collect();
        let mut node = Node::text(text, Place::BuiltIn);
        let outcome = match fill(&mut node, "k", Fill::From(&variables)) {
            Ok(()) => node.as_text().expect("text").to_owned(),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(outcome, expected, "{text}");
    }

    #[test]
    fn variables_are_filled_in() {
        check_fill("x", "x");
        check_fill("${env:A}", "1");
        check_fill("a${env:A}b${env:A}${env:EMPTY}", "a1b1");
        check_fill("$${env:A} ${env:A}", "${env:A} 1");
        check_fill("${A} $A ${", "${A} $A ${");
        check_fill("${env:B}", "built-in default: the variable `B` of `k` is not set");
        assert!(fill(&mut Node::text("${env:A}", Place::BuiltIn), "k", Fill::Forbidden).is_err());
    }

    #[test]
    fn an_open_variable_is_a_problem() {
        let variables = Variables::default();
        let problem = fill(&mut Node::text("${env:A", Place::BuiltIn), "k", Fill::From(&variables)).expect_err("open");
        assert_eq!(problem.code(), "CONFIG_WRONG_VALUE");
    }
}
