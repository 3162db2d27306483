//! The tool `finish` and the last word of a turn, with turns that are written into the log by hand.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use linn_bus::Root;
use linn_bus_test::{Recorder, leak_check, run};
use linn_plugin_finish::{FinishConfig, FinishPlugin};
use linn_services::agent::{Agent, AgentHandle, ContinuationDecision};
use linn_services::events::{AgentReflecting, AgentSummaryRequired, AgentTurnContinuation};
use linn_services::model::{ContentBlock, MessageSource, text_of};
use linn_services::session::{AssistantMessage, StepStart, ToolCall, TurnEnd, TurnEndReason, TurnStart, TurnTrigger};
use linn_services::tools::{Tool, ToolExecutionInput, ToolFailure, Tools, ToolsPlugin};
use linn_services_test::undriven_agent;
use serde_json::{Map, Value, json};

struct Bench {
    root: Root,
    ada: AgentHandle,
    heard: Recorder,
}

impl Bench {
    async fn new(root: Root, config: FinishConfig) -> Self {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<FinishPlugin>(config).unwrap().running().await.unwrap();
        let look = Tool::new("look", "", async |_: Map<String, Value>, _| Ok::<_, ToolFailure>("seen"));
        root.get::<dyn Tools>().unwrap().register(&root, look).unwrap();
        let ada = undriven_agent(&root, "ada").await;
        let heard = Recorder::new();
        heard.note(&root, |it: &AgentReflecting| format!("reflecting {}", it.recurrence)).unwrap();
        heard
            .note(&root, |it: &AgentSummaryRequired| format!("summary {} of {}", it.attempt, it.max_attempts))
            .unwrap();
        Self { root, ada, heard }
    }

    fn agent(&self) -> &Agent {
        self.ada.agent()
    }

    /// Begins a turn, and logs an answer that calls these tools.
    fn begin(&self, turn: u32, said: &str, calls: &[&str]) {
        let trigger = TurnTrigger::Message { source: MessageSource::User };
        self.agent().session().append(TurnStart { turn, trigger }).unwrap();
        self.step(turn, 1, said, calls);
    }

    fn step(&self, turn: u32, step: u32, said: &str, calls: &[&str]) {
        let session = self.agent().session();
        session.append(StepStart { turn, step }).unwrap();
        let content = vec![ContentBlock::text(said)];
        session.say(AssistantMessage { turn, step, content, usage: None }).unwrap();
        for (at, name) in calls.iter().enumerate() {
            let call_id = format!("{turn}-{step}-{at}").as_str().into();
            let call = ToolCall { turn, step, call_id, name: (*name).into(), arguments: "{}".to_owned() };
            session.append(call).unwrap();
        }
    }

    fn end(&self, turn: u32) {
        self.agent().session().append(TurnEnd { turn, reason: TurnEndReason::Completed }).unwrap();
    }

    async fn call(&self, name: &str) -> (String, bool) {
        let agent = Some(self.agent().clone());
        let input = ToolExecutionInput { agent, ..ToolExecutionInput::new("c", name, json!({})) };
        let result = self.root.get::<dyn Tools>().unwrap().execute(input).await.unwrap();
        (text_of(&result.content), result.is_error)
    }

    /// What is decided where the loop would decide so; the text the model gets if it goes on.
    async fn decided(&self, turn: u32, default: ContinuationDecision) -> Option<Option<String>> {
        let event = AgentTurnContinuation { agent: self.agent().clone(), turn, default_decision: default };
        match self.root.waterfall(&event, async || event.default_decision.clone()).await.unwrap() {
            ContinuationDecision::Stop => None,
            ContinuationDecision::Continue { reason } => Some(reason.map(|it| text_of(&it.content))),
        }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.heard::<String>()
    }
}

const GO_ON: ContinuationDecision = ContinuationDecision::Continue { reason: None };

#[test]
fn wp_6_3_a_turn_that_ends_without_a_word_is_asked_for_one_three_times() {
    run(async |root| {
        let bench = Bench::new(root, FinishConfig::default()).await;
        bench.begin(1, "ok", &["look"]);
        assert_eq!(bench.decided(1, GO_ON).await, Some(None), "what goes on anyway is left alone");
        for _ in 0..3 {
            let told = bench.decided(1, ContinuationDecision::Stop).await.unwrap().unwrap();
            assert!(told.contains("visible"), "{told}");
        }
        assert_eq!(bench.decided(1, ContinuationDecision::Stop).await, None);
        assert_eq!(bench.heard(), ["reflecting 1", "summary 1 of 2", "summary 2 of 2"]);
        bench.end(1);
        // The next turn begins anew, and one that has told the human enough ends.
        bench.begin(2, "ok", &["look"]);
        assert!(bench.decided(2, ContinuationDecision::Stop).await.is_some());
        bench.step(2, 2, &"I looked, and this is what I saw: nothing. ".repeat(2), &[]);
        assert_eq!(bench.decided(2, ContinuationDecision::Stop).await, None);
        assert_eq!(bench.heard().last().unwrap(), "reflecting 2");
    });
}

#[test]
fn a_turn_without_calls_or_with_too_few_of_them_just_ends() {
    run(async |root| {
        let bench = Bench::new(root, FinishConfig { min_tool_calls: 2, ..FinishConfig::default() }).await;
        bench.begin(1, "ok", &["look"]);
        assert_eq!(bench.decided(1, ContinuationDecision::Stop).await, None);
        assert!(bench.heard().is_empty());
    });
}

#[test]
fn finish_ends_the_turn_and_nothing_behind_it_runs() {
    run(async |root| {
        let bench = Bench::new(root, FinishConfig { reflect: false, ..FinishConfig::default() }).await;
        bench.begin(1, "", &["finish", "look"]);
        assert_eq!(bench.call("finish").await, ("This turn has finished".to_owned(), false));
        let (told, is_error) = bench.call("look").await;
        assert!(is_error && told.contains("the turn has finished"), "{told}");
        assert_eq!(bench.decided(1, GO_ON).await, None);
        // What keeps the turn going all the same, such as a word of the human, begins anew.
        assert_eq!(bench.call("look").await, ("seen".to_owned(), false));
    });
}

#[test]
fn finish_is_answered_with_the_question_as_long_as_the_human_was_told_nothing() {
    run(async |root| {
        let bench = Bench::new(root, FinishConfig::default()).await;
        bench.begin(1, "", &["look", "finish"]);
        let (told, is_error) = bench.call("finish").await;
        assert!(!is_error && told.starts_with("Before this turn ends, look back"), "{told}");
        assert_eq!(bench.decided(1, GO_ON).await, Some(None), "the model is asked again");
        bench.step(1, 2, &"word ".repeat(40), &["finish"]);
        assert_eq!(bench.call("finish").await.0, "This turn has finished");
        assert_eq!(bench.decided(1, GO_ON).await, None);
        assert_eq!(bench.heard(), ["reflecting 1"]);
    });
}

#[test]
fn it_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let finish = ctx.mount::<FinishPlugin>(FinishConfig::default()).unwrap();
            finish.running().await.unwrap();
            finish.dispose().await.unwrap();
        })
        .await;
    });
}
