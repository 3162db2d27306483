//! Tools that wait, through the registry and the prompt.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use linn_bus::{Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_plugin_load_tools::{LoadToolsConfig, LoadToolsPlugin, loaded_in};
use linn_services::agent::{Agent, AgentHandle};
use linn_services::model::{ContentBlock, text_of};
use linn_services::prompt::{AssembleContext, SystemPrompt, SystemPromptConfig, SystemPromptPlugin};
use linn_services::session::{RewindCause, SessionRewind};
use linn_services::tools::{Tool, ToolClaim, ToolExecutionInput, ToolFailure, Tools, ToolsPlugin};
use linn_services_test::undriven_agent;
use serde_json::{Map, Value, json};

/// The text of a result, without the mark of a failure.
fn words_of(content: &[ContentBlock]) -> String {
    let text = text_of(content);
    text.strip_prefix("Error: ").unwrap_or(&text).to_owned()
}

struct Bench {
    root: Root,
    tools: Svc<dyn Tools>,
    ada: AgentHandle,
}

impl Bench {
    async fn new(root: Root) -> Self {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<SystemPromptPlugin>(SystemPromptConfig::default()).unwrap().running().await.unwrap();
        root.mount::<LoadToolsPlugin>(LoadToolsConfig::default()).unwrap().running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        for name in ["read_file", "git_status", "git_add", "fetch", "web_search", "diagnostics"] {
            let tool = Tool::new(name, "", async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("ran"));
            tools.register(&root, tool).unwrap();
        }
        let caller = tools.clone();
        let outer = Tool::new("outer", "", move |_: Map<String, Value>, call| {
            let caller = caller.clone();
            async move {
                let parent = Some(call.token().clone());
                let agent = call.agent().cloned();
                let input = ToolExecutionInput { parent, agent, ..ToolExecutionInput::new("i", "fetch", json!({})) };
                Ok::<_, ToolFailure>(text_of(&caller.execute(input).await.unwrap().content))
            }
        });
        tools.register(&root, outer).unwrap();
        let ada = undriven_agent(&root, "ada").await;
        Self { root, tools, ada }
    }

    fn agent(&self) -> &Agent {
        self.ada.agent()
    }

    async fn call(&self, name: &str, arguments: Value) -> (String, bool) {
        let agent = Some(self.agent().clone());
        let input = ToolExecutionInput { agent, ..ToolExecutionInput::new("c", name, arguments) };
        let result = self.tools.execute(input).await.unwrap();
        (words_of(&result.content), result.is_error)
    }

    async fn load(&self, names: &[&str]) -> String {
        self.call("load_tools", json!({ "tools": names })).await.0
    }

    /// The tools that a prompt offers.
    async fn offered(&self, context: AssembleContext) -> Vec<String> {
        let prompt = self.root.get::<dyn SystemPrompt>().unwrap();
        let assembly = prompt.assemble(context).await.unwrap();
        assembly.tools.iter().map(|it| it.name.to_string()).collect()
    }

    async fn offered_to_ada(&self) -> Vec<String> {
        self.offered(AssembleContext::of_agent(self.agent())).await
    }
}

#[test]
fn wp_7_1_tools_are_offered_once_they_are_loaded() {
    run(async |root| {
        let bench = Bench::new(root).await;
        assert_eq!(bench.offered_to_ada().await, ["load_tools", "outer", "read_file"]);
        assert_eq!(bench.offered(AssembleContext::default()).await.len(), 8, "all there are, if it is nobody's prompt");
        let told = bench.load(&["git", "diagnostics", "nope", "browser", "read_file"]).await;
        assert_eq!(
            told,
            "Enabled: diagnostics, git_add, git_status, read_file\nUnknown (skipped): browser, nope\n\
             They are offered from the next answer on, for the rest of the session."
        );
        let offered = ["diagnostics", "git_add", "git_status", "load_tools", "outer", "read_file"];
        assert_eq!(bench.offered_to_ada().await, offered);
        let log: Vec<String> = linn_services_test::log_of(bench.agent().session());
        assert_eq!(log, ["tools/loaded"]);
        bench.load(&["git"]).await;
        assert_eq!(linn_services_test::log_of(bench.agent().session()).len(), 1, "nothing new");
        let one = bench.call("load_tools", json!({ "tool": "fetch" })).await;
        assert!(one.0.starts_with("Enabled: fetch\n") && !one.1);
        assert_eq!(bench.load(&["nope"]).await, "Unknown (skipped): nope\nNothing changed.");
        let (told, is_error) = bench.call("load_tools", json!({})).await;
        assert!(is_error && told.contains("bulk, git, web, all"), "{told}");
    });
}

#[test]
fn script_9_a_tool_in_the_place_of_one_that_waits_is_offered_at_once() {
    run(async |root| {
        let bench = Bench::new(root).await;
        let mine = Tool::new("git_add", "", async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("mine"));
        let handle = bench.tools.contribute(&bench.root, mine, ToolClaim::InPlace).unwrap();
        assert_eq!(bench.offered_to_ada().await, ["git_add", "load_tools", "outer", "read_file"]);
        assert_eq!(bench.call("git_add", json!({})).await, ("mine".to_owned(), false));
        handle.dispose().await;
        assert_eq!(bench.offered_to_ada().await, ["load_tools", "outer", "read_file"]);
        assert!(bench.call("git_add", json!({})).await.1);
    });
}

#[test]
fn wp_6_3_a_call_of_a_tool_that_waits_is_refused() {
    run(async |root| {
        let bench = Bench::new(root).await;
        let expected = "tool 'git_add' is deferred and not enabled this session. Call load_tools with tools:[\"git_add\"] (or a \
                        group: bulk, git, web, all), then retry the call.";
        assert_eq!(bench.call("git_add", json!({})).await, (expected.to_owned(), true));
        assert_eq!(bench.call("read_file", json!({})).await, ("ran".to_owned(), false));
        bench.load(&["all"]).await;
        assert_eq!(bench.call("git_add", json!({})).await, ("ran".to_owned(), false));
        assert_eq!(bench.offered_to_ada().await.len(), 8);
    });
}

#[test]
fn what_a_tool_calls_for_itself_needs_no_loading() {
    run(async |root| {
        let bench = Bench::new(root).await;
        assert_eq!(bench.call("outer", json!({})).await, ("ran".to_owned(), false));
        assert!(bench.call("fetch", json!({})).await.1);
    });
}

#[test]
fn wp_7_1_what_is_loaded_goes_back_with_the_session() {
    run(async |root| {
        let bench = Bench::new(root).await;
        let session = bench.agent().session();
        let rewind = |to, cause| session.append(SessionRewind { to, cause }).unwrap();
        bench.load(&["git"]).await;
        let len = session.len();
        bench.load(&["web"]).await;
        assert_eq!(loaded_in(session).len(), 4);
        rewind(len, RewindCause::Undo);
        assert_eq!(bench.offered_to_ada().await, ["git_add", "git_status", "load_tools", "outer", "read_file"]);
        bench.load(&["fetch"]).await;
        assert!(bench.offered_to_ada().await.contains(&"fetch".to_owned()));
        rewind(0, RewindCause::Reset);
        assert_eq!(bench.offered_to_ada().await, ["load_tools", "outer", "read_file"]);
        bench.load(&["web_search"]).await;
        assert_eq!(loaded_in(session).into_iter().collect::<Vec<_>>(), ["web_search"]);
    });
}

#[test]
fn each_session_loads_for_itself() {
    run(async |root| {
        let bench = Bench::new(root).await;
        bench.load(&["git"]).await;
        let bob = undriven_agent(&bench.root, "bob").await;
        let offered = bench.offered(AssembleContext::of_agent(bob.agent())).await;
        assert_eq!(offered, ["load_tools", "outer", "read_file"]);
        let nobody =
            bench.tools.execute(ToolExecutionInput::new("c", "load_tools", json!({ "tool": "git" }))).await.unwrap();
        assert_eq!(nobody.error.unwrap().code, "LOAD_NO_SESSION");
        let free = bench.tools.execute(ToolExecutionInput::new("c", "git_add", json!({}))).await.unwrap();
        assert!(!free.is_error, "a call of nobody is not held back");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let loader = ctx.mount::<LoadToolsPlugin>(LoadToolsConfig::default()).unwrap();
            loader.running().await.unwrap();
            loader.dispose().await.unwrap();
        })
        .await;
    });
}
