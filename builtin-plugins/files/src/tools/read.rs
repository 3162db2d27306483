//! `read_file`.

use linn_services::fs::FsError;
use linn_services::tools::{RESULT_LIMIT_BYTES, ToolExecution, ToolFailure, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::text::{NotText, is_binary, without_mark};
use crate::tools::{FileTool, Files, Problem};

/// How many lines are shown of a file that nobody asked to page.
const WINDOW_LINES: usize = 200;

/// How many lines are shown at most.
const MAX_LINES: usize = 10_000;

/// Room for the header of a page.
const HEADER_BYTES: usize = 512;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ReadFile {
    /// Path of the file, relative to the workspace.
    pub(crate) path: String,
    /// First line to show, counted from 1.
    #[serde(default)]
    pub(crate) offset: Option<usize>,
    /// How many lines to show, at most 10000.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
    /// Put the number and `|` before each line.
    #[serde(default)]
    pub(crate) line_numbers: Option<bool>,
}

impl FileTool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Reads a text file of the workspace. A file of more than 200 lines is shown in pages: \
         pass offset and limit for others. Files have to be read before they can be edited or overwritten.";

    async fn run(self, files: &Files, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let text = self.read(files, call, RESULT_LIMIT_BYTES).await;
        text.map(Into::into).map_err(|it| it.failure(Self::NAME, &self.path))
    }
}

impl ReadFile {
    pub(crate) async fn read(&self, files: &Files, call: &ToolExecution, bytes: usize) -> Result<String, Problem> {
        let file = match files.read(&self.path, call.agent()).await {
            Err(FsError::WrongKind { found: "a folder", .. }) => return Err(Problem::Folder),
            file => file?,
        };
        if is_binary(&file.content) {
            return Err(NotText::Binary.into());
        }
        let text = String::from_utf8_lossy(&file.content);
        let (_, text) = without_mark(&text);
        let note = if std::str::from_utf8(&file.content).is_ok() {
            ""
        } else {
            " (not all of it is UTF-8; what is not is shown as \u{fffd})"
        };
        self.page(text, note, bytes)
    }

    /// The lines that were asked for, as many as have room, under a header if they are not all.
    fn page(&self, text: &str, note: &str, bytes: usize) -> Result<String, Problem> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let n_lines = lines.len();
        let is_paged = self.offset.is_some() || self.limit.is_some();
        let first = self.offset.unwrap_or(1).max(1);
        if first > n_lines.max(1) {
            return Err(Problem::PastEnd { offset: first, n_lines });
        }
        let wanted = match self.limit {
            Some(limit) => limit.clamp(1, MAX_LINES),
            None if is_paged || n_lines <= WINDOW_LINES => MAX_LINES,
            None => WINDOW_LINES,
        };
        let numbered = self.line_numbers.unwrap_or(false);
        let mut room = bytes.saturating_sub(HEADER_BYTES + self.path.len());
        let mut body = String::new();
        let mut last = first - 1;
        let mut cut_bytes = 0;
        for line in lines.iter().skip(first - 1).take(wanted) {
            let number = if numbered { format!("{}|", last + 1) } else { String::new() };
            if number.len() + line.len() > room {
                if body.is_empty() {
                    // One line is longer than a page: its beginning is all there is to show.
                    let shown = &line[..line.floor_char_boundary(room.saturating_sub(number.len()))];
                    cut_bytes = line.len() - shown.len();
                    body = number + shown;
                    last += 1;
                }
                break;
            }
            room -= number.len() + line.len();
            body.push_str(&number);
            body.push_str(line);
            last += 1;
        }
        let is_all = first == 1 && last == n_lines && cut_bytes == 0;
        let path = &self.path;
        let header = match (is_paged, is_all) {
            (false, true) if note.is_empty() => String::new(),
            (false, true) => format!("# {path}{note}\n"),
            (false, false) => {
                let pages = "(auto-windowed; pass offset/limit to page)";
                format!("# {path} lines {first}-{last} of {n_lines} {pages}{note}\n")
            }
            (true, _) => format!("# {path} lines {first}-{last} of {n_lines}{note}\n"),
        };
        let footer = match cut_bytes {
            0 => String::new(),
            n => format!("\n...[line {last} is longer than a page; {n} more bytes of it are not shown]"),
        };
        Ok(header + &body + &footer)
    }
}
