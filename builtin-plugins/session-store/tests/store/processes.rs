//! Child processes: this test binary, run again for one test with a folder to work in.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The variable that makes a test the child, and names its folder.
const FOLDER: &str = "LINN_STORE_TEST_FOLDER";

/// The variable that tells the child what to do.
const TASK: &str = "LINN_STORE_TEST_TASK";

/// The folder and the task, if this process is a child.
pub(crate) fn task() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(FOLDER)?.into(), std::env::var(TASK).ok()?))
}

/// A child that runs until it is killed or done.
pub(crate) struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    #[expect(clippy::disallowed_methods, reason = "the test owns the child: it waits for it in `kill` and `Drop`")]
    pub(crate) fn start(test: &str, folder: &Path, task: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(FOLDER, folder).env(TASK, task).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next thing the child says; `None` when it is gone. It says things in lines that begin with `#`.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find_map(|it| it.strip_prefix('#').map(str::to_owned))
    }

    /// Kills it with signal 9, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Waits for its end; true if all went well.
    pub(crate) fn is_good(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
