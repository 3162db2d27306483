//! Calls that are made over and over, in turns that are written into the log by hand.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use linn_bus::Root;
use linn_bus_test::{Recorder, leak_check, run};
use linn_plugin_stuck::{StuckConfig, StuckPlugin};
use linn_services::agent::AgentHandle;
use linn_services::events::AgentStuck;
use linn_services::model::MessageSource;
use linn_services::session::{TurnEnd, TurnEndReason, TurnStart, TurnTrigger};
use linn_services::tools::{Tool, ToolExecutionInput, ToolFailure, Tools, ToolsPlugin};
use linn_services_test::undriven_agent;
use serde_json::{Map, Value, json};

struct Bench {
    root: Root,
    ada: AgentHandle,
    heard: Recorder,
}

impl Bench {
    async fn new(root: Root, config: StuckConfig) -> Self {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<StuckPlugin>(config).unwrap().running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        let look = Tool::new("look", "", async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("seen"));
        tools.register(&root, look.read_only()).unwrap();
        let change = Tool::new("change", "", async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("done"));
        tools.register(&root, change).unwrap();
        let ada = undriven_agent(&root, "ada").await;
        let heard = Recorder::new();
        heard.note(&root, |it: &AgentStuck| format!("{} {} in {}", it.tool, it.n_calls, it.turn)).unwrap();
        Self { root, ada, heard }
    }

    fn begin(&self, turn: u32) {
        let trigger = TurnTrigger::Message { source: MessageSource::User };
        self.ada.agent().session().append(TurnStart { turn, trigger }).unwrap();
    }

    fn end(&self, turn: u32) {
        self.ada.agent().session().append(TurnEnd { turn, reason: TurnEndReason::Completed }).unwrap();
    }

    async fn call(&self, name: &str, arguments: Value) {
        let agent = Some(self.ada.agent().clone());
        let input = ToolExecutionInput { agent, ..ToolExecutionInput::new("c", name, arguments) };
        self.root.get::<dyn Tools>().unwrap().execute(input).await.unwrap();
    }

    async fn look(&self, times: usize) {
        for _ in 0..times {
            self.call("look", json!({ "path": "a" })).await;
        }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.heard::<String>()
    }
}

#[test]
fn the_third_look_at_the_same_thing_is_told_and_every_second_one_after_it() {
    run(async |root| {
        let bench = Bench::new(root, StuckConfig::default()).await;
        bench.begin(1);
        bench.look(2).await;
        bench.call("look", json!({ "path": "b" })).await;
        assert!(bench.heard().is_empty());
        bench.look(5).await;
        assert_eq!(bench.heard(), ["look 3 in 1", "look 5 in 1", "look 7 in 1"]);
    });
}

#[test]
fn a_call_that_may_change_something_and_a_new_turn_begin_the_count_anew() {
    run(async |root| {
        let bench = Bench::new(root, StuckConfig::default()).await;
        bench.begin(1);
        bench.look(2).await;
        bench.call("change", json!({})).await;
        bench.look(2).await;
        bench.end(1);
        bench.begin(2);
        bench.look(2).await;
        assert!(bench.heard().is_empty());
        bench.look(1).await;
        assert_eq!(bench.heard(), ["look 3 in 2"]);
    });
}

#[test]
fn a_tool_that_does_not_exist_counts_and_a_change_that_is_made_over_and_over_does_not() {
    run(async |root| {
        let bench = Bench::new(root, StuckConfig { after: 2 }).await;
        bench.begin(1);
        for _ in 0..4 {
            bench.call("change", json!({})).await;
        }
        assert!(bench.heard().is_empty());
        bench.call("lok", json!({})).await;
        bench.call("lok", json!({})).await;
        assert_eq!(bench.heard(), ["lok 2 in 1"]);
    });
}

#[test]
fn a_number_that_makes_no_sense_is_refused() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        let refused = root.mount::<StuckPlugin>(StuckConfig { after: 1 });
        let error = match refused {
            Ok(fiber) => fiber.running().await.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("`after` is 1, and has to be 2 or more"), "{error}");
    });
}

#[test]
fn nothing_is_left_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let stuck = ctx.mount::<StuckPlugin>(StuckConfig::default()).unwrap();
            stuck.running().await.unwrap();
            stuck.dispose().await.unwrap();
        })
        .await;
    });
}
