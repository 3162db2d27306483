//! The tools for git, over a shell that answers from a script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, Root, Svc, provider};
use linn_bus_test::{leak_check, run};
use linn_plugin_git::{GitConfig, GitPlugin};
use linn_services::model::{ContentBlock, text_of};
use linn_services::shell::{Captured, Shell, ShellCommand, ShellError, ShellOutput, ShellProgram};
use linn_services::tools::{ToolClass, ToolExecutionInput, Tools, ToolsPlugin};
use linn_services_test::undriven_agent;
use serde_json::{Value, json};

/// A shell that answers from a script, and keeps what it was asked to run. Clones are the same.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    outputs: VecDeque<Result<ShellOutput, ShellError>>,
    ran: Vec<ShellCommand>,
}

impl Scripted {
    fn push(&self, output: ShellOutput) {
        self.0.lock().unwrap().outputs.push_back(Ok(output));
    }

    fn last(&self) -> ShellCommand {
        self.0.lock().unwrap().ran.last().unwrap().clone()
    }

    /// The arguments of the last command, without those that all have.
    fn line(&self) -> String {
        let ShellProgram::Exec { program, arguments } = self.last().program else { panic!("git needs no shell") };
        assert_eq!(program, "git");
        let rest = arguments.iter().skip_while(|it| it.starts_with('-') || it.contains('=')).cloned();
        rest.collect::<Vec<_>>().join(" ")
    }
}

#[provider]
impl Shell for Scripted {
    async fn run(&self, command: ShellCommand) -> Result<ShellOutput, ShellError> {
        let mut state = self.0.lock().unwrap();
        state.ran.push(command);
        state.outputs.pop_front().unwrap()
    }
    fn refusal(&self, _: &str) -> Result<Option<String>, ShellError> {
        Ok(None)
    }
}

struct ScriptedPlugin;

impl Plugin for ScriptedPlugin {
    const NAME: &'static str = "scripted-shell";
    type Config = Scripted;
    type Needs = ();
    fn provides(list: &mut NeedList) {
        list.add::<dyn Shell>(Demand::Required);
    }
    async fn start(ctx: &Context, shell: Scripted, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Shell>(Arc::new(shell))?;
        Ok(())
    }
}

fn said(stdout: &str, stderr: &str, exit_code: i32) -> ShellOutput {
    let kept = |text: &str| Captured { head: text.as_bytes().to_vec(), ..Captured::default() };
    ShellOutput { stdout: kept(stdout), stderr: kept(stderr), exit_code: Some(exit_code), ..ShellOutput::default() }
}

async fn mounted(root: &Root, shell: &Scripted) -> Svc<dyn Tools> {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<ScriptedPlugin>(shell.clone()).unwrap().running().await.unwrap();
    root.mount::<GitPlugin>(GitConfig::default()).unwrap().running().await.unwrap();
    root.get().unwrap()
}

/// The text of a result, without the mark of a failure.
fn words_of(content: &[ContentBlock]) -> String {
    let text = text_of(content);
    text.strip_prefix("Error: ").unwrap_or(&text).to_owned()
}

/// The text of a result, and its code if it failed.
async fn call(tools: &Svc<dyn Tools>, name: &str, arguments: Value) -> (String, Option<String>) {
    let result = tools.execute(ToolExecutionInput::new("c1", name, arguments)).await.unwrap();
    assert_eq!(result.is_error, result.error.is_some());
    (words_of(&result.content), result.error.map(|it| it.code))
}

#[test]
fn wp_7_2_each_tool_runs_its_command() {
    run(async |root| {
        let shell = Scripted::default();
        let tools = mounted(&root, &shell).await;
        for (name, arguments, line) in [
            ("git_status", json!({}), "status --short --branch --ignore-submodules=dirty"),
            ("git_status", json!({ "path": "a b" }), "status --short --branch --ignore-submodules=dirty -- a b"),
            ("git_diff", json!({}), "diff --no-ext-diff --no-textconv --ignore-submodules=dirty"),
            (
                "git_diff",
                json!({ "staged": true, "path": "x" }),
                "diff --no-ext-diff --no-textconv --ignore-submodules=dirty --staged -- x",
            ),
            ("git_log", json!({}), "log --no-show-signature --date=short --format=%h %ad %an: %s --max-count=20"),
            (
                "git_log",
                json!({ "limit": 3, "path": "x" }),
                "log --no-show-signature --date=short --format=%h %ad %an: %s --max-count=3 -- x",
            ),
            ("git_add", json!({ "paths": ["a", "-b"] }), "add -- a -b"),
            ("git_commit", json!({ "message": "-m" }), "commit --message=-m"),
            ("git_commit", json!({ "message": "all", "all": true }), "commit --message=all --all"),
        ] {
            shell.push(said("done\n", "", 0));
            assert_eq!(call(&tools, name, arguments).await, ("done".to_owned(), None));
            assert_eq!(shell.line(), line);
            let locks = shell.last().env.get("GIT_OPTIONAL_LOCKS").cloned().flatten();
            let is_look = matches!(name, "git_status" | "git_diff" | "git_log");
            assert_eq!(locks.is_some(), is_look, "{name}");
        }
        let classes: Vec<_> =
            tools.visible(None).unwrap().iter().map(|it| (it.name().to_string(), it.class, it.is_parallel)).collect();
        let (look, change) = ((ToolClass::ReadOnly, true), (ToolClass::Destructive, false));
        let expected =
            [("git_add", change), ("git_commit", change), ("git_diff", look), ("git_log", look), ("git_status", look)];
        assert_eq!(classes, expected.map(|(name, (class, parallel))| (name.to_owned(), class, parallel)));
    });
}

#[test]
fn a_command_runs_in_the_folder_of_the_session_and_ends_with_the_call() {
    run(async |root| {
        let shell = Scripted::default();
        let tools = mounted(&root, &shell).await;
        let ada = undriven_agent(&root, "ada").await;
        shell.push(said("", "", 0));
        let input = ToolExecutionInput {
            agent: Some(ada.agent().clone()),
            ..ToolExecutionInput::new("c1", "git_diff", json!({}))
        };
        let signal = input.signal.clone();
        let result = tools.execute(input).await.unwrap();
        assert_eq!(text_of(&result.content), "(no changes)");
        let command = shell.last();
        assert_eq!(command.cwd.as_deref(), Some("/"));
        signal.cancel();
        assert!(command.signal.is_cancelled());
        assert_eq!(command.env["GIT_TERMINAL_PROMPT"].as_deref(), Some("0"));
    });
}

#[test]
fn nothing_printed_has_words_of_its_own() {
    run(async |root| {
        let shell = Scripted::default();
        let tools = mounted(&root, &shell).await;
        for (name, arguments, words) in
            [("git_log", json!({}), "(no commits)"), ("git_add", json!({ "paths": ["a", "b"] }), "staged a, b")]
        {
            shell.push(said("\n", "", 0));
            assert_eq!(call(&tools, name, arguments).await.0, words);
        }
    });
}

#[test]
fn what_goes_wrong_is_told_with_a_code() {
    run(async |root| {
        let shell = Scripted::default();
        let tools = mounted(&root, &shell).await;
        let status = json!({});
        shell.push(said("", "fatal: not a git repository\n", 128));
        let told = call(&tools, "git_status", status.clone()).await;
        assert_eq!(told, ("git_status failed: fatal: not a git repository".to_owned(), Some("GIT_FAILED".to_owned())));
        shell.push(said("nothing to commit\n", "", 1));
        let told = call(&tools, "git_commit", json!({ "message": "m" })).await;
        assert_eq!(told.0, "git_commit failed: nothing to commit");
        shell.push(ShellOutput { timed_out: true, ..ShellOutput::default() });
        let told = call(&tools, "git_status", status.clone()).await;
        assert_eq!(told, ("git_status timed out after 60s (killed)".to_owned(), Some("GIT_TIMEOUT".to_owned())));
        shell.push(ShellOutput { cancelled: true, ..ShellOutput::default() });
        assert_eq!(call(&tools, "git_status", status.clone()).await.0, "git_status aborted");
        shell
            .0
            .lock()
            .unwrap()
            .outputs
            .push_back(Err(ShellError::Start { program: "git".into(), why: "not found".into() }));
        let told = call(&tools, "git_status", status).await;
        assert_eq!(
            told,
            ("git_status failed: cannot start `git`: not found".to_owned(), Some("SHELL_START".to_owned()))
        );
    });
}

#[test]
fn wp_7_4_paths_do_not_lead_out_of_the_workspace() {
    run(async |root| {
        let shell = Scripted::default();
        let tools = mounted(&root, &shell).await;
        for (path, code) in [
            ("/etc", "FS_ABSOLUTE"),
            ("C:\\x", "FS_ABSOLUTE"),
            ("../x", "FS_UPWARDS"),
            ("a/../../x", "FS_UPWARDS"),
            ("a\\..\\x", "FS_UPWARDS"),
            ("", "INVALID_ARGUMENTS"),
        ] {
            let told = call(&tools, "git_diff", json!({ "path": path })).await;
            assert_eq!(told.1.as_deref(), Some(code), "{path}");
            assert!(told.0.starts_with("git_diff failed: "), "{}", told.0);
            assert_eq!(call(&tools, "git_add", json!({ "paths": ["ok", path] })).await.1.as_deref(), Some(code));
        }
        for (name, arguments) in [("git_add", json!({ "paths": [] })), ("git_commit", json!({ "message": " " }))] {
            assert_eq!(call(&tools, name, arguments).await.1.as_deref(), Some("INVALID_ARGUMENTS"));
        }
        assert!(shell.0.lock().unwrap().ran.is_empty(), "nothing ran");
    });
}

#[test]
fn what_was_left_out_is_marked() {
    run(async |root| {
        let shell = Scripted::default();
        let tools = mounted(&root, &shell).await;
        let stdout = Captured { head: b"begin".to_vec(), tail: b"end".to_vec(), omitted_bytes: 9 };
        shell.push(ShellOutput { stdout, exit_code: Some(0), ..ShellOutput::default() });
        assert_eq!(call(&tools, "git_diff", json!({})).await.0, "begin\n...[9 bytes left out]...\nend");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<ScriptedPlugin>(Scripted::default()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let git = ctx.mount::<GitPlugin>(GitConfig::default()).unwrap();
            git.running().await.unwrap();
            git.dispose().await.unwrap();
        })
        .await;
        let wrong = root.mount::<GitPlugin>(GitConfig { timeout_s: 0 }).unwrap().running().await;
        assert!(format!("{:#}", wrong.unwrap_err()).contains("timeout_s"));
    });
}
