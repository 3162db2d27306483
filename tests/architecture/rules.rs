//! The rules for Rust files: each takes a file and gives what breaks it.

use std::fmt;

use crate::places::{
    CLOCK_CALLS, HARMLESS_PATHS, STDIO_MODULES, SYSTEM_MODULES, SYSTEM_PATHS, UNSAFE_MODULES, UNSAFE_WRITERS,
};
use crate::source::{Role, SourceFile, Token};

/// Longest file, in lines.
const MAX_LINES: usize = 1_000;

/// One place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A rule for Rust files.
pub(crate) type Rule = fn(&SourceFile) -> Vec<Finding>;

/// Every rule that needs nothing but the file.
pub(crate) const RULES: &[(&str, Rule)] = &[
    ("files stay short", files_stay_short),
    ("modules are named by their file", no_mod_rs),
    ("modules begin with their docs", modules_begin_with_docs),
    ("re-exports are explicit", no_glob_re_exports),
    ("tests are not switched off", no_ignored_tests),
    ("tests wait for signals", no_sleep_in_tests),
    ("code is finished", no_stubs),
    ("errors are types", no_string_errors),
    ("unsafe code is listed", unsafe_is_listed),
    ("the system is reached through seams", system_is_listed),
    ("the terminal has one owner", stdio_is_listed),
];

fn finding(file: &SourceFile, line: usize, what: impl Into<String>) -> Finding {
    Finding { path: file.path.clone(), line, what: what.into() }
}

fn is_in(file: &SourceFile, modules: &[&str]) -> bool {
    modules.iter().any(|it| file.is_within(it))
}

/// Places where the texts of consecutive tokens are `pattern`.
fn sequences<'a>(file: &'a SourceFile, pattern: &[&str]) -> Vec<&'a Token> {
    let windows = file.tokens.windows(pattern.len());
    let matching = windows.filter(|window| window.iter().zip(pattern).all(|(token, text)| token.text == *text));
    matching.map(|window| &window[0]).collect()
}

fn files_stay_short(file: &SourceFile) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let too_long = lines > MAX_LINES;
    let what = format!("{lines} lines; split by concept, the limit is {MAX_LINES}");
    too_long.then(|| finding(file, MAX_LINES, what)).into_iter().collect()
}

fn no_mod_rs(file: &SourceFile) -> Vec<Finding> {
    let is_mod = file.path.ends_with("/mod.rs");
    let what = "a module `foo` is `foo.rs`, with `foo/` beside it";
    is_mod.then(|| finding(file, 1, what)).into_iter().collect()
}

/// Inputs of compile-fail tests are no modules and need no docs.
fn modules_begin_with_docs(file: &SourceFile) -> Vec<Finding> {
    let bare = !file.text.starts_with("//!") && !file.path.contains("tests/ui/");
    let what = "begins without `//!` docs that say what the module is";
    bare.then(|| finding(file, 1, what)).into_iter().collect()
}

fn no_glob_re_exports(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut tokens = file.tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        if token.text != "pub" {
            continue;
        }
        if tokens.peek().is_some_and(|it| it.text == "(") {
            tokens.by_ref().find(|it| it.text == ")");
        }
        if tokens.next_if(|it| it.text == "use").is_none() {
            continue;
        }
        let glob = tokens.by_ref().take_while(|it| it.text != ";").find(|it| it.text == "*");
        found.extend(glob.map(|it| finding(file, it.line, "a glob re-export; list the names")));
    }
    found
}

fn no_ignored_tests(file: &SourceFile) -> Vec<Finding> {
    let ignored = sequences(file, &["#", "[", "ignore"]);
    let ignored = ignored.iter().map(|it| finding(file, it.line, "a test that is switched off"));
    let conditional = file
        .tokens
        .iter()
        .enumerate()
        .filter(|(_, it)| it.text == "cfg_attr")
        .filter(|(at, _)| {
            let mut rest = file.tokens[*at..].iter().take_while(|it| it.text != "]");
            rest.any(|it| it.text == "ignore")
        })
        .map(|(_, it)| finding(file, it.line, "a test that is switched off at times"));
    let docs = file
        .tokens
        .windows(3)
        .filter(|it| it[0].text == "doc" && it[1].text == "=")
        .filter(|it| it[2].text.contains("```ignore") || it[2].text.contains("```rust,ignore"))
        .map(|it| finding(file, it[2].line, "a doc example that does not run"));
    ignored.chain(conditional).chain(docs).collect()
}

fn no_sleep_in_tests(file: &SourceFile) -> Vec<Finding> {
    // A benchmark may measure what comes after a rest.
    if file.path.contains("/benches/") {
        return Vec::new();
    }
    file.paths()
        .iter()
        .filter(|it| it.in_test && (it.text.ends_with("thread::sleep") || it.text.ends_with("time::sleep")))
        .map(|it| finding(file, it.line, "a test that sleeps; wait for a signal, or advance a paused clock"))
        .collect()
}

fn no_stubs(file: &SourceFile) -> Vec<Finding> {
    ["todo", "unimplemented"]
        .iter()
        .flat_map(|name| sequences(file, &[name, "!"]))
        .map(|it| finding(file, it.line, "a stub"))
        .collect()
}

/// `Result<_, String>` says nothing a caller can act on.
fn no_string_errors(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, token) in file.tokens.iter().enumerate() {
        let is_generic = token.text == "Result" && file.tokens.get(at + 1).is_some_and(|it| it.text == "<");
        if !is_generic || file.role != Role::Product || token.in_test {
            continue;
        }
        let mut depth = 0_usize;
        let mut previous: [&str; 2] = ["", ""];
        for it in &file.tokens[at + 1..] {
            match it.text.as_str() {
                "<" | "(" | "[" | "{" => depth += 1,
                // The arrow of a function type closes nothing.
                ">" if previous[1] == "-" => {}
                ">" | ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                if previous == [",", "String"] {
                    found.push(finding(file, token.line, "an error that is a bare string; make it a type"));
                }
                break;
            }
            previous = [previous[1], &it.text];
        }
    }
    found
}

fn unsafe_is_listed(file: &SourceFile) -> Vec<Finding> {
    if is_in(file, UNSAFE_MODULES) || is_in(file, UNSAFE_WRITERS) {
        return Vec::new();
    }
    file.tokens
        .iter()
        .filter(|it| it.text == "unsafe")
        .map(|it| finding(file, it.line, "`unsafe` outside the modules that `places.rs` lists"))
        .collect()
}

fn system_is_listed(file: &SourceFile) -> Vec<Finding> {
    if file.role != Role::Product || is_in(file, SYSTEM_MODULES) {
        return Vec::new();
    }
    let is_below =
        |path: &str, root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let is_call = |path: &str, call: &str| path == call || path.ends_with(&format!("::{call}"));
    file.paths()
        .iter()
        .filter(|it| !it.in_test)
        .filter(|it| {
            let reaches = SYSTEM_PATHS.iter().any(|root| is_below(&it.text, root));
            let harmless = HARMLESS_PATHS.iter().any(|root| is_below(&it.text, root));
            // A bare `rand` or `libc` is a name like any other.
            let named = it.text.contains("::");
            (named && reaches && !harmless) || CLOCK_CALLS.iter().any(|call| is_call(&it.text, call))
        })
        .map(|it| finding(file, it.line, format!("`{}` outside the modules that `places.rs` lists", it.text)))
        .collect()
}

fn stdio_is_listed(file: &SourceFile) -> Vec<Finding> {
    let is_build_script = file.path.ends_with("build.rs");
    if file.role != Role::Product || is_build_script || is_in(file, STDIO_MODULES) {
        return Vec::new();
    }
    let macros = ["print", "println"]
        .into_iter()
        .flat_map(|name| sequences(file, &[name, "!"]))
        .filter(|it| !it.in_test)
        .map(|it| finding(file, it.line, "prints; only the program and the bridge own the terminal"));
    let streams = file
        .paths()
        .into_iter()
        .filter(|it| !it.in_test && ["io::stdin", "io::stdout"].iter().any(|name| it.text.ends_with(name)));
    let streams =
        streams.map(|it| finding(file, it.line, format!("`{}`; only the program and the bridge own it", it.text)));
    macros.chain(streams).collect()
}

/// What the root file of a crate lacks; a root without items needs no attributes.
pub(crate) fn missing_root_attributes(file: &SourceFile, is_documented: bool) -> Vec<Finding> {
    let has_items = file.tokens.iter().any(|it| it.is_ident && it.text != "doc");
    let source_folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let may_be_unsafe = UNSAFE_MODULES.iter().any(|it| it.starts_with(&format!("{source_folder}/")));
    let mut needed = Vec::new();
    if !may_be_unsafe {
        needed.push(("forbid", "unsafe_code"));
    }
    if is_documented {
        needed.push(("warn", "missing_docs"));
    }
    needed.retain(|(level, lint)| {
        let pattern = ["#", "!", "[", level, "(", lint, ")", "]"];
        has_items && sequences(file, &pattern).is_empty()
    });
    let what = |(level, lint)| finding(file, 1, format!("`#![{level}({lint})]` is missing"));
    needed.into_iter().map(what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rule` finds something in `code` at the lines `expected`, and nowhere else.
    #[track_caller]
    fn check(rule: Rule, path: &str, code: &str, expected: &[usize]) {
        let file = SourceFile::new(path, code);
        let lines: Vec<usize> = rule(&file).iter().map(|it| it.line).collect();
        assert_eq!(lines, expected, "{path}:\n{code}");
    }

    #[test]
    fn long_files_are_found() {
        check(files_stay_short, "bus/src/a.rs", &"//\n".repeat(MAX_LINES), &[]);
        check(files_stay_short, "bus/src/a.rs", &"//\n".repeat(MAX_LINES + 1), &[MAX_LINES]);
    }

    #[test]
    fn mod_rs_is_found() {
        check(no_mod_rs, "bus/src/frames/mod.rs", "", &[1]);
        check(no_mod_rs, "bus/src/frames/model.rs", "", &[]);
    }

    #[test]
    fn modules_without_docs_are_found() {
        check(modules_begin_with_docs, "bus/src/a.rs", "use a::b;\n//! late", &[1]);
        check(modules_begin_with_docs, "bus/src/a.rs", "//! What it is.\n", &[]);
        check(modules_begin_with_docs, "bus/tests/ui/wrong_verb.rs", "fn main() {}", &[]);
    }

    #[test]
    fn glob_re_exports_are_found() {
        let code = "use a::*;\npub use b::c;\npub use d::*;\npub(crate) use e::{f, g::*};\npub fn h(i: *const u8) {}";
        check(no_glob_re_exports, "bus/src/lib.rs", code, &[3, 4]);
    }

    #[test]
    fn switched_off_tests_are_found() {
        let code = "#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n#[cfg_attr(miri, ignore)]\nfn c() {}\nfn ignore() {}";
        check(no_ignored_tests, "bus/tests/a.rs", code, &[1, 3, 5]);
        let docs = "//! ```ignore\n//! x\n//! ```\n/// ```no_run\n/// y\n/// ```\nfn a() {}";
        check(no_ignored_tests, "bus/src/a.rs", docs, &[1]);
    }

    #[test]
    fn sleeping_tests_are_found() {
        let code = "fn a() { std::thread::sleep(d) }\n#[cfg(test)]\nmod tests {\nuse tokio::time::{self, sleep};\nfn b() { thread::sleep(d) }\n}";
        check(no_sleep_in_tests, "bus/src/a.rs", code, &[4, 5]);
        check(no_sleep_in_tests, "bus/tests/a.rs", code, &[1, 4, 5]);
        check(no_sleep_in_tests, "bus/benches/a.rs", code, &[]);
    }

    #[test]
    fn stubs_are_found() {
        let code = "fn a() { todo!() }\nfn b() { unimplemented!(\"later\") }\n// todo!()\nfn todo() {}";
        check(no_stubs, "bus/src/a.rs", code, &[1, 2]);
    }

    #[test]
    fn string_errors_are_found() {
        let code = "fn a() -> Result<u8, String> {}\nfn b() -> Result<String, E> {}\nfn c() -> Result<Vec<u8>, String> {}\n\
                    fn d() -> Result<(u8, String), E> {}\nfn e() -> Result<Box<dyn Fn() -> u8>, String> {}";
        check(no_string_errors, "bus/src/a.rs", code, &[1, 3, 5]);
        check(no_string_errors, "bus/tests/a.rs", code, &[]);
    }

    #[test]
    fn unlisted_unsafe_code_is_found() {
        let code = "// unsafe\nfn a() { unsafe { b() } }\nmacro_rules! c { () => { unsafe impl D for E {} } }";
        check(unsafe_is_listed, "bus/src/context.rs", code, &[2, 3]);
        check(unsafe_is_listed, "bus/tests/a.rs", code, &[2, 3]);
        check(unsafe_is_listed, "bus/src/frames/arena.rs", code, &[]);
        check(unsafe_is_listed, "bus/macros/src/event.rs", code, &[]);
    }

    #[test]
    fn unlisted_system_calls_are_found() {
        let code = "use std::{fs, sync::Arc};\nfn a() { std::env::var(\"A\"); }\nfn b(rand: u8) { rand }\nfn c() { time::Instant::now() }\n\
                    fn d() { std::process::abort() }\n#[cfg(test)]\nmod tests { use std::fs; }\nfn e() { rand::random() }\nmacro_rules! f { () => { SystemTime::now() } }";
        check(system_is_listed, "bus/src/context.rs", code, &[1, 2, 4, 8, 9]);
        check(system_is_listed, "bus/src/seams.rs", code, &[]);
        check(system_is_listed, "bus/benches/dispatch.rs", code, &[]);
    }

    #[test]
    fn unlisted_printing_is_found() {
        let code = "/// println!(\"a\")\nfn a() { println!(\"a\") }\nfn b() { std::io::stdout().lock() }\n#[test]\nfn c() { println!() }\nfn d() { eprintln!() }";
        check(stdio_is_listed, "services/src/a.rs", code, &[2, 3]);
        check(stdio_is_listed, "bus/examples/a.rs", code, &[]);
        check(stdio_is_listed, "src/main.rs", code, &[]);
    }

    #[test]
    fn missing_root_attributes_are_found() {
        let missing = |path: &str, code: &str, is_documented: bool| {
            let found = missing_root_attributes(&SourceFile::new(path, code), is_documented);
            found.into_iter().map(|it| it.what).collect::<Vec<_>>()
        };
        let forbid = "`#![forbid(unsafe_code)]` is missing";
        assert_eq!(missing("config/src/lib.rs", "//! A.\nmod a;", false), [forbid]);
        assert_eq!(missing("config/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\nmod a;", false), [""; 0]);
        assert_eq!(missing("bus/src/lib.rs", "//! A.\nmod a;", true), ["`#![warn(missing_docs)]` is missing"]);
        assert_eq!(missing("bus/src/lib.rs", "//! A.\n", true), [""; 0]);
    }
}
