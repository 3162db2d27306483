//! Every case of the contract is a test by its name, or a row of a page that says what is otherwise.

use std::collections::{BTreeMap, BTreeSet};

/// Where rows are: the cases of the bus, and all others.
pub(crate) const PAGES: &[&str] = &["docs/bus.md", "docs/conformance.md"];

/// The families of cases with the number of their last one. Those of the bus and the loader come first, then those of the
/// vocabulary; `R` are inputs from the wild, which are written without a dash and with three digits.
const FAMILIES: &[(&str, u32)] = &[
    ("EV", 38),
    ("SC", 22),
    ("EF", 15),
    ("PL", 8),
    ("FB", 16),
    ("SV", 17),
    ("LG", 1),
    ("LD", 15),
    ("IN", 7),
    ("TM", 7),
    ("HM", 8),
    ("LP", 54),
    ("IX", 18),
    ("AG", 14),
    ("TL", 24),
    ("SE", 14),
    ("SP", 7),
    ("LM", 3),
    ("AP", 6),
    ("FS", 5),
    ("SK", 4),
    ("SA", 7),
    ("WF", 2),
    ("CP", 4),
    ("R", 140),
];

/// A case: its family and its number.
pub(crate) type Case = (&'static str, u32);

/// A case as it is written.
pub(crate) fn written((family, number): Case) -> String {
    if family == "R" { format!("R{number:03}") } else { format!("{family}-{number:02}") }
}

/// All cases.
pub(crate) fn all() -> BTreeSet<Case> {
    FAMILIES.iter().flat_map(|(family, last)| (1..=*last).map(move |number| (*family, number))).collect()
}

/// The cases that a name tells, as `lp_01`, `ev_04_05`, `in_02_to_07`, `ld_13_and_14` and `r043` do anywhere in it.
pub(crate) fn of_name(name: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut current: Option<Case> = None;
    let mut is_range = false;
    for part in name.split('_') {
        let of_wild = part.strip_prefix('r').filter(|it| it.len() == 3).and_then(|it| it.parse().ok());
        let found = match (of_wild, current) {
            (Some(number), _) => Some(("R", number)),
            (None, Some((family, _))) => part.parse().ok().filter(|_| part.len() == 2).map(|it| (family, it)),
            (None, None) => None,
        };
        match (found, current) {
            (Some((family, last)), Some((_, first))) if is_range => {
                cases.extend((first + 1..=last).map(|it| (family, it)))
            }
            (Some(case), _) => cases.push(case),
            (None, _) => {}
        }
        (is_range, current) = match (found, part) {
            (Some((family, number)), _) => (false, Some((family, number))),
            (None, "to") => (current.is_some(), current),
            (None, "and") => (false, current),
            (None, _) => (false, FAMILIES.iter().find(|it| it.0.to_lowercase() == part).map(|it| (it.0, 0))),
        };
    }
    cases
}

/// The names of the tests of a Rust file.
pub(crate) fn tests_of(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if is_test && !line.starts_with("#[") {
            let name = line.split_once("fn ").and_then(|(_, it)| it.split(['(', '<']).next());
            names.extend(name);
            is_test = false;
        }
    }
    names
}

/// The cases that the tables of a page have a row for, with the line; and what stands there like one and is none.
pub(crate) fn rows_of(markdown: &str) -> (BTreeMap<Case, usize>, Vec<String>) {
    let (mut cases, mut unknown) = (BTreeMap::new(), Vec::new());
    let known = all();
    let mut is_table_of_cases = false;
    for (at, line) in markdown.lines().enumerate() {
        let Some(cell) = line.strip_prefix("| ").and_then(|it| it.split(" |").next()) else {
            is_table_of_cases = false;
            continue;
        };
        is_table_of_cases |= cell == "case";
        if !is_table_of_cases || cell == "case" {
            continue;
        }
        for part in cell.split(", ") {
            let (first, last) = part.split_once("..").unwrap_or((part, part));
            let Some(first) = case_of(first, None) else { continue };
            match case_of(last, Some(first.0)) {
                Some(last) if known.contains(&first) && known.contains(&last) => {
                    cases.extend((first.1..=last.1).map(|it| ((first.0, it), at + 1)));
                }
                _ => unknown.push(format!("line {}: `{part}` is no case", at + 1)),
            }
        }
    }
    (cases, unknown)
}

/// What a text like `EV-04`, `R058 ordered` or, in a family, `07` names. A number past the last one is named as well.
fn case_of(text: &str, family: Option<&'static str>) -> Option<Case> {
    let text = text.split(' ').next()?;
    let digits = text.trim_start_matches(|it: char| !it.is_ascii_digit());
    let name = text[..text.len() - digits.len()].trim_end_matches('-');
    let named = FAMILIES.iter().find(|it| it.0 == name).map(|it| it.0);
    Some((named.or(family.filter(|_| name.is_empty()))?, digits.parse().ok()?))
}

/// The tables of a page whose last column is `tests`: what a table is of, and its rows, each with the names of its tests.
pub(crate) fn tables_of_tests(markdown: &str) -> BTreeMap<&str, BTreeMap<&str, Vec<&str>>> {
    let mut tables: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    let mut current = None;
    for line in markdown.lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|it| it.strip_suffix(" |")) else {
            current = None;
            continue;
        };
        let cells: Vec<&str> = cells.split(" | ").collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else { continue };
        match current {
            None if *last == "tests" => current = Some(tables.entry(first).or_default()),
            Some(ref mut rows) if !first.starts_with("---") => {
                rows.insert(first.trim_matches('`'), last.split('`').skip(1).step_by(2).collect());
            }
            _ => {}
        }
    }
    tables
}

#[test]
fn tables_of_tests_are_told_from_others() {
    let page = "| case | x |\n| --- | --- |\n| EV-01 | `a` |\n\n| point | is | tests |\n| --- | --- | --- |\n| `p` | x | `a`, `b` |\n| q | y | none |\n";
    let tables = tables_of_tests(page);
    assert_eq!(tables.len(), 1);
    assert_eq!(tables["point"], BTreeMap::from([("p", vec!["a", "b"]), ("q", vec![])]));
}

#[test]
fn names_tell_their_cases() {
    assert_eq!(of_name("lp_01_a_turn"), [("LP", 1)]);
    assert_eq!(of_name("ev_04_05_who"), [("EV", 4), ("EV", 5)]);
    assert_eq!(of_name("in_02_to_04_layers"), [("IN", 2), ("IN", 3), ("IN", 4)]);
    assert_eq!(of_name("ld_13_and_14_a_group"), [("LD", 13), ("LD", 14)]);
    assert_eq!(of_name("script_6_1_r050_r051_in_order"), [("R", 50), ("R", 51)]);
    assert_eq!(of_name("hm_04_hm_08_x"), [("HM", 4), ("HM", 8)]);
    assert!(of_name("in_order_r2_d2_and_2").is_empty());
}

#[test]
fn tests_are_told_from_other_functions() {
    let text = "#[test]\nfn a() {}\n#[tokio::test(flavor = \"x\")]\n#[cfg(unix)]\nasync fn b() {}\nfn c() {}\n";
    assert_eq!(tests_of(text), ["a", "b"]);
}

#[test]
fn rows_tell_their_cases_and_one_of_no_case_is_found() {
    let page = "| word | x |\n| EV-01 | y |\n\n| case | x |\n| --- | --- |\n| EV-04..06, R058 ordered | x |\n| SV get | x |\n| EF-06..EF-07 | x |\n| LP-99 | x |\n";
    let (cases, unknown) = rows_of(page);
    let cases: Vec<String> = cases.into_keys().map(written).collect();
    assert_eq!(cases, ["EF-06", "EF-07", "EV-04", "EV-05", "EV-06", "R058"]);
    assert_eq!(unknown, ["line 9: `LP-99` is no case"]);
}
