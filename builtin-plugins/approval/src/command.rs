//! Takes a command line of a POSIX shell apart into its simple commands.
//!
//! This is no shell parser. A parser tells what a line means, and whoever walks its tree has to know every kind of node
//! that can hide a command. Here it is the other way round: only what is known to be harmless is read, words and quotes and
//! the separators between commands, and any other character makes the whole line unclear. Substitutions, expansions,
//! redirects into files, groups, functions, loops and here-documents are unclear, and so is what a human would not see.

/// A command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// These commands run and nothing else, as far as the shell is concerned.
    Simple(Vec<SimpleCommand>),
    /// What it runs cannot be told.
    Unclear(Unclear),
}

/// Why it cannot be told what a line runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unclear {
    /// A character that cannot be seen, or that a shell ends a line with.
    HiddenCharacter,
    /// `$` or a backquote where the shell expands it.
    Expansion,
    /// A redirect to or from something that is not the null device.
    Redirect,
    /// A group, subshell, function, comment, or a word of the shell's own grammar.
    Grammar,
    /// A quote that does not end, a backslash at the end, an operator without a command.
    Unfinished,
    /// A command whose name is a pattern.
    PatternName,
}

impl Unclear {
    /// In words, after "it".
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::HiddenCharacter => "holds a character that cannot be seen",
            Self::Expansion => "holds an expansion or a substitution",
            Self::Redirect => "redirects to or from a file",
            Self::Grammar => "holds more than simple commands",
            Self::Unfinished => "is not complete",
            Self::PatternName => "has a pattern for the name of a command",
        }
    }
}

/// A command with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// As it was written, with one blank between words and without redirects to the null device.
    pub(crate) text: String,
    /// Its words without quotes; variable assignments before the command are not among them.
    pub(crate) words: Vec<String>,
    /// It begins with variable assignments.
    pub(crate) has_assignments: bool,
}

/// Words that begin something other than a simple command.
const GRAMMAR_WORDS: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while", "{", "}",
];

/// Reads a command line.
pub(crate) fn read(line: &str) -> Line {
    if line.chars().any(is_hidden) {
        return Line::Unclear(Unclear::HiddenCharacter);
    }
    match Reader::new(line).read() {
        Ok(commands) => Line::Simple(commands),
        Err(unclear) => Line::Unclear(unclear),
    }
}

/// Control characters but tab and line feed, and characters that change how others are shown or show nothing.
fn is_hidden(it: char) -> bool {
    let is_format = matches!(
        it,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    is_format || (it.is_control() && it != '\n' && it != '\t')
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    /// Words are in it, or redirects.
    has_begun: bool,
    /// A command has to follow.
    needs_command: bool,
}

/// A word as it was written and as the shell sees it.
#[derive(Default)]
struct Word {
    written: String,
    meant: String,
    /// A character of it was quoted.
    is_quoted: bool,
    /// It holds a pattern of file names outside of quotes.
    is_pattern: bool,
}

impl<'a> Reader<'a> {
    fn new(line: &'a str) -> Self {
        Self {
            rest: line.chars().peekable(),
            commands: Vec::new(),
            command: SimpleCommand::default(),
            has_begun: false,
            needs_command: false,
        }
    }

    fn read(mut self) -> Result<Vec<SimpleCommand>, Unclear> {
        while let Some(it) = self.rest.peek().copied() {
            match it {
                ' ' | '\t' => drop(self.rest.next()),
                '\n' => {
                    self.rest.next();
                    // A line feed ends a command, and stands for nothing after an operator.
                    if self.has_begun {
                        self.end_command();
                    }
                }
                ';' => {
                    self.rest.next();
                    self.end_by_operator(false)?;
                }
                '|' => {
                    self.rest.next();
                    let _ = self.takes('|') || self.takes('&');
                    self.end_by_operator(true)?;
                }
                '&' => {
                    self.rest.next();
                    if self.rest.peek() == Some(&'>') {
                        self.redirect()?;
                    } else {
                        let is_and = self.takes('&');
                        self.end_by_operator(is_and)?;
                    }
                }
                '<' | '>' => self.redirect()?,
                '#' => return Err(Unclear::Grammar),
                _ => self.word()?,
            }
        }
        if self.has_begun {
            self.end_command();
        }
        if self.needs_command { Err(Unclear::Unfinished) } else { Ok(self.commands) }
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn end_by_operator(&mut self, needs_command: bool) -> Result<(), Unclear> {
        if !self.has_begun {
            return Err(Unclear::Unfinished);
        }
        self.end_command();
        self.needs_command = needs_command;
        Ok(())
    }

    fn end_command(&mut self) {
        self.commands.push(std::mem::take(&mut self.command));
        self.has_begun = false;
        self.needs_command = false;
    }

    /// `>`, `>>` or `<` with the null device, or `>&` with the number of a stream.
    fn redirect(&mut self) -> Result<(), Unclear> {
        let is_input = self.rest.next() == Some('<');
        if !is_input {
            self.takes('>');
            if self.takes('&') {
                let stream = self.plain_word()?;
                let is_number = stream.chars().all(|it| it.is_ascii_digit()) && !stream.is_empty();
                self.has_begun = true;
                return if is_number { Ok(()) } else { Err(Unclear::Redirect) };
            }
        }
        while self.rest.next_if(|it| matches!(it, ' ' | '\t')).is_some() {}
        self.has_begun = true;
        if self.plain_word()? == "/dev/null" { Ok(()) } else { Err(Unclear::Redirect) }
    }

    /// A word without quotes, which ends where a word ends.
    fn plain_word(&mut self) -> Result<String, Unclear> {
        let mut word = String::new();
        while let Some(it) = self.rest.next_if(|it| it.is_ascii_alphanumeric() || *it == '/') {
            word.push(it);
        }
        match self.rest.peek() {
            None | Some(' ' | '\t' | '\n' | ';' | '|' | '&') => Ok(word),
            Some(_) => Err(Unclear::Redirect),
        }
    }

    fn word(&mut self) -> Result<(), Unclear> {
        let mut word = Word::default();
        while let Some(it) = self.rest.peek().copied() {
            match it {
                ' ' | '\t' | '\n' | ';' | '|' | '&' => break,
                '<' | '>' => {
                    // A number right before a redirect names the stream.
                    if !word.is_quoted && !word.meant.is_empty() && word.meant.chars().all(|it| it.is_ascii_digit()) {
                        return self.redirect();
                    }
                    break;
                }
                '$' | '`' => return Err(Unclear::Expansion),
                '(' | ')' | '{' | '}' => return Err(Unclear::Grammar),
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    self.rest.next();
                    let Some(quoted) = self.rest.next().filter(|it| *it != '\n') else {
                        return Err(Unclear::Unfinished);
                    };
                    word.is_quoted = true;
                    word.written.extend(['\\', quoted]);
                    word.meant.push(quoted);
                }
                it => {
                    self.rest.next();
                    word.is_pattern |= matches!(it, '*' | '?' | '[');
                    word.written.push(it);
                    word.meant.push(it);
                }
            }
        }
        self.take_word(word)
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), Unclear> {
        self.rest.next();
        word.is_quoted = true;
        word.written.push('\'');
        loop {
            let it = self.rest.next().ok_or(Unclear::Unfinished)?;
            word.written.push(it);
            if it == '\'' {
                return Ok(());
            }
            word.meant.push(it);
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), Unclear> {
        self.rest.next();
        word.is_quoted = true;
        word.written.push('"');
        loop {
            let it = self.rest.next().ok_or(Unclear::Unfinished)?;
            word.written.push(it);
            match it {
                '"' => return Ok(()),
                '$' | '`' => return Err(Unclear::Expansion),
                '\\' => {
                    let next = self.rest.next().ok_or(Unclear::Unfinished)?;
                    if next == '\n' {
                        return Err(Unclear::Unfinished);
                    }
                    if !matches!(next, '$' | '`' | '"' | '\\') {
                        word.meant.push('\\');
                    }
                    word.written.push(next);
                    word.meant.push(next);
                }
                it => word.meant.push(it),
            }
        }
    }

    fn take_word(&mut self, word: Word) -> Result<(), Unclear> {
        self.has_begun = true;
        let is_name = self.command.words.is_empty();
        if is_name && !word.is_quoted && GRAMMAR_WORDS.contains(&word.meant.as_str()) {
            return Err(Unclear::Grammar);
        }
        let is_assignment = is_name && is_assignment(&word.written);
        if is_name && word.is_pattern && !is_assignment && word.written != "[" {
            return Err(Unclear::PatternName);
        }
        if !self.command.text.is_empty() {
            self.command.text.push(' ');
        }
        self.command.text.push_str(&word.written);
        if is_assignment {
            self.command.has_assignments = true;
        } else {
            self.command.words.push(word.meant);
        }
        Ok(())
    }
}

/// Whether a word before the command sets a variable. Anything that a shell could take for one counts.
fn is_assignment(written: &str) -> bool {
    let Some((name, _)) = written.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or(name);
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Commands that run what their arguments or their input say, or change what the name of another one runs. Without the
/// numbers of versions.
const WRAPPERS: &[&str] = &[
    ".",
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "builtin",
    "bun",
    "busybox",
    "bwrap",
    "capsh",
    "choom",
    "chroot",
    "chrt",
    "command",
    "compgen",
    "csh",
    "dash",
    "deno",
    "doas",
    "enable",
    "entr",
    "env",
    "eval",
    "exec",
    "expect",
    "fakeroot",
    "faketime",
    "find",
    "firejail",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "hash",
    "ionice",
    "ksh",
    "lua",
    "make",
    "mapfile",
    "mksh",
    "nice",
    "node",
    "nohup",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perl",
    "php",
    "pkexec",
    "prlimit",
    "pwsh",
    "python",
    "rbash",
    "readarray",
    "ruby",
    "run-parts",
    "runuser",
    "screen",
    "script",
    "sed",
    "setarch",
    "setpriv",
    "setsid",
    "sh",
    "source",
    "ssh",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "tclsh",
    "tcsh",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "trap",
    "unbuffer",
    "unshare",
    "watch",
    "xargs",
    "yash",
    "zsh",
];

impl SimpleCommand {
    /// The name of the command without its folder, in small letters.
    pub(crate) fn name(&self) -> String {
        let name = self.words.first().map_or("", String::as_str);
        name.rsplit('/').next().unwrap_or(name).to_lowercase()
    }

    /// Whether it may run another command that is not seen here as one.
    pub(crate) fn is_wrapper(&self) -> bool {
        let name = self.name();
        let unversioned = name.trim_end_matches(|it: char| it.is_ascii_digit() || matches!(it, '.' | '-'));
        [name.as_str(), unversioned].iter().any(|it| WRAPPERS.contains(it))
    }

    /// Everything that a rule which forbids may mean by it.
    pub(crate) fn readings(&self) -> Vec<String> {
        let joined = self.words.join(" ");
        let mut by_name = self.words.clone();
        if let Some(first) = by_name.first_mut() {
            *first = self.name();
        }
        vec![self.text.clone(), joined, by_name.join(" ")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        match read(line) {
            Line::Simple(commands) => commands.into_iter().map(|it| it.text).collect(),
            Line::Unclear(why) => panic!("{line:?} is unclear: {why:?}"),
        }
    }

    fn unclear(line: &str) -> Unclear {
        match read(line) {
            Line::Simple(commands) => panic!("{line:?} is {commands:?}"),
            Line::Unclear(why) => why,
        }
    }

    #[test]
    fn separators_part_commands() {
        assert_eq!(texts("a; b && c || d | e |& f & g"), ["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(texts("a b\n\n  c\td  \n"), ["a b", "c d"]);
        assert_eq!(texts("a &&\n b;"), ["a", "b"]);
        assert_eq!(texts(""), Vec::<String>::new());
    }

    #[test]
    fn separators_in_quotes_are_text() {
        assert_eq!(texts(r#"echo "a && b; c | d""#), [r#"echo "a && b; c | d""#]);
        assert_eq!(texts("echo 'x > y'"), ["echo 'x > y'"]);
        assert_eq!(texts(r"echo a\;b\&\&c"), [r"echo a\;b\&\&c"]);
        let Line::Simple(commands) = read(r#"'g'i"t" "a\"b" 'c\d' "e\f" g\ h"#) else { panic!() };
        assert_eq!(commands[0].words, ["git", "a\"b", "c\\d", "e\\f", "g h"]);
    }

    #[test]
    fn harmless_redirects_are_left_out() {
        assert_eq!(texts("a b >/dev/null 2>&1; c 2> /dev/null < /dev/null d &>/dev/null"), ["a b", "c d"]);
        assert_eq!(texts("a 12"), ["a 12"]);
    }

    #[test]
    fn what_cannot_be_told_is_unclear() {
        use Unclear::{Expansion, Grammar, HiddenCharacter, PatternName, Redirect, Unfinished};
        for (line, why) in [
            ("a $(b)", Expansion),
            ("a `b`", Expansion),
            ("a \"$(b)\"", Expansion),
            ("a \"`b`\"", Expansion),
            ("a $B", Expansion),
            ("a $'b'", Expansion),
            ("a > b", Redirect),
            ("a >b", Redirect),
            ("a >| b", Redirect),
            ("a >> b", Redirect),
            ("a 2>b", Redirect),
            ("a > /dev/nullx", Redirect),
            ("a > /dev/null/../x", Redirect),
            ("a >/dev/null\\x", Redirect),
            ("a >/dev/null'x'", Redirect),
            ("a >& b", Redirect),
            ("a >&2x", Redirect),
            ("a &> b", Redirect),
            ("a < b", Redirect),
            ("a << b", Redirect),
            ("a <(b)", Redirect),
            ("a <> /dev/null", Redirect),
            ("(a)", Grammar),
            ("a() b", Grammar),
            ("{ a; }", Grammar),
            ("! a", Grammar),
            ("if a; then b; fi", Grammar),
            ("[[ a ]]", Grammar),
            ("a # b", Grammar),
            ("{a,b} c", Grammar),
            ("a \"b", Unfinished),
            ("a 'b", Unfinished),
            ("a \\", Unfinished),
            ("a \\\nb", Unfinished),
            ("a &&", Unfinished),
            ("&& a", Unfinished),
            ("a ;; b", Unfinished),
            ("/bin/t*ch a", PatternName),
            ("a\u{0}; b", HiddenCharacter),
            ("a\r\nb", HiddenCharacter),
            ("a \u{202e}b", HiddenCharacter),
            ("a\u{200b}", HiddenCharacter),
        ] {
            assert_eq!(unclear(line), why, "{line:?}");
        }
    }

    #[test]
    fn assignments_before_a_command_are_told() {
        let Line::Simple(commands) = read("PAGER='touch x' A+=1 B[0]=2 git log --format=x") else { panic!() };
        assert!(commands[0].has_assignments);
        assert_eq!(commands[0].words, ["git", "log", "--format=x"]);
        assert_eq!(commands[0].text, "PAGER='touch x' A+=1 B[0]=2 git log --format=x");
        let Line::Simple(commands) = read("git PAGER=x") else { panic!() };
        assert!(!commands[0].has_assignments);
    }

    #[test]
    fn a_version_hides_no_wrapper() {
        for (line, is_wrapper) in [
            ("python3 x", true),
            ("/usr/bin/python3.12 x", true),
            ("lua5.4 x", true),
            ("perl-5.36 x", true),
            ("md5sum x", false),
            ("base64 x", false),
            ("7z x", false),
        ] {
            let Line::Simple(commands) = read(line) else { panic!() };
            assert_eq!(commands[0].is_wrapper(), is_wrapper, "{line}");
        }
    }

    #[test]
    fn names_are_read_as_the_shell_would_find_them() {
        for line in ["touch a", "/usr/bin/touch a", "'touch' a", r"t\ouch a", "X=1 touch a", "TOUCH a"] {
            let Line::Simple(commands) = read(line) else { panic!() };
            assert_eq!(commands[0].name(), "touch");
            assert!(commands[0].readings().contains(&"touch a".to_owned()), "{line}");
        }
        for line in ["sh -c x", "/bin/bash -lc x", "eval x", "xargs touch", "env touch", ". x"] {
            let Line::Simple(commands) = read(line) else { panic!() };
            assert!(commands[0].is_wrapper(), "{line}");
        }
    }

    /// Pieces of lines that mean something to a shell, or could.
    const PIECES: &[&str] = &[
        "", " ", "\t", "\n", "\r", "\u{b}", "\u{a0}", ";", ";;", "&", "&&", "|", "||", "|&", ">", ">>", ">|", ">&",
        "1>", "&>", "<", "<>", "<<E\n", "<<<", "<(", ">(", "\"", "'", "\\", "\\\n", "$", "$'", "$\"", "$(", "${",
        "${x:=", "$((", "`", "(", ")", "{", "{ ", "}", "#", "!", "=", "[", "]", "~", "*", "-n ", "^", "%", "\\'",
        "\\\"", "'\\''", "\"'\"",
    ];

    /// What a line may need to be whole.
    const ENDS: &[&str] = &["", "\"", "'", ")", "))", "`", "}", "; }", "\nE", "\\"];

    /// What bash makes of lines beside what is there: nothing.
    #[track_caller]
    fn assert_bash_makes_nothing(lines: &[String]) {
        assert!(lines.len() > 300, "only {} lines were read: nothing is tested", lines.len());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lines"), lines.join("\0") + "\0").unwrap();
        let script = "while IFS= read -r -d '' line; do (eval \"$line\") </dev/null >/dev/null 2>&1
            for it in *; do [ \"$it\" = lines ] || { printf '%q made %q' \"$line\" \"$it\"; exit 1; }; done; done < lines";
        #[expect(clippy::disallowed_methods, reason = "the shell says what a line means")]
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", script]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Lines of these with a piece or two in between, and all the ends, that are read as commands which are all wanted.
    fn lines_read(before: &str, behind: &str, is_wanted: impl Fn(&SimpleCommand) -> bool) -> Vec<String> {
        let pairs = PIECES.iter().flat_map(|it| PIECES.iter().map(move |other| (it, other)));
        let lines = pairs
            .flat_map(|(first, second)| ENDS.iter().map(move |end| format!("{before}{first}{second}{behind}{end}")));
        lines.filter(|it| matches!(read(it), Line::Simple(commands) if commands.iter().all(&is_wanted))).collect()
    }

    /// Holds the reading of lines against the shell itself: whatever stands between two commands, a line that is read as
    /// nothing but `echo` makes no file.
    #[test]
    fn r073_r074_r075_r076_r080_r082_bash_runs_nothing_of_a_line_that_was_not_read() {
        assert_bash_makes_nothing(&lines_read("echo a", "touch pwned", |it| crate::glob::fits("echo *", &it.text)));
    }

    /// The same for what a rule denies: where no command is read that has its name or runs others, it does not run.
    #[test]
    fn r079_bash_finds_no_command_that_was_not_read() {
        for (before, behind) in [("", "touch pwned"), ("to", "uch pwned"), ("ls ", "touch pwned")] {
            let is_harmless = |it: &SimpleCommand| !it.is_wrapper() && it.name() != "touch";
            assert_bash_makes_nothing(&lines_read(before, behind, is_harmless));
        }
    }
}
