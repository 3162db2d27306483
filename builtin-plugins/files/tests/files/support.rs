//! A workspace with the plugins of this crate on it, and short ways to call its tools.

use std::path::PathBuf;

use linn_bus::{Root, Svc};
use linn_bus_test::TestRuntime;
use linn_plugin_files::{FilesConfig, FilesPlugin};
use linn_services::agent::Agent;
use linn_services::fs::Fs;
use linn_services::model::ContentBlock;
use linn_services::tools::{ToolExecution, ToolExecutionInput, ToolPreview, Tools, ToolsPlugin};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace `ws`, a folder `ws-other` beside it, and the tools.
pub(crate) struct Bench {
    pub(crate) root: Root,
    pub(crate) tools: Svc<dyn Tools>,
    pub(crate) fs: Svc<dyn Fs>,
    folder: TempDir,
}

/// What became of a call.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) code: Option<String>,
    pub(crate) meta: Value,
}

/// Runs a test on a bench whose tools may write what they did not read.
pub(crate) fn bench(test: impl AsyncFnOnce(&Bench)) {
    bench_with(|config| config.read_before_write = false, test);
}

/// Runs a test on a bench with a config that is changed.
pub(crate) fn bench_with(change: impl FnOnce(&mut FilesConfig), test: impl AsyncFnOnce(&Bench)) {
    bench_on(&TestRuntime::new(), change, test);
}

/// The same on a runtime of the test.
pub(crate) fn bench_on(runtime: &TestRuntime, change: impl FnOnce(&mut FilesConfig), test: impl AsyncFnOnce(&Bench)) {
    runtime.block_on(async {
        let root = runtime.root();
        let folder = tempfile::tempdir().unwrap();
        for name in ["ws", "ws-other"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut config = FilesConfig::new(folder.path().join("ws"));
        config.n_threads = 0;
        change(&mut config);
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<FilesPlugin>(config).unwrap().running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        let fs = root.get::<dyn Fs>().unwrap();
        test(&Bench { root, tools, fs, folder }).await;
    });
}

impl Bench {
    /// A path in the workspace.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("ws").join(path)
    }

    /// A path in the folder beside the workspace.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.folder.path().join("ws-other").join(path)
    }

    /// Puts a file into the workspace, behind the back of all tools.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// What a file of the workspace holds.
    pub(crate) fn get(&self, path: &str) -> String {
        String::from_utf8(std::fs::read(self.path(path)).unwrap()).unwrap()
    }

    /// Links `path` in the workspace to `to`.
    pub(crate) fn link(&self, to: impl AsRef<std::path::Path>, path: &str) {
        std::os::unix::fs::symlink(to, self.path(path)).unwrap();
    }

    /// Names in a folder of the workspace.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        names_in(self.path(path))
    }

    /// Names in the folder beside the workspace.
    pub(crate) fn names_outside(&self) -> Vec<String> {
        names_in(self.outside(""))
    }

    pub(crate) async fn call_as(&self, agent: Option<&Agent>, tool: &str, arguments: Value) -> Answer {
        let input = ToolExecutionInput { agent: agent.cloned(), ..ToolExecutionInput::new("c1", tool, arguments) };
        let result = self.tools.execute(input).await.unwrap();
        let [ContentBlock::Text { text }] = &result.content[..] else { panic!("no text: {:?}", result.content) };
        Answer {
            text: text.clone(),
            is_error: result.is_error,
            code: result.error.map(|it| it.code),
            meta: result.meta.unwrap_or_default(),
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.call_as(None, tool, arguments).await
    }

    /// The text of a call that has to go well.
    #[track_caller]
    pub(crate) fn ok(&self, tool: &str, arguments: Value) -> impl Future<Output = String> {
        let at = std::panic::Location::caller();
        async move {
            let answer = self.call(tool, arguments).await;
            assert!(!answer.is_error, "{at}: {answer:?}");
            answer.text
        }
    }

    /// The words and the code of a call that has to fail.
    #[track_caller]
    pub(crate) fn err(&self, tool: &str, arguments: Value) -> impl Future<Output = (String, String)> {
        let at = std::panic::Location::caller();
        async move {
            let answer = self.call(tool, arguments).await;
            assert!(answer.is_error, "{at}: {answer:?}");
            let text = answer.text.strip_prefix("Error: ").unwrap_or(&answer.text).to_owned();
            (text, answer.code.unwrap_or_default())
        }
    }

    /// What a call would do.
    pub(crate) async fn preview(&self, tool: &str, arguments: Value) -> Option<ToolPreview> {
        let call = ToolExecution::detached(&ToolExecutionInput::new("c1", tool, arguments));
        let tool = self.tools.get(None, &tool.into()).unwrap().unwrap();
        tool.body().preview(&call).await
    }
}

fn names_in(folder: PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
