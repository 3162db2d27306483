//! Looking for files by name and by what they hold.

/// Which files to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsFind {
    /// What the path of a file fits, below the workspace: `*`, `?`, `[..]`, `{a,b}` within a name, `**` across folders.
    pub pattern: String,
    /// How many to give at most.
    pub limit: usize,
}

/// Files that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsFound {
    /// Their paths, sorted.
    pub paths: Vec<String>,
    /// There are more.
    pub is_cut: bool,
}

/// What to look for in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsSearch {
    /// A regular expression, matched line by line.
    pub pattern: String,
    /// The pattern is text, and no regular expression.
    pub is_fixed: bool,
    /// Upper and lower case are the same.
    pub is_case_insensitive: bool,
    /// A match begins and ends where words do.
    pub is_word: bool,
    /// Lines that do not match are what is looked for.
    pub is_inverted: bool,
    /// Files and folders to look into; none for the workspace.
    pub paths: Vec<String>,
    /// What the paths of files fit, one of them; those that begin with `!` leave files out.
    pub globs: Vec<String>,
    /// Kinds of files by their usual names, such as `rust`.
    pub file_type: Option<String>,
    /// What is to be told.
    pub mode: FsSearchMode,
    /// Lines to show before each that matches.
    pub before: usize,
    /// Lines to show behind each that matches.
    pub after: usize,
    /// How many results to leave out at the beginning: lines, or files where lines are not told.
    pub skip: usize,
    /// How many results to give at most.
    pub limit: usize,
    /// How many bytes of a line are told at most.
    pub line_limit_bytes: usize,
}

/// What a search tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FsSearchMode {
    /// The lines.
    #[default]
    Lines,
    /// The files that have any.
    Files,
    /// How many there are in each file.
    Counts,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsSearchResult {
    /// The files with matches, sorted by path.
    pub files: Vec<FsFileMatches>,
    /// Matching lines in all, counted in [`FsSearchMode::Counts`] alone.
    pub total: u64,
    /// There are more results than were to be given.
    pub is_cut: bool,
}

/// What a search found in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsFileMatches {
    /// The file.
    pub path: String,
    /// Matching lines in it, counted in [`FsSearchMode::Counts`] alone.
    pub count: u64,
    /// The lines, in [`FsSearchMode::Lines`] alone.
    pub lines: Vec<FsLine>,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text without the line end; what is not UTF-8 is replaced.
    pub text: String,
    /// It stands beside one that matches.
    pub is_context: bool,
    /// How many bytes at its end are not told.
    pub cut_bytes: usize,
}
