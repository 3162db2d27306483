//! Stats and the breakdown of a context, from logs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use linn_bus::{Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_plugin_insight::{InsightConfig, InsightPlugin};
use linn_services::agent::{Agent, AgentHandle};
use linn_services::model::{ContentBlock, EpochHeader, MessageSource, TokenUsage};
use linn_services::session::{
    AssistantMessage, CompactEnd, CompactStart, HeaderReason, RequestHeader, RewindCause, SessionRewind, StepEnd,
    StepStart, SurfaceOp, ToolCall, ToolResult, TurnEnd, TurnEndReason, TurnStart, TurnTrigger, UserMessage,
};
use linn_services::usage::{SessionStats, Usage};
use linn_services_test::undriven_agent;

struct Bench {
    ada: AgentHandle,
    usage: Svc<dyn Usage>,
}

impl Bench {
    async fn new(root: &Root) -> Self {
        root.mount::<InsightPlugin>(InsightConfig::default()).unwrap().running().await.unwrap();
        Self { ada: undriven_agent(root, "ada").await, usage: root.get().unwrap() }
    }

    fn agent(&self) -> &Agent {
        self.ada.agent()
    }

    fn stats(&self) -> SessionStats {
        self.usage.stats(self.agent().session()).unwrap()
    }

    fn begin(&self, turn: u32, prompt: &str) {
        let session = self.agent().session();
        session.append(TurnStart { turn, trigger: TurnTrigger::Message { source: MessageSource::User } }).unwrap();
        session.say(UserMessage { content: vec![prompt.into()], source: MessageSource::User }).unwrap();
    }

    fn answer(&self, turn: u32, step: u32, content: Vec<ContentBlock>, usage: Option<TokenUsage>) {
        let session = self.agent().session();
        session.append(StepStart { turn, step }).unwrap();
        session.say(AssistantMessage { turn, step, content, usage }).unwrap();
        session.append(StepEnd { turn, step }).unwrap();
    }

    fn end(&self, turn: u32) {
        self.agent().session().append(TurnEnd { turn, reason: TurnEndReason::Completed }).unwrap();
    }

    fn turn(&self, turn: u32, usage: Option<TokenUsage>) {
        self.begin(turn, &"p".repeat(40));
        self.answer(turn, 1, vec!["a".repeat(40).into()], usage);
        self.end(turn);
    }
}

fn counted(input: u64, cached: u64, output: u64) -> Option<TokenUsage> {
    Some(TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: (cached > 0).then_some(cached),
        cache_write_tokens: None,
        reasoning_tokens: None,
    })
}

#[test]
fn wp_5_4_stats_add_up_what_endpoints_counted() {
    run(async |root| {
        let bench = Bench::new(&root).await;
        assert_eq!(bench.stats(), SessionStats::default());
        bench.turn(1, counted(100, 0, 10));
        bench.turn(2, counted(30, 90, 20));
        let stats = bench.stats();
        let expected = SessionStats {
            tokens_in: 140,
            tokens_out: 30,
            total_in: 220,
            tokens_total: 250,
            cached_tokens: 90,
            cache_hit_ratio: 90.0 / 220.0,
            turns: 2,
            compactions: 0,
            messages: 4,
        };
        assert_eq!(stats, expected);
        assert_eq!(bench.stats(), expected, "nothing is counted twice");
        bench.begin(3, &"p".repeat(40));
        assert_eq!(bench.stats().tokens_in, 140 + 10 + 8, "what came since is estimated");
        assert_eq!(bench.stats().turns, 2, "it asked no model yet");
    });
}

#[test]
fn what_no_endpoint_counted_is_estimated() {
    run(async |root| {
        let bench = Bench::new(&root).await;
        bench.turn(1, None);
        let stats = bench.stats();
        assert_eq!((stats.total_in, stats.tokens_out, stats.tokens_in), (18, 18, 36));
        bench.turn(2, counted(0, 0, 0));
        let stats = bench.stats();
        assert_eq!((stats.total_in, stats.tokens_out), (18 + 54, 36), "an endpoint that counts nothing says nothing");
    });
}

#[test]
fn wp_4_2_a_reset_begins_anew_and_an_undo_does_not() {
    run(async |root| {
        let bench = Bench::new(&root).await;
        let session = bench.agent().session();
        bench.turn(1, counted(100, 0, 10));
        let len = session.len();
        bench.turn(2, counted(200, 0, 20));
        session.append(SessionRewind { to: len, cause: RewindCause::Undo }).unwrap();
        let stats = bench.stats();
        assert_eq!((stats.total_in, stats.tokens_out, stats.turns, stats.messages), (300, 30, 2, 2), "it was paid for");
        assert_eq!(stats.tokens_in, 36, "the history is estimated as a whole");
        for cause in [RewindCause::Reset, RewindCause::Clear] {
            session.append(SessionRewind { to: 0, cause }).unwrap();
            assert_eq!(bench.stats(), SessionStats::default(), "{cause:?}");
            let turn = session.turns().last_turn + 1;
            bench.turn(turn, counted(7, 0, 1));
            assert_eq!((bench.stats().total_in, bench.stats().turns), (7, 1));
        }
    });
}

#[test]
fn a_compaction_counts_if_it_changed_something_and_is_no_turn() {
    run(async |root| {
        let bench = Bench::new(&root).await;
        let session = bench.agent().session();
        bench.turn(1, counted(1000, 0, 10));
        let trigger = TurnTrigger::Injection { source: MessageSource::plugin("compact") };
        session.append(TurnStart { turn: 2, trigger }).unwrap();
        session.append(CompactStart { turn: 2 }).unwrap();
        session.append(CompactEnd { turn: 2, error: Some("no".into()) }).unwrap();
        assert_eq!(bench.stats().compactions, 0);
        session.append(CompactStart { turn: 2 }).unwrap();
        let surface = session.surface();
        let op = SurfaceOp::Replace { start: surface[0], end: surface[1] };
        let summary = UserMessage { content: vec!["s".repeat(8).into()], source: MessageSource::plugin("compact") };
        session.append_to_surface(summary, op, None).unwrap();
        session.append(CompactEnd { turn: 2, error: None }).unwrap();
        bench.end(2);
        let stats = bench.stats();
        assert_eq!((stats.compactions, stats.turns, stats.messages, stats.tokens_in), (1, 1, 1, 10));
    });
}

#[test]
fn wp_5_4_the_context_is_taken_apart() {
    run(async |root| {
        let bench = Bench::new(&root).await;
        let session = bench.agent().session();
        let header = EpochHeader { system: Some("s".repeat(40)), ..EpochHeader::default() };
        session.append(RequestHeader { header, reason: HeaderReason::Initial }).unwrap();
        bench.begin(1, &format!("first {}", "é".repeat(194)));
        let call = ContentBlock::ToolCall { id: "c1".into(), name: "read".into(), arguments: "{\"a\":1}".into() };
        session.append(StepStart { turn: 1, step: 1 }).unwrap();
        session.say(AssistantMessage { turn: 1, step: 1, content: vec![call], usage: None }).unwrap();
        session
            .append(ToolCall {
                turn: 1,
                step: 1,
                call_id: "c1".into(),
                name: "read".into(),
                arguments: "{\"a\":1}".into(),
            })
            .unwrap();
        let content = vec!["r".repeat(4000).into()];
        session
            .say(ToolResult {
                turn: 1,
                step: 1,
                call_id: "c1".into(),
                content,
                is_error: false,
                error: None,
                meta: None,
            })
            .unwrap();
        session.append(StepEnd { turn: 1, step: 1 }).unwrap();

        let told = bench.usage.breakdown(bench.agent()).unwrap();
        assert_eq!((told.messages, told.system_tokens), (3, 10));
        let roles: Vec<_> = told.by_role.iter().map(|(role, tokens)| format!("{role} {tokens}")).collect();
        assert_eq!(roles, ["assistant 11", "system 10", "tool 1008", "user 58"]);
        assert_eq!(told.total_tokens, 1087);
        let top: Vec<_> = told.top_consumers.iter().map(|it| (it.index, &*it.role, it.tokens)).collect();
        assert_eq!(top, [(2, "tool", 1008), (0, "user", 58), (1, "assistant", 11)]);
        assert_eq!(told.top_consumers[1].preview, format!("first {}…", "é".repeat(94)));
        assert_eq!(told.top_consumers[2].preview, "read {\"a\":1}");
    });
}

#[test]
fn the_largest_messages_are_told_ten_at_most() {
    run(async |root| {
        let bench = Bench::new(&root).await;
        for turn in 1..=8 {
            bench.turn(turn, None);
        }
        let told = bench.usage.breakdown(bench.agent()).unwrap();
        let places: Vec<u64> = told.top_consumers.iter().map(|it| it.index).collect();
        assert_eq!(places, (0..10).collect::<Vec<u64>>(), "of two alike the older one comes first");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        let ada = undriven_agent(&root, "ada").await;
        leak_check(&root, async |ctx| {
            let insight = ctx.mount::<InsightPlugin>(InsightConfig::default()).unwrap();
            insight.running().await.unwrap();
            let usage = root.get::<dyn Usage>().unwrap();
            usage.stats(ada.agent().session()).unwrap();
            insight.dispose().await.unwrap();
        })
        .await;
    });
}
