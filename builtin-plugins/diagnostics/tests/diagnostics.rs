//! The tool `diagnostics`, over files and a shell that answer from a script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::{Arc, Mutex};

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, Root, Svc, provider};
use linn_bus_test::{leak_check, run};
use linn_plugin_diagnostics::{Check, DiagnosticsConfig, DiagnosticsPlugin};
use linn_services::fs::{
    Fs, FsEntry, FsError, FsFile, FsFind, FsFound, FsKind, FsMetadata, FsSearch, FsSearchResult, FsTarget,
    FsWriteIntent,
};
use linn_services::ids::FsVersion;
use linn_services::model::{ContentBlock, text_of};
use linn_services::shell::{Captured, Shell, ShellCommand, ShellError, ShellOutput, ShellProgram};
use linn_services::tools::{ToolClass, ToolExecutionInput, Tools, ToolsPlugin};
use linn_services_test::undriven_agent;
use serde_json::json;

/// A world of a few files, and a shell that says the same each time. Clones are the same.
#[derive(Clone, Default)]
struct World {
    /// Files; what ends with `/` is a folder.
    files: &'static [&'static str],
    output: ShellOutput,
    ran: Arc<Mutex<Vec<ShellCommand>>>,
}

fn nowhere<T>(path: &str) -> Result<T, FsError> {
    Err(FsError::NotFound(path.to_owned()))
}

#[provider]
impl Fs for World {
    async fn resolve(&self, path: &str) -> Result<FsTarget, FsError> {
        nowhere(path)
    }
    async fn read(&self, path: &str, _: u64) -> Result<FsFile, FsError> {
        nowhere(path)
    }
    async fn write(&self, path: &str, _: &[u8], _: FsWriteIntent) -> Result<FsVersion, FsError> {
        nowhere(path)
    }
    async fn list(&self, path: &str) -> Result<Vec<FsEntry>, FsError> {
        nowhere(path)
    }
    async fn metadata(&self, path: &str) -> Result<Option<FsMetadata>, FsError> {
        if path.contains("..") {
            return Err(FsError::Upwards(path.to_owned()));
        }
        let is_folder = self.files.contains(&&*format!("{path}/"));
        let kind = if is_folder { FsKind::Folder } else { FsKind::File };
        Ok((is_folder || self.files.contains(&path)).then_some(FsMetadata { kind, size_bytes: 1 }))
    }
    async fn create_folder(&self, path: &str) -> Result<(), FsError> {
        nowhere(path)
    }
    async fn delete(&self, path: &str) -> Result<FsKind, FsError> {
        nowhere(path)
    }
    async fn rename(&self, from: &str, _: &str) -> Result<(), FsError> {
        nowhere(from)
    }
    async fn find(&self, _: FsFind) -> Result<FsFound, FsError> {
        nowhere("")
    }
    async fn search(&self, _: FsSearch) -> Result<FsSearchResult, FsError> {
        nowhere("")
    }
}

#[provider]
impl Shell for World {
    async fn run(&self, command: ShellCommand) -> Result<ShellOutput, ShellError> {
        self.ran.lock().unwrap().push(command);
        Ok(self.output.clone())
    }
    fn refusal(&self, _: &str) -> Result<Option<String>, ShellError> {
        Ok(None)
    }
}

struct WorldPlugin;

impl Plugin for WorldPlugin {
    const NAME: &'static str = "world";
    type Config = World;
    type Needs = ();
    fn provides(list: &mut NeedList) {
        list.add::<dyn Fs>(Demand::Required);
        list.add::<dyn Shell>(Demand::Required);
    }
    async fn start(ctx: &Context, world: World, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Fs>(Arc::new(world.clone()))?;
        ctx.provide::<dyn Shell>(Arc::new(world))?;
        Ok(())
    }
}

fn said(stdout: &str, stderr: &str, exit_code: i32) -> ShellOutput {
    let kept = |text: &str| Captured { head: text.as_bytes().to_vec(), ..Captured::default() };
    ShellOutput { stdout: kept(stdout), stderr: kept(stderr), exit_code: Some(exit_code), ..ShellOutput::default() }
}

async fn mounted(root: &Root, world: &World, config: DiagnosticsConfig) -> Svc<dyn Tools> {
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<WorldPlugin>(world.clone()).unwrap().running().await.unwrap();
    root.mount::<DiagnosticsPlugin>(config).unwrap().running().await.unwrap();
    root.get().unwrap()
}

/// The text of a result, without the mark of a failure.
fn words_of(content: &[ContentBlock]) -> String {
    let text = text_of(content);
    text.strip_prefix("Error: ").unwrap_or(&text).to_owned()
}

/// The text of a result about a path, and its code if it failed.
async fn ask(root: &Root, tools: &Svc<dyn Tools>, path: Option<&str>) -> (String, Option<String>) {
    let ada = undriven_agent(root, "ada").await;
    let arguments = path.map_or(json!({}), |it| json!({ "path": it }));
    let input = ToolExecutionInput {
        agent: Some(ada.agent().clone()),
        ..ToolExecutionInput::new("c", "diagnostics", arguments)
    };
    let result = tools.execute(input).await.unwrap();
    ada.dispose().await;
    (words_of(&result.content), result.error.map(|it| it.code))
}

const FILES: &[&str] = &["Cargo.toml", "src/", "src/main.rs", "web/", "web/tsconfig.json", "web/src/", "web/src/a.ts"];

#[test]
fn wp_7_2_the_project_is_found_at_the_path_or_above() {
    run(async |root| {
        let world = World { files: FILES, output: said("", "", 0), ..World::default() };
        let tools = mounted(&root, &world, DiagnosticsConfig::default()).await;
        for (path, cwd, program) in [
            (None, "/", "cargo"),
            (Some("."), "/", "cargo"),
            (Some("./src/main.rs"), "/", "cargo"),
            (Some("web/"), "/web", "npx"),
            (Some("web/src/a.ts"), "/web", "npx"),
        ] {
            let (told, code) = ask(&root, &tools, path).await;
            assert!(code.is_none() && told.ends_with("\n(no diagnostics — clean)"), "{told}");
            let command = world.ran.lock().unwrap().pop().unwrap();
            let ShellProgram::Exec { program: ran, .. } = &command.program else { panic!("no shell is needed") };
            assert_eq!((command.cwd.as_deref().unwrap(), &**ran), (cwd, program), "{path:?}");
            assert_eq!(command.timeout, Some(std::time::Duration::from_secs(120)));
        }
        let tool = tools.get(None, &"diagnostics".into()).unwrap().unwrap();
        assert_eq!((tool.class, tool.is_parallel), (ToolClass::ReadOnly, true));
    });
}

#[test]
fn wp_7_2_what_the_program_says_is_told_below_its_line() {
    run(async |root| {
        let command = ["lint", "-q"].map(str::to_owned).to_vec();
        let config = DiagnosticsConfig { checks: vec![Check { marker: "Cargo.toml".into(), command }], timeout_s: 1 };
        let world = World { files: FILES, output: said("a.rs:1: error\n", "1 error\n", 1), ..World::default() };
        let tools = mounted(&root, &world, config).await;
        assert_eq!(ask(&root, &tools, None).await, ("lint -q\na.rs:1: error\n1 error".to_owned(), None));
        let limit = world.ran.lock().unwrap()[0].timeout;
        assert_eq!(limit, Some(std::time::Duration::from_secs(5)), "the fewest there may be");
    });
}

#[test]
fn what_goes_wrong_is_told_with_a_code() {
    run(async |root| {
        let world = World {
            files: &["a/", "a/b.txt"],
            output: ShellOutput { timed_out: true, ..ShellOutput::default() },
            ..World::default()
        };
        let check = |marker: &str| Check { marker: marker.into(), command: vec!["lint".into()] };
        let config = DiagnosticsConfig { checks: vec![check("never"), check("b.txt")], ..DiagnosticsConfig::default() };
        let tools = mounted(&root, &world, config).await;
        for (path, words, code) in [
            (Some("a"), "lint (in a) timed out after 120s (killed)", "DIAGNOSTICS_TIMEOUT"),
            (None, "nothing here says how to check it; what is known is never, b.txt", "DIAGNOSTICS_NO_PROJECT"),
            (Some("none"), "\"none\" does not exist", "FS_NOT_FOUND"),
            (Some("../x"), "path \"../x\" contains '..'; workspace escape denied", "FS_UPWARDS"),
        ] {
            let told = ask(&root, &tools, path).await;
            assert_eq!(told, (format!("diagnostics failed: {words}"), Some(code.to_owned())));
        }
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<WorldPlugin>(World::default()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<DiagnosticsPlugin>(DiagnosticsConfig::default()).unwrap();
            plugin.running().await.unwrap();
            plugin.dispose().await.unwrap();
        })
        .await;
        let config = DiagnosticsConfig { checks: vec![Check { marker: "a/b".into(), command: vec![] }], timeout_s: 9 };
        let wrong = root.mount::<DiagnosticsPlugin>(config).unwrap().running().await;
        assert!(format!("{:#}", wrong.unwrap_err()).contains("a/b"));
    });
}
