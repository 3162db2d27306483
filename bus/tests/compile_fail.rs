//! What must not compile, and what the compiler then says.
//!
//! Each file of `tests/ui` is a program of its own. Its `//~ text` comments are lines of ours that the errors must show:
//! notes of traits and messages of macros. The compiler's own words around them are not looked at, since they change
//! between releases. A comment behind code is about an error of that line, one on a line of its own about an error of the
//! lines around it, up to the next blank ones. No error may be without a comment. A file with the single comment
//! `//~ compiles` is the counterpart: the forms that the messages name.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use cargo_metadata::Message;
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel};

const COMPILES: &str = "compiles";

struct Case {
    path: PathBuf,
    marks: Vec<Mark>,
}

/// A `//~ text` comment.
struct Mark {
    text: String,
    /// The lines it is about, from 1.
    lines: RangeInclusive<usize>,
}

/// What the compiler said about one file.
#[derive(Default)]
struct Said {
    errors: Vec<Error>,
}

/// One error: where it is, and what it says.
struct Error {
    lines: Vec<RangeInclusive<usize>>,
    texts: String,
    rendered: String,
}

impl Mark {
    /// Whether the error is where the mark is.
    fn is_about(&self, error: &Error) -> bool {
        error.lines.iter().any(|it| self.lines.start() <= it.end() && it.start() <= self.lines.end())
    }
}

#[test]
fn wrong_uses_do_not_compile_and_the_message_names_the_fix() {
    let cases = cases();
    let said = check_all(&cases);
    let silent = Said::default();
    let mut problems = String::new();
    for (name, case) in &cases {
        let said = said.get(name).unwrap_or(&silent);
        for problem in problems_of(case, &said.errors) {
            writeln!(problems, "{}: {problem}", case.path.display()).unwrap();
        }
    }
    assert!(problems.is_empty(), "\n{problems}");
}

fn problems_of(case: &Case, errors: &[Error]) -> Vec<String> {
    let rendered = || errors.iter().map(|it| it.rendered.as_str()).collect::<String>();
    match (case.marks.as_slice(), errors) {
        ([], _) => vec!["has no `//~ text` comment, so it asserts nothing".to_owned()],
        ([only], errors) if only.text == COMPILES && !errors.is_empty() => vec![format!("fails\n{}", rendered())],
        ([only], _) if only.text == COMPILES => Vec::new(),
        (_, []) => vec!["compiles".to_owned()],
        (marks, errors) => {
            let is_said = |mark: &Mark| errors.iter().any(|it| mark.is_about(it) && it.texts.contains(&mark.text));
            let unsaid = marks.iter().filter(|it| !is_said(it)).map(|it| {
                let (from, to) = (it.lines.start(), it.lines.end());
                let around: String = errors.iter().filter(|error| it.is_about(error)).map(|it| &*it.rendered).collect();
                format!("no error of the lines {from} to {to} says\n    {}\nthe compiler said:\n{around}", it.text)
            });
            let unmarked = errors.iter().filter(|error| !marks.iter().any(|it| it.is_about(error)));
            unsaid.chain(unmarked.map(|it| format!("nothing expects this error:\n{}", it.rendered))).collect()
        }
    }
}

/// The marks of a file, each with the lines it is about.
fn marks_of(source: &str) -> Vec<Mark> {
    let lines: Vec<&str> = source.lines().collect();
    let is_blank = |at: &usize| lines[*at].trim().is_empty();
    let mut marks = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((code, text)) = line.split_once("//~ ") else { continue };
        let about = if code.trim().is_empty() {
            let from = (0..at).rev().find(is_blank).map_or(0, |it| it + 1);
            let to = (at..lines.len()).find(is_blank).unwrap_or(lines.len()) - 1;
            from + 1..=to + 1
        } else {
            at + 1..=at + 1
        };
        marks.push(Mark { text: text.trim().to_owned(), lines: about });
    }
    marks
}

#[test]
fn a_mark_is_about_its_line_or_the_lines_around_it() {
    let marks = marks_of("a\n\nb //~ one\nc\n//~ two\nd\n\ne\n");
    let short: Vec<_> = marks.iter().map(|it| (&*it.text, it.lines.clone())).collect();
    assert_eq!(short, [("one", 3..=3), ("two", 3..=6)]);
    let error =
        |lines: RangeInclusive<usize>| Error { lines: vec![lines], texts: "says one".into(), rendered: String::new() };
    let case = |marks| Case { path: PathBuf::new(), marks };
    let one = || marks_of("a\n\nb //~ one\n");
    assert!(problems_of(&case(one()), &[error(3..=4)]).is_empty());
    assert_eq!(problems_of(&case(one()), &[error(1..=1)]).len(), 2, "elsewhere");
    assert_eq!(problems_of(&case(one()), &[error(3..=3), error(1..=1)]).len(), 1, "one more");
    assert_eq!(problems_of(&case(one()), &[]), ["compiles"]);
}

fn cases() -> BTreeMap<String, Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .map(|path| {
            let source = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, Case { marks: marks_of(&source), path })
        })
        .collect()
}

/// Compiles every file in one call of cargo, as the programs of one package that depends on the bus as an author's does.
///
/// The package is outside of the workspace, so that the call waits for no lock of the cargo that runs this test, and
/// takes the versions of the workspace, so that it needs no network.
#[expect(clippy::disallowed_methods, reason = "runs the compiler, which is what is tested, and waits for it")]
fn check_all(cases: &BTreeMap<String, Case>) -> BTreeMap<String, Said> {
    let bus = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile-fail");
    fs::create_dir_all(&package).unwrap();
    let mut manifest = format!(
        "[package]\nname = \"compile-fail\"\nversion = \"0.0.0\"\nedition = \"2024\"\nautobins = false\n\n\
         [dependencies]\nlinn-bus = {{ path = {bus:?} }}\n\n[workspace]\n"
    );
    for (name, case) in cases {
        write!(manifest, "\n[[bin]]\nname = {name:?}\npath = {:?}\n", case.path).unwrap();
    }
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::copy(bus.join("../Cargo.lock"), package.join("Cargo.lock")).unwrap();

    let mut cargo = Command::new(env!("CARGO"))
        .args(["check", "--bins", "--keep-going", "--offline", "--quiet", "--message-format=json"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Both pipes are read at once, so that neither fills up.
    let stdout = io::BufReader::new(cargo.stdout.take().unwrap());
    let mut stderr = cargo.stderr.take().unwrap();
    let (said, finished, complaint) = std::thread::scope(|scope| {
        let complaint = scope.spawn(move || io::read_to_string(&mut stderr).unwrap());
        let (said, finished) = collect(stdout);
        (said, finished, complaint.join().unwrap())
    });
    cargo.wait().unwrap();
    assert!(finished, "cargo did not come to compile the files:\n{complaint}");
    said
}

/// The errors of each program, and whether cargo got as far as to say that it is done.
fn collect(messages: impl io::BufRead) -> (BTreeMap<String, Said>, bool) {
    let mut all = BTreeMap::<String, Said>::new();
    let mut finished = false;
    for message in Message::parse_stream(messages) {
        match message.unwrap() {
            Message::CompilerMessage(it) if it.message.level == DiagnosticLevel::Error => {
                let lines = lines_of(&it.message);
                if lines.is_empty() {
                    continue;
                }
                let mut texts = String::new();
                add_texts(&it.message, &mut texts);
                let rendered = it.message.rendered.unwrap_or_default();
                all.entry(it.target.name).or_default().errors.push(Error { lines, texts, rendered });
            }
            Message::BuildFinished(_) => finished = true,
            _ => {}
        }
    }
    (all, finished)
}

/// The lines of the file that an error points at, and of what a macro made also those that the macro was called at. None
/// for the summary at the end, such as `aborting due to 2 previous errors`.
fn lines_of(error: &Diagnostic) -> Vec<RangeInclusive<usize>> {
    let mut lines = Vec::new();
    for mut span in error.spans.iter().filter(|it| it.is_primary) {
        loop {
            if span.file_name.contains("tests/ui/") {
                lines.push(span.line_start..=span.line_end);
            }
            let Some(expansion) = &span.expansion else { break };
            span = &expansion.span;
        }
    }
    lines
}

/// The message, labels and notes of an error, and the lines of ours that it shows, a line each.
fn add_texts(diagnostic: &Diagnostic, texts: &mut String) {
    let labels = diagnostic.spans.iter().filter_map(|span| span.label.as_ref());
    // What the compiler says of `Send` takes no notes of ours, but it shows the bound, and what stands behind it.
    let ours = diagnostic.spans.iter().filter(|span| !span.file_name.contains("tests/ui/"));
    let bounds = ours.flat_map(|span| span.text.iter().map(|line| &line.text));
    for text in std::iter::once(&diagnostic.message).chain(labels).chain(bounds) {
        texts.push_str(text);
        texts.push('\n');
    }
    diagnostic.children.iter().for_each(|child| add_texts(child, texts));
}
