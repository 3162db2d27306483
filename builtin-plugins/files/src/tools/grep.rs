//! `grep`.

use linn_services::fs::{FsLine, FsSearch, FsSearchMode, FsSearchResult};
use linn_services::tools::{RESULT_LIMIT_BYTES, ToolExecution, ToolFailure, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::{FileTool, Files, Problem};

/// How many results are shown if nobody says.
const HEAD_LIMIT: usize = 50;

/// How many results are shown at most.
const MAX_HEAD_LIMIT: usize = 2_000;

/// How many lines around a match are shown at most.
const MAX_CONTEXT: usize = 50;

/// How many bytes of a line are shown.
const LINE_BYTES: usize = 500;

/// Room for the last lines.
const FOOTER_BYTES: usize = 256;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Grep {
    /// A regular expression, matched line by line.
    pattern: String,
    /// File or folder to look into, relative to the workspace; by default the workspace.
    #[serde(default)]
    path: Option<String>,
    /// Files and folders to look into, in place of `path`.
    #[serde(default)]
    paths: Option<Vec<String>>,
    /// Patterns for the paths of files, such as `*.rs`; one that begins with `!` leaves files out.
    #[serde(default)]
    glob: Option<OneOrMany>,
    /// Kind of files, such as `rust`, `py`, `ts`.
    #[serde(default, rename = "type")]
    file_type: Option<String>,
    /// Upper and lower case are the same.
    #[serde(default)]
    case_insensitive: Option<bool>,
    /// What is shown: the lines, the files that have any, or how many each has.
    #[serde(default)]
    output_mode: Option<OutputMode>,
    /// How many results are shown; by default 50.
    #[serde(default)]
    head_limit: Option<usize>,
    /// How many results to leave out at the beginning.
    #[serde(default)]
    offset: Option<usize>,
    /// Lines to show before and after each match.
    #[serde(default)]
    context: Option<usize>,
    /// Lines to show after each match.
    #[serde(default)]
    after: Option<usize>,
    /// Lines to show before each match.
    #[serde(default)]
    before: Option<usize>,
    /// Show lines that do not match.
    #[serde(default)]
    invert: Option<bool>,
    /// The pattern is text, and no regular expression.
    #[serde(default)]
    fixed_string: Option<bool>,
    /// Match whole words alone.
    #[serde(default)]
    word: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    Content,
    FilesWithMatches,
    Count,
}

impl FileTool for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Looks for a regular expression in the text files of the workspace. Results are \
         `path:line:text`; lines around a match are `path-line-text`. Files that .gitignore or .ignore name are left out, \
         unless `path` or `glob` names them.";

    async fn run(self, files: &Files, _: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let query = self.query();
        let (skip, mode) = (query.skip, query.mode);
        let has_context = query.before + query.after > 0;
        let result = files.fs.search(query).await;
        let result = result.map_err(|it| Problem::from(it).failure(Self::NAME, &self.pattern))?;
        if result.files.is_empty() && skip == 0 {
            return Ok("no match".into());
        }
        Ok(show(&result, mode, skip, has_context).into())
    }
}

impl Grep {
    fn query(&self) -> FsSearch {
        let is = |flag: Option<bool>| flag.unwrap_or(false);
        let around = |own: Option<usize>| own.or(self.context).unwrap_or(0).min(MAX_CONTEXT);
        let paths = match (&self.paths, &self.path) {
            (Some(paths), _) if !paths.is_empty() => paths.clone(),
            (_, path) => path.iter().filter(|it| !it.is_empty()).cloned().collect(),
        };
        FsSearch {
            pattern: self.pattern.clone(),
            is_fixed: is(self.fixed_string),
            is_case_insensitive: is(self.case_insensitive),
            is_word: is(self.word),
            is_inverted: is(self.invert),
            paths,
            globs: match &self.glob {
                None => Vec::new(),
                Some(OneOrMany::One(glob)) => vec![glob.clone()],
                Some(OneOrMany::Many(globs)) => globs.clone(),
            },
            file_type: self.file_type.clone(),
            mode: match self.output_mode.unwrap_or_default() {
                OutputMode::Content => FsSearchMode::Lines,
                OutputMode::FilesWithMatches => FsSearchMode::Files,
                OutputMode::Count => FsSearchMode::Counts,
            },
            before: around(self.before),
            after: around(self.after),
            skip: self.offset.unwrap_or(0),
            limit: self.head_limit.unwrap_or(HEAD_LIMIT).clamp(1, MAX_HEAD_LIMIT),
            line_limit_bytes: LINE_BYTES,
        }
    }
}

/// The results as text, as many as have room.
fn show(result: &FsSearchResult, mode: FsSearchMode, skip: usize, has_context: bool) -> String {
    let mut page = Page { text: String::new(), room: RESULT_LIMIT_BYTES - FOOTER_BYTES, n_shown: 0, is_full: false };
    for file in &result.files {
        let path = &file.path;
        match mode {
            FsSearchMode::Files => page.push(path, true),
            FsSearchMode::Counts => page.push(&format!("{path}:{}", file.count), true),
            FsSearchMode::Lines => {
                let mut last = 0;
                for line in &file.lines {
                    // A gap between two parts of a file, or between two files.
                    if has_context && !page.text.is_empty() && (last == 0 || line.number > last + 1) {
                        page.push("--", false);
                    }
                    last = line.number;
                    page.push(&line_of(path, line), !line.is_context);
                }
            }
        }
    }
    let Page { mut text, n_shown, is_full, .. } = page;
    if is_full || result.is_cut {
        let next = skip + n_shown;
        text.push_str(&format!("...[{n_shown} match cap reached; pass offset={next} to continue]\n"));
    }
    if mode == FsSearchMode::Counts {
        text.push_str(&format!("# total: {}\n", result.total));
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

fn line_of(path: &str, line: &FsLine) -> String {
    let mark = if line.is_context { '-' } else { ':' };
    let cut = match line.cut_bytes {
        0 => String::new(),
        n => format!(" ...[{n} more bytes]"),
    };
    format!("{path}{mark}{}{mark}{}{cut}", line.number, line.text)
}

struct Page {
    text: String,
    room: usize,
    n_shown: usize,
    is_full: bool,
}

impl Page {
    fn push(&mut self, line: &str, is_result: bool) {
        if self.is_full || line.len() + 1 > self.room {
            self.is_full = true;
            return;
        }
        self.room -= line.len() + 1;
        self.text.push_str(line);
        self.text.push('\n');
        self.n_shown += usize::from(is_result);
    }
}
