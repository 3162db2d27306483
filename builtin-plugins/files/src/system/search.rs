//! Finding files, and lines in them.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::fs::{Dir, File};
use globset::GlobBuilder;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use linn_services::fs::{
    FsError, FsFileMatches, FsFind, FsFound, FsKind, FsLine, FsSearch, FsSearchMode, FsSearchResult,
};

use crate::system::error::about;
use crate::system::tree::{LastLink, Place, Tree, open_file};
use crate::system::walk::{Walk, Walked};
use crate::system::workers::Stop;

/// How long a line may be. A file with a longer one is no text that anybody reads.
const LINE_BYTES: usize = 8 * 1024 * 1024;

impl Tree {
    pub(crate) fn find(&self, query: &FsFind, stop: &Stop) -> Result<FsFound, FsError> {
        self.check_words(&query.pattern)?;
        let bad = |why: &globset::Error| FsError::BadPattern {
            what: "glob pattern",
            pattern: query.pattern.clone(),
            why: why.kind().to_string(),
        };
        let written = query.pattern.strip_prefix("./");
        let pattern = written.unwrap_or(&query.pattern);
        // A name alone is looked for everywhere, as ignore files have it.
        let anywhere = if written.is_none() && !pattern.contains('/') { "**/" } else { "" };
        let glob = GlobBuilder::new(&format!("{anywhere}{pattern}"))
            .literal_separator(true)
            .build()
            .map_err(|error| bad(&error))?
            .compile_matcher();
        let start = literal_folder(pattern);
        let place = self.locate(start, LastLink::Follow)?;
        if self.kind_at(&place, start)? != Some(FsKind::Folder) {
            return Ok(FsFound::default());
        }
        let mut found = FsFound::default();
        let walk = Walk { stop, overrides: &Override::empty() };
        walk.run(self, &place, start, &mut |file| {
            // Below a folder that is named by a link the names are those that were asked for.
            let below = file.absolute.strip_prefix(place.absolute()).unwrap_or(file.absolute);
            let path = Path::new(start).join(below);
            if !glob.is_match(&path) {
                return ControlFlow::Continue(());
            }
            if found.paths.len() == query.limit {
                found.is_cut = true;
                return ControlFlow::Break(());
            }
            found.paths.push(path.to_string_lossy().into_owned());
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    pub(crate) fn search(&self, query: &FsSearch, stop: &Stop) -> Result<FsSearchResult, FsError> {
        let overrides = overrides_of(self, query)?;
        let mut search = Search {
            query,
            matcher: matcher_of(query)?,
            searcher: searcher_of(query),
            types: types_of(query)?,
            stop,
            n_seen: 0,
            result: FsSearchResult::default(),
        };
        let whole = [String::new()];
        for path in if query.paths.is_empty() { &whole } else { &query.paths[..] } {
            let place = self.locate(path, LastLink::Follow)?;
            match self.kind_at(&place, path)? {
                None => return Err(FsError::NotFound(path.clone())),
                Some(FsKind::Folder) => {
                    let walk = Walk { stop, overrides: &overrides };
                    walk.run(self, &place, path, &mut |file| search.walked(&place, path, file))?;
                }
                Some(_) => {
                    let (folder, name) = self.open_above(&place, path)?;
                    search.named(&folder, &name, path)?;
                }
            }
            if search.is_over() {
                break;
            }
        }
        Ok(search.result)
    }
}

/// The folder that every path has in it that fits a pattern.
fn literal_folder(pattern: &str) -> &str {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    pattern[..special].rfind('/').map_or("", |at| &pattern[..at.max(1)])
}

/// A path as results show it.
fn plain(path: &str) -> &str {
    let path = path.trim_start_matches("./");
    if path == "." { "" } else { path }
}

fn matcher_of(query: &FsSearch) -> Result<RegexMatcher, FsError> {
    RegexMatcherBuilder::new()
        .case_insensitive(query.is_case_insensitive)
        .word(query.is_word)
        .fixed_strings(query.is_fixed)
        // `^` and `$` are the ends of a line; matches never go over one.
        .multi_line(true)
        .crlf(true)
        .build(&query.pattern)
        .map_err(|error| FsError::BadPattern {
            what: "regular expression",
            pattern: query.pattern.clone(),
            why: error.to_string(),
        })
}

fn searcher_of(query: &FsSearch) -> Searcher {
    let mut builder = SearcherBuilder::new();
    builder
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES))
        .invert_match(query.is_inverted)
        .line_number(true);
    if query.mode == FsSearchMode::Lines {
        builder.before_context(query.before).after_context(query.after);
    }
    builder.build()
}

fn overrides_of(tree: &Tree, query: &FsSearch) -> Result<Override, FsError> {
    let mut builder = OverrideBuilder::new(tree.workspace());
    for glob in &query.globs {
        builder.add(glob).map_err(|error| bad_glob(glob, &error))?;
    }
    builder.build().map_err(|error| bad_glob(&query.globs.join(", "), &error))
}

fn bad_glob(glob: &str, error: &ignore::Error) -> FsError {
    FsError::BadPattern { what: "glob pattern", pattern: glob.to_owned(), why: error.to_string() }
}

fn types_of(query: &FsSearch) -> Result<Option<Types>, FsError> {
    let Some(name) = &query.file_type else { return Ok(None) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map(Some).map_err(|_| FsError::BadPattern {
        what: "file type",
        pattern: name.clone(),
        why: "it is not known; use its usual short name, such as rust, py, ts, md, or a glob".to_owned(),
    })
}

/// A search under way.
struct Search<'a> {
    query: &'a FsSearch,
    matcher: RegexMatcher,
    searcher: Searcher,
    types: Option<Types>,
    stop: &'a Stop,
    /// Results so far, with those that are skipped.
    n_seen: usize,
    result: FsSearchResult,
}

impl Search<'_> {
    fn walked(&mut self, place: &Place, path: &str, file: &Walked<'_>) -> ControlFlow<()> {
        if self.types.as_ref().is_some_and(|it| it.matched(file.absolute, false).is_ignore()) {
            return ControlFlow::Continue(());
        }
        let below = file.absolute.strip_prefix(place.absolute()).unwrap_or(file.absolute);
        let shown = Path::new(plain(path)).join(below);
        if let Ok(open) = open_file(file.folder, file.name) {
            // What cannot be read, or has a line too long to be text, is left out.
            drop(self.look(open, shown.to_string_lossy().into_owned()));
        }
        if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A file that was asked for by its name.
    fn named(&mut self, folder: &Dir, name: &OsStr, path: &str) -> Result<(), FsError> {
        let open = open_file(folder, name).map_err(|it| about(path, &it))?;
        if !open.metadata().is_ok_and(|it| it.is_file()) {
            return Err(FsError::WrongKind {
                path: path.to_owned(),
                found: "a pipe, socket or device",
                wanted: "a file or folder",
            });
        }
        self.look(open, plain(path).to_owned()).map_err(|it| about(path, &it))
    }

    fn look(&mut self, file: File, path: String) -> io::Result<()> {
        let mut lines = Lines {
            query: self.query,
            stop: self.stop,
            n_seen: self.n_seen,
            pending: Vec::new(),
            is_last_shown: false,
            found: FsFileMatches { path, ..FsFileMatches::default() },
            is_binary: false,
            is_cut: false,
        };
        self.searcher.search_file(&self.matcher, &file.into_std(), &mut lines)?;
        let Lines { n_seen, found, is_binary, is_cut, .. } = lines;
        if is_binary || found.count == 0 {
            return Ok(());
        }
        let FsSearch { mode, skip, limit, .. } = *self.query;
        if mode == FsSearchMode::Lines {
            self.n_seen = n_seen;
            self.result.is_cut = is_cut;
            if !found.lines.is_empty() {
                self.result.files.push(FsFileMatches { count: 0, ..found });
            }
            return Ok(());
        }
        self.n_seen += 1;
        let count = if mode == FsSearchMode::Counts { found.count } else { 0 };
        self.result.total += count;
        if self.n_seen > skip.saturating_add(limit) {
            self.result.is_cut = true;
        } else if self.n_seen > skip {
            self.result.files.push(FsFileMatches { count, ..found });
        }
        Ok(())
    }

    /// Nothing that is still to come would be told. A total is of all files.
    fn is_over(&self) -> bool {
        self.result.is_cut && self.query.mode != FsSearchMode::Counts
    }
}

/// The lines of one file.
struct Lines<'a> {
    query: &'a FsSearch,
    stop: &'a Stop,
    /// Matching lines so far, with those of other files and those that are skipped.
    n_seen: usize,
    /// Lines that stand before a match, if one comes that is shown.
    pending: Vec<FsLine>,
    is_last_shown: bool,
    found: FsFileMatches,
    is_binary: bool,
    is_cut: bool,
}

impl Lines<'_> {
    fn line(&self, number: Option<u64>, bytes: &[u8], is_context: bool) -> FsLine {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // What is cut off need not be looked at; a character has four bytes at most.
        let near = bytes.len().min(self.query.line_limit_bytes + 4);
        let mut text = String::from_utf8_lossy(&bytes[..near]).into_owned();
        let cut_bytes = if bytes.len() > self.query.line_limit_bytes {
            text.truncate(text.floor_char_boundary(self.query.line_limit_bytes));
            bytes.len().saturating_sub(text.len())
        } else {
            0
        };
        FsLine { number: number.unwrap_or_default(), text, is_context, cut_bytes }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        self.found.count += 1;
        if self.stop.is_set() {
            return Ok(false);
        }
        match self.query.mode {
            FsSearchMode::Files => return Ok(false),
            FsSearchMode::Counts => return Ok(true),
            FsSearchMode::Lines => {}
        }
        if self.n_seen == self.query.skip.saturating_add(self.query.limit) {
            self.is_cut = true;
            return Ok(false);
        }
        self.n_seen += 1;
        self.is_last_shown = self.n_seen > self.query.skip;
        let before = std::mem::take(&mut self.pending);
        if self.is_last_shown {
            self.found.lines.extend(before);
            self.found.lines.push(self.line(matched.line_number(), matched.bytes(), false));
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let line = self.line(context.line_number(), context.bytes(), true);
        match context.kind() {
            SinkContextKind::Before => self.pending.push(line),
            SinkContextKind::After | SinkContextKind::Other if self.is_last_shown => self.found.lines.push(line),
            SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
