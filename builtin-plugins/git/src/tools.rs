//! The tools.

use std::sync::Arc;

use linn_services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::command::{Access, Git};

/// How many commits are told if nobody says how many.
const LOG_LIMIT: u32 = 20;

/// How many are told at most.
const MAX_LOG_LIMIT: u32 = 1000;

/// All of them.
pub(crate) fn all(git: &Arc<Git>) -> Vec<Tool> {
    vec![
        tool::<Status>(git).read_only(),
        tool::<Diff>(git).read_only(),
        tool::<Log>(git).read_only(),
        tool::<Add>(git),
        tool::<Commit>(git),
    ]
}

/// The arguments of a tool, and what it does with them.
trait GitTool: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    fn run(self, git: &Git, call: &ToolExecution) -> impl Future<Output = Result<ToolOutput, ToolFailure>> + Send;
}

fn tool<T: GitTool>(git: &Arc<Git>) -> Tool {
    let git = git.clone();
    Tool::new(T::NAME, T::DESCRIPTION, move |arguments: T, call| {
        let git = git.clone();
        async move { arguments.run(&git, &call).await }
    })
}

#[derive(Deserialize, JsonSchema)]
struct Status {
    /// File or folder to look at; all of the repository by default.
    path: Option<String>,
}

impl GitTool for Status {
    const NAME: &'static str = "git_status";
    const DESCRIPTION: &'static str = "Tells the branch and what changed in the work tree, in short form.";

    async fn run(self, git: &Git, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let paths: Vec<String> = self.path.into_iter().collect();
        git.run(call, Access::Look, &["status", "--short", "--branch", "--ignore-submodules=dirty"], &paths, "(clean)")
            .await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Diff {
    /// File or folder to look at; all of the repository by default.
    path: Option<String>,
    /// What is staged, against the last commit, instead of what is not.
    #[serde(default)]
    staged: bool,
}

impl GitTool for Diff {
    const NAME: &'static str = "git_diff";
    const DESCRIPTION: &'static str = "Shows what changed in the work tree, or what is staged, as a unified diff.";

    async fn run(self, git: &Git, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let mut line = vec!["diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];
        if self.staged {
            line.push("--staged");
        }
        let paths: Vec<String> = self.path.into_iter().collect();
        git.run(call, Access::Look, &line, &paths, "(no changes)").await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Log {
    /// How many commits; 20 by default.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// Commits that changed this file or folder.
    path: Option<String>,
}

impl GitTool for Log {
    const NAME: &'static str = "git_log";
    const DESCRIPTION: &'static str = "Lists the last commits, the newest first: hash, date, author, subject.";

    async fn run(self, git: &Git, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let limit = format!("--max-count={}", self.limit.unwrap_or(LOG_LIMIT).clamp(1, MAX_LOG_LIMIT));
        let line = ["log", "--no-show-signature", "--date=short", "--format=%h %ad %an: %s", &limit];
        let paths: Vec<String> = self.path.into_iter().collect();
        git.run(call, Access::Look, &line, &paths, "(no commits)").await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// Files and folders to stage, relative to the workspace.
    #[schemars(length(min = 1))]
    paths: Vec<String>,
}

impl GitTool for Add {
    const NAME: &'static str = "git_add";
    const DESCRIPTION: &'static str = "Stages files and folders.";

    async fn run(self, git: &Git, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        if self.paths.is_empty() {
            let message = "git_add failed: it names no file; name what shall be staged";
            return Err(ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", message));
        }
        let staged = format!("staged {}", self.paths.join(", "));
        git.run(call, Access::Change, &["add"], &self.paths, &staged).await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Commit {
    /// The message.
    message: String,
    /// Stages every change of tracked files first.
    #[serde(default)]
    all: bool,
}

impl GitTool for Commit {
    const NAME: &'static str = "git_commit";
    const DESCRIPTION: &'static str = "Commits what is staged, or with `all` every change of tracked files.";

    async fn run(self, git: &Git, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        if self.message.trim().is_empty() {
            let message = "git_commit failed: the message is empty; say what the commit does";
            return Err(ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", message));
        }
        let message = format!("--message={}", self.message);
        let mut line = vec!["commit", &message];
        if self.all {
            line.push("--all");
        }
        git.run(call, Access::Change, &line, &[], "committed").await
    }
}
