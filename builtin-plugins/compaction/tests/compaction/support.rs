//! An agent without a loop: the tests log its turns themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use linn_bus::{ListenerError, Root, Svc};
use linn_bus_test::Recorder;
use linn_plugin_compaction::{CompactionConfig, CompactionPlugin};
use linn_services::agent::{Agent, AgentHandle, AgentOptions, CreateAgent};
use linn_services::compaction::{CompactRequest, CompactTrigger, Compaction};
use linn_services::events::{AgentPreStep, CompactionDigest, CompactionEnd, CompactionStart};
use linn_services::llm::{Llm, LlmPlugin};
use linn_services::model::{ContentBlock, GenerateRequest, Message, MessageSource, text_of};
use linn_services::session::{
    AssistantMessage, Fact, Session, StepEnd, StepStart, ToolResult, TurnEnd, TurnEndReason, TurnStart, TurnTrigger,
    UserMessage,
};
use linn_services_test::{Reply, ScriptedModel, log_of, undriven_agents};
use tokio_util::sync::CancellationToken;

/// A harness with one agent whose model answers from a script.
pub(crate) struct Bench {
    pub(crate) root: Root,
    pub(crate) agent: Agent,
    pub(crate) model: ScriptedModel,
    pub(crate) recorder: Recorder,
    _handle: AgentHandle,
    n_calls: AtomicU32,
}

/// A window of 1000 characters, each a token, of which 700 may be filled; results are cut from 500 on, to 400, and the history
/// is compacted from 600 on. Two messages stay. The model that writes summaries can read more.
pub(crate) fn small() -> CompactionConfig {
    CompactionConfig {
        context_window: 1000,
        chars_per_token: 1,
        retain_messages: 2,
        retain_tokens: Some(0),
        threshold_percent: 60,
        digest_percent: 50,
        digest_target_percent: 40,
        digest_result_tokens: 200,
        model: Some("writer".into()),
        windows: [("writer".to_owned(), 10_000)].into(),
        summary_max_tokens: 100,
        ..CompactionConfig::default()
    }
}

impl Bench {
    pub(crate) async fn new(root: Root, config: CompactionConfig, script: impl IntoIterator<Item = Reply>) -> Self {
        let agents = undriven_agents(&root).await;
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<CompactionPlugin>(config).unwrap().running().await.unwrap();
        let model = ScriptedModel::new(script);
        root.get::<dyn Llm>()
            .unwrap()
            .register(&root, vec!["m".into(), "writer".into()], Arc::new(model.clone()))
            .unwrap();
        let options = AgentOptions { model: Some("m".into()), ..AgentOptions::default() };
        let handle = agents.create(&root, CreateAgent { options, ..CreateAgent::new("a", "s") }).await.unwrap();
        let recorder = Recorder::new();
        recorder.note(&root, |it: &CompactionStart| (it.trigger, it.tokens)).unwrap();
        recorder.note(&root, |it: &CompactionEnd| it.outcome.clone()).unwrap();
        recorder.note(&root, |it: &CompactionDigest| it.n_results).unwrap();
        Self { agent: handle.agent().clone(), _handle: handle, root, model, recorder, n_calls: AtomicU32::new(0) }
    }

    pub(crate) fn session(&self) -> &Session {
        self.agent.session()
    }

    pub(crate) fn compaction(&self) -> Svc<dyn Compaction> {
        self.root.get::<dyn Compaction>().unwrap()
    }

    pub(crate) fn log(&self, fact: impl Into<Fact>) -> u64 {
        let fact = fact.into();
        let session = self.session();
        let appended = if fact.is_on_surface() { session.say(fact) } else { session.append(fact) };
        appended.unwrap().seq
    }

    /// Begins a turn with a prompt, and gives its number.
    pub(crate) fn begin(&self, prompt: &str) -> u32 {
        let turn = self.session().turns().last_turn + 1;
        self.log(TurnStart { turn, trigger: TurnTrigger::Message { source: MessageSource::User } });
        self.log(UserMessage { content: vec![ContentBlock::text(prompt)], source: MessageSource::User });
        turn
    }

    pub(crate) fn end(&self) {
        let turn = self.session().turns().last_turn;
        self.log(TurnEnd { turn, reason: TurnEndReason::Completed });
    }

    fn step(&self, content: impl FnOnce(u32, u32)) {
        let turn = self.session().turns().last_turn;
        let last = self.session().find_last(|it| match &it.fact {
            Fact::StepStart(it) => Some(it.step),
            Fact::TurnStart(_) => Some(0),
            _ => None,
        });
        let step = last.unwrap_or(0) + 1;
        self.log(StepStart { turn, step });
        content(turn, step);
        self.log(StepEnd { turn, step });
    }

    /// A step in which the model says something.
    pub(crate) fn says(&self, text: &str) {
        self.step(|turn, step| {
            self.log(AssistantMessage { turn, step, content: vec![ContentBlock::text(text)], usage: None });
        });
    }

    /// A step in which the model calls a tool, which answers unless the result is missing.
    pub(crate) fn calls(&self, result: Option<&str>) {
        let id = format!("c{}", self.n_calls.fetch_add(1, Relaxed) + 1);
        self.step(|turn, step| {
            let call = ContentBlock::ToolCall { id: id.as_str().into(), name: "read".into(), arguments: "{}".into() };
            self.log(AssistantMessage { turn, step, content: vec![call], usage: None });
            if let Some(result) = result {
                let (content, is_error) = (vec![ContentBlock::text(result)], false);
                let call_id = id.as_str().into();
                self.log(ToolResult { turn, step, call_id, content, is_error, error: None, meta: None });
            }
        });
    }

    /// A whole turn without tools.
    pub(crate) fn turn(&self, prompt: &str, answer: &str) {
        self.begin(prompt);
        self.says(answer);
        self.end();
    }

    /// What the loop does before each step.
    pub(crate) async fn pre_step(&self) -> Result<(), ListenerError> {
        self.pre_step_with("").await
    }

    pub(crate) async fn pre_step_with(&self, system: &str) -> Result<(), ListenerError> {
        let event = AgentPreStep {
            agent: self.agent.clone(),
            turn: self.session().turns().last_turn,
            step: 1,
            full_system_prompt: system.into(),
            session_prefix: Arc::new([]),
            signal: CancellationToken::new(),
        };
        self.root.serial(&event).await.map(drop)
    }

    pub(crate) fn request(&self, trigger: CompactTrigger) -> CompactRequest {
        CompactRequest { agent: self.agent.clone(), trigger, instructions: None, signal: CancellationToken::new() }
    }

    /// The kinds in the log from a record on.
    pub(crate) fn kinds_from(&self, seq: u64) -> Vec<String> {
        let skipped = usize::try_from(seq).unwrap();
        log_of(self.session()).split_off(skipped)
    }

    /// The history in short, after a check that a model would take it.
    pub(crate) fn history(&self) -> Vec<String> {
        let messages = self.session().messages();
        check_valid(&messages);
        messages.iter().map(|it| linn_services_test::message(it)).collect()
    }

    pub(crate) fn outcomes(
        &self,
    ) -> Vec<Result<linn_services::compaction::Compacted, linn_services::events::CompactionFailed>> {
        self.recorder.heard()
    }
}

/// Every call is answered before anything else is said, and nothing else is answered.
pub(crate) fn check_valid(messages: &[Arc<Message>]) {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        for block in &message.content {
            match block {
                ContentBlock::ToolResult { tool_call_id, .. } => {
                    let at = open.iter().position(|it| tool_call_id == it.as_str());
                    open.remove(at.unwrap_or_else(|| panic!("result {tool_call_id} without its call: {messages:#?}")));
                }
                ContentBlock::ToolCall { id, .. } => open.push(id.as_str().to_owned()),
                _ => assert!(open.is_empty(), "{open:?} have no result: {messages:#?}"),
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no result: {messages:#?}");
}

pub(crate) fn summary(text: &str) -> Reply {
    Reply::text(&format!("<summary>{text}</summary>\n<facts>\n- a fact\n</facts>"))
}

/// What a model was asked, as text.
pub(crate) fn asked(request: &GenerateRequest) -> String {
    text_of(&request.messages[0].content)
}

pub(crate) const FRAMED: &str =
    "user: The conversation before this point was summed up to save room:\n<conversation-summary>\n";

/// A message with a summary, in short.
pub(crate) fn framed(text: &str) -> String {
    format!("{FRAMED}{text}\n</conversation-summary>")
}
