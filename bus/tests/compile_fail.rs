//! What must not compile, and what the compiler then says.
//!
//! Each file of `tests/ui` is a program of its own. Its `//~ text` comments are lines of ours that the errors must show:
//! notes of traits and messages of macros. The compiler's own words around them are not looked at, since they change
//! between releases. A file with the single comment `//~ compiles` is the counterpart: the forms that the messages name.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use cargo_metadata::Message;
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel};

const COMPILES: &str = "compiles";

struct Case {
    path: PathBuf,
    /// Texts after `//~`.
    expected: Vec<String>,
}

/// What the compiler said about one file: to search in, and to show.
#[derive(Default)]
struct Said {
    texts: String,
    rendered: String,
}

#[test]
fn wrong_uses_do_not_compile_and_the_message_names_the_fix() {
    let cases = cases();
    let said = check_all(&cases);
    let silent = Said::default();
    let mut problems = String::new();
    for (name, case) in &cases {
        let said = said.get(name).unwrap_or(&silent);
        for problem in problems_of(case, said) {
            writeln!(problems, "{}: {problem}", case.path.display()).unwrap();
        }
        if !problems_of(case, said).is_empty() {
            writeln!(problems, "the compiler said:\n{}", said.rendered).unwrap();
        }
    }
    assert!(problems.is_empty(), "\n{problems}");
}

fn problems_of(case: &Case, said: &Said) -> Vec<String> {
    match (case.expected.as_slice(), said.texts.is_empty()) {
        ([], _) => vec!["has no `//~ text` comment, so it asserts nothing".to_owned()],
        ([only], false) if only == COMPILES => vec!["does not compile".to_owned()],
        ([only], true) if only == COMPILES => Vec::new(),
        (_, true) => vec!["compiles".to_owned()],
        (expected, false) => expected
            .iter()
            .filter(|text| !said.texts.contains(text.as_str()))
            .map(|text| format!("no error says\n    {text}"))
            .collect(),
    }
}

fn cases() -> BTreeMap<String, Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .map(|path| {
            let source = fs::read_to_string(&path).unwrap();
            let texts = source.lines().filter_map(|line| Some(line.split_once("//~ ")?.1.trim().to_owned()));
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, Case { expected: texts.collect(), path })
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
                let said = all.entry(it.target.name).or_default();
                add_texts(&it.message, &mut said.texts);
                said.rendered.push_str(it.message.rendered.as_deref().unwrap_or_default());
            }
            Message::BuildFinished(_) => finished = true,
            _ => {}
        }
    }
    (all, finished)
}

/// The message, labels and notes of an error, a line each.
fn add_texts(diagnostic: &Diagnostic, texts: &mut String) {
    let labels = diagnostic.spans.iter().filter_map(|span| span.label.as_ref());
    for text in std::iter::once(&diagnostic.message).chain(labels) {
        texts.push_str(text);
        texts.push('\n');
    }
    diagnostic.children.iter().for_each(|child| add_texts(child, texts));
}
