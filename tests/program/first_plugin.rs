//! The page "Write your first plugin", followed word by word, by a program that is far from its sources.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Stage, calls, says, stderr, stdout};

/// Longer than anything takes.
const AT_MOST: Duration = Duration::from_secs(120);

/// A copy of the program outside of the repository, with a home and a folder of its own.
struct Far {
    stage: Stage,
    program: PathBuf,
}

impl Far {
    fn new() -> Self {
        let stage = Stage::new();
        std::fs::create_dir(stage.path("bin")).unwrap();
        let program = stage.path("bin/linn");
        std::fs::copy(env!("CARGO_BIN_EXE_linn"), &program).unwrap();
        Self { stage, program }
    }

    /// The program in the folder `work`. What it builds is kept between runs of the tests, as with a user.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&self.program);
        command.args(arguments);
        command
    }

    #[expect(clippy::disallowed_methods, reason = "the program is what is tested")]
    fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let home = std::env::home_dir().unwrap();
        let of_rust = |name: &str, folder: &str| std::env::var_os(name).unwrap_or_else(|| home.join(folder).into());
        command.env_clear().current_dir(self.stage.path("work")).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.stage.path("home")).env("TMPDIR", self.stage.path("tmp"));
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.env("CARGO_HOME", of_rust("CARGO_HOME", ".cargo"));
        command.env("RUSTUP_HOME", of_rust("RUSTUP_HOME", ".rustup"));
        // What a plugin needs from outside is what the program needed, so it is here already.
        command.env("CARGO_NET_OFFLINE", "true").env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        command
    }

    fn linn(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn linn_well(&self, arguments: &[&str]) -> Output {
        let output = self.linn(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
        output
    }

    fn listed(&self, name: &str) -> Value {
        let listed: Value = serde_json::from_str(&stdout(&self.linn_well(&["plugin", "list", "--json"]))).unwrap();
        let native = listed["native"].as_array().unwrap().clone();
        native.into_iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name} in {listed:#}"))
    }
}

/// A conversation that goes on while other things happen.
struct Chat {
    child: Child,
    lines: Receiver<String>,
    seen: String,
}

impl Chat {
    fn begin(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        #[expect(clippy::disallowed_methods, reason = "it ends with the output of the child")]
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, seen: String::new() }
    }

    fn say(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for a line that has this text.
    fn see(&mut self, text: &str) {
        loop {
            let line = match self.lines.recv_timeout(AT_MOST) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("`{text}` does not come after:\n{}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without `{text}`:\n{}", self.seen),
            };
            self.seen += &(line.clone() + "\n");
            if line.contains(text) {
                return;
            }
        }
    }

    /// Ends the conversation as its user would.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.seen);
    }
}

/// A block of the page that is to be followed: what to do with it, and its text.
struct Block {
    what: String,
    text: String,
}

/// The blocks of a page whose fence says `follow` behind the language.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_inside = false;
    let mut is_followed = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if is_inside => is_inside = false,
            Some(info) => {
                is_inside = true;
                let what = info.split_once(" follow ").map(|(_, what)| what.trim().to_owned());
                is_followed = what.is_some();
                blocks.extend(what.map(|what| Block { what, text: String::new() }));
            }
            None if is_inside && is_followed => {
                if let Some(block) = blocks.last_mut() {
                    block.text += &format!("{line}\n");
                }
            }
            None => {}
        }
    }
    blocks
}

/// Applies a diff of one place, which is found by its own lines.
fn apply(diff: &str, text: &str) -> String {
    let side = |other: char| -> String {
        let lines = diff.lines().filter(|it| !it.starts_with(other));
        lines.map(|it| format!("{}\n", it.get(1..).unwrap_or_default())).collect()
    };
    let (old, new) = (side('+'), side('-'));
    assert_eq!(text.matches(&old).count(), 1, "{old} in {text}");
    text.replace(&old, &new)
}

#[test]
fn the_page_leads_to_a_plugin_that_is_reloaded_while_a_conversation_goes_on() {
    let far = Far::new();
    let greet = |id: &str| calls(id, "hello", &json!({ "name": "Ada" }));
    let model = far.stage.recording("model", &[greet("c1"), says("Greeted."), greet("c2"), says("Greeted again.")]);
    far.stage.write("home/.config/linn/linn.toml", &format!("# Mine.\nmodel = \"{model}\"\n"));

    let mut chat: Option<Chat> = None;
    let mut n_followed = 0;
    for Block { what, text } in blocks(include_str!("../../docs/plugins.md")) {
        n_followed += 1;
        match what.as_str() {
            "run" => {
                for line in text.lines() {
                    let words: Vec<_> = line.split_whitespace().collect();
                    assert_eq!(words[0], "linn", "{line}");
                    far.linn_well(&words[1..]);
                }
            }
            "chat" => {
                let words: Vec<_> = text.split_whitespace().collect();
                chat = Some(Chat::begin(far.command(&words[1..])));
            }
            "say" => chat.as_mut().unwrap().say(text.trim_end()),
            "see" => text.lines().for_each(|it| chat.as_mut().unwrap().see(it)),
            edit => {
                let file = far.stage.path("work").join(edit.strip_prefix("edit ").unwrap());
                let changed = apply(&text, &std::fs::read_to_string(&file).unwrap());
                std::fs::write(&file, changed).unwrap();
            }
        }
    }
    assert!(n_followed >= 8, "{n_followed} blocks were followed");
    chat.unwrap().end();
    let kept = std::fs::read_to_string(far.stage.path("home/.config/linn/linn.toml")).unwrap();
    assert!(kept.starts_with("# Mine.\n") && kept.contains("id = \"hello\""), "{kept}");

    far.linn_well(&["plugin", "remove", "hello"]);
    let kept = std::fs::read_to_string(far.stage.path("home/.config/linn/linn.toml")).unwrap();
    assert!(kept.contains("# Mine.") && !kept.contains("hello"), "{kept}");
    let left: Vec<_> = std::fs::read_dir(far.stage.path("home/.config/linn/plugins")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_plugin_is_made_built_checked_trusted_and_loaded_far_from_the_sources() {
    let far = Far::new();
    far.linn_well(&["plugin", "new", "first"]);
    let built = far.linn_well(&["plugin", "build", "first"]);
    let library = far.stage.path("work/first/target/linn").join(format!(
        "{}first{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    assert!(stdout(&built).contains(&*library.file_name().unwrap().to_string_lossy()), "{}", stdout(&built));
    let path = library.to_str().unwrap();
    assert!(stdout(&far.linn_well(&["plugin", "check", path])).contains("its plugins: first"));

    // In a workspace it runs once its content is trusted.
    let folder = far.stage.path("work/.linn/plugins");
    std::fs::create_dir_all(&folder).unwrap();
    let in_workspace = folder.join(library.file_name().unwrap());
    std::fs::copy(&library, &in_workspace).unwrap();
    far.stage.write("home/.config/linn/linn.toml", "[[plugins]]\nid = \"mine\"\nplugin = \"first\"\n");
    let listed = far.listed("first");
    assert_eq!(listed["entries"], json!([]), "{listed}");
    assert!(listed["error"].as_str().unwrap().contains("trust"), "{listed}");
    far.linn_well(&["plugin", "trust", in_workspace.to_str().unwrap()]);
    let listed = far.listed("first");
    assert_eq!((&listed["entries"], &listed["error"]), (&json!([["mine", "active"]]), &Value::Null), "{listed}");
    let seen = stdout(&far.linn_well(&["inspect"]));
    assert!(seen.lines().any(|it| it.trim().starts_with("first  active")), "{seen}");

    // What two plugins have in common is built once.
    far.linn_well(&["plugin", "new", "second"]);
    let built = stderr(&far.linn_well(&["plugin", "build", "second"]));
    assert!(built.contains("Compiling second") && !built.contains("linn-services"), "{built}");

    // Sources that went, as caches do, come back, and a manifest of another version of the program is led to this one's.
    let manifest = far.stage.path("work/second/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let sources = text.split("sources/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    std::fs::write(&manifest, text.replace(&sources, "00000000000000aa")).unwrap();
    let built = far.linn_well(&["plugin", "build", "second"]);
    assert!(stdout(&built).contains("names those of this one now"), "{}", stdout(&built));
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), text);

    // The test that the crate came with passes.
    let mut test = far.program(Path::new("cargo"));
    test.current_dir(far.stage.path("work/second")).args(["test", "--quiet"]);
    test.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache/linn/target"));
    let tested = test.output().unwrap();
    assert!(tested.status.success(), "{}{}", stdout(&tested), stderr(&tested));

    // What cannot be loaded is not installed.
    std::fs::write(far.stage.path("work/broken.so"), "no library").unwrap();
    let refused = far.linn(&["plugin", "install", "broken.so"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("is no library"), "{}", stderr(&refused));
    assert!(!far.stage.path("home/.config/linn/plugins").exists());
}

#[test]
fn a_diff_is_found_by_its_lines() {
    assert_eq!(apply(" b\n-c\n+d\n", "a\nb\nc\n"), "a\nb\nd\n");
    let followed = blocks("```sh\nx\n```\n```sh follow run\nlinn a\n```\n");
    assert_eq!(followed.len(), 1);
    assert_eq!((followed[0].what.as_str(), followed[0].text.as_str()), ("run", "linn a\n"));
}
