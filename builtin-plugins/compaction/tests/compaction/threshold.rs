//! What happens by itself before a step.

use linn_bus_test::run;
use linn_plugin_compaction::CompactionConfig;
use linn_services::compaction::CompactTrigger;
use linn_services::events::SettingsChanged;
use linn_services::llm::{CONTEXT_LENGTH, LlmError};
use linn_services::session::{Fact, SurfaceOp, TurnEnd, TurnEndReason};
use linn_services_test::Reply;

use crate::support::{Bench, asked, framed, small, summary};

/// Three turns of about 200 tokens each, and a prompt.
fn fill(bench: &Bench) {
    for n in 1..=3 {
        bench.turn(&format!("{n}{}", "p".repeat(99)), &format!("{n}{}", "a".repeat(99)));
    }
    bench.begin("go on");
}

#[test]
fn cp_01_below_the_threshold_nothing_happens() {
    run(async |root| {
        let config = CompactionConfig { threshold_percent: 70, digest_percent: 70, ..small() };
        let bench = Bench::new(root, config, []).await;
        fill(&bench);
        assert_eq!(bench.compaction().estimate(&bench.agent).unwrap(), 6 * 108 + 13);
        let before = bench.session().len();
        bench.pre_step().await.unwrap();
        assert_eq!((bench.session().len(), bench.model.requests().len()), (before, 0));
    });
}

#[test]
fn cp_01_above_the_threshold_the_head_gives_way_to_a_summary() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("what was done")]).await;
        fill(&bench);
        let before = bench.session().len();
        let surface = bench.session().surface();
        bench.pre_step().await.unwrap();
        assert_eq!(bench.kinds_from(before), ["compact/start", "compact/summary", "user/message", "compact/end"]);
        let last_answer = format!("assistant: 3{}", "a".repeat(99));
        assert_eq!(bench.history(), [framed("what was done"), last_answer, "user: go on".to_owned()]);

        let record = bench.session().record(before + 2).unwrap();
        let placed = record.surface.clone().unwrap();
        assert_eq!(placed.op, SurfaceOp::Replace { start: surface[0], end: surface[4] });
        let sources: Vec<u64> = [before, before + 1].into_iter().chain(surface[..5].iter().copied()).collect();
        assert_eq!(placed.source_seqs, Some(sources));
        let Fact::CompactSummary(fact) = &bench.session().record(before + 1).unwrap().fact else { panic!() };
        assert_eq!(
            (fact.summary.as_str(), fact.model.as_str(), fact.max_tokens),
            ("what was done", "writer", Some(100))
        );
        assert_eq!((&fact.shadowed_seqs[..], fact.shadowed_token_count), (&surface[..5], 5 * 108));

        let request = &bench.model.requests()[0];
        assert_eq!((request.config.model.as_str(), request.config.max_tokens), ("writer", Some(100)));
        assert!(request.tools.is_empty());
        assert!(asked(request).contains(&format!("User: 1{}", "p".repeat(99))), "{}", asked(request));
        assert!(!asked(request).contains("go on"));

        assert_eq!(bench.recorder.heard::<(CompactTrigger, u64)>(), [(CompactTrigger::Threshold, 661)]);
        let done = bench.outcomes().remove(0).unwrap();
        assert_eq!((done.tokens_before, done.facts), (661, vec!["a fact".to_owned()]));
        assert_eq!(done.tokens_after, bench.compaction().estimate(&bench.agent).unwrap());
    });
}

#[test]
fn cp_01_a_head_that_is_still_too_long_is_compacted_again_keeping_less() {
    run(async |root| {
        let config = CompactionConfig { retain_messages: 4, ..small() };
        // The first summary leaves too much, so that the next pass keeps two messages.
        let bench = Bench::new(root, config, [summary(&"s".repeat(200)), summary("short")]).await;
        for n in 1..=3 {
            bench.turn(&format!("{n}{}", "p".repeat(149)), &format!("{n}{}", "a".repeat(149)));
        }
        bench.begin("go on");
        bench.pre_step().await.unwrap();
        assert_eq!(bench.model.requests().len(), 2);
        let history = bench.history();
        assert_eq!((history.len(), &history[0]), (3, &framed("short")));
    });
}

#[test]
fn cp_01_a_session_that_was_silent_for_long_is_compacted_as_idle() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("s")]).await;
        for n in 1..=3 {
            bench.turn(&format!("{n}{}", "p".repeat(99)), &"a".repeat(100));
        }
        bench.root.sleep(std::time::Duration::from_secs(3600)).await.unwrap();
        bench.begin("go on");
        bench.pre_step().await.unwrap();
        assert_eq!(bench.recorder.heard::<(CompactTrigger, u64)>()[0].0, CompactTrigger::IdleThreshold);
    });
}

#[test]
fn nothing_happens_by_itself_when_it_is_switched_off() {
    run(async |root| {
        let bench = Bench::new(root, CompactionConfig { auto: false, ..small() }, []).await;
        fill(&bench);
        let before = bench.session().len();
        bench.pre_step_with(&"x".repeat(2000)).await.unwrap();
        assert_eq!(bench.session().len(), before);
        let error = bench.compaction().compact(bench.request(CompactTrigger::ContextLength)).await.unwrap_err();
        assert_eq!(error.code(), "COMPACTION_OFF");
    });
}

#[test]
fn it_can_be_switched_on_while_it_runs() {
    run(async |root| {
        let bench = Bench::new(root, CompactionConfig { auto: false, ..small() }, [summary("s")]).await;
        fill(&bench);
        bench.root.emit(&SettingsChanged { name: "context.auto_compact".to_owned(), value: true.into() });
        bench.pre_step_with(&"x".repeat(20)).await.unwrap();
        assert_eq!(bench.history()[0], framed("s"));
    });
}

/// The reply that makes a summary fail, and what the log says of it.
async fn cp_03(root: linn_bus::Root, reply: Reply, why: &str) {
    let bench = Bench::new(root, small(), [reply]).await;
    fill(&bench);
    let (before, history) = (bench.session().len(), bench.history());
    bench.pre_step().await.unwrap();
    assert_eq!(bench.kinds_from(before), ["compact/start", "compact/end"]);
    assert_eq!(bench.history(), history);
    let Fact::CompactEnd(end) = &bench.session().record(before + 1).unwrap().fact else { panic!() };
    assert!(end.error.as_deref().unwrap().contains(why), "{end:?}");
    let failed = bench.outcomes().remove(0).unwrap_err();
    assert_eq!(Some(failed.message), end.error);
    // The turn goes on, and a later step tries again.
    bench.model.push(summary("at last"));
    bench.says("on it");
    bench.pre_step().await.unwrap();
    assert_eq!(bench.history()[0], framed("at last"));
}

#[test]
fn cp_03_a_summary_that_is_not_smaller_changes_nothing() {
    run(async |root| cp_03(root, summary(&"s".repeat(800)), "no fewer than the 540").await);
}

#[test]
fn cp_03_a_model_that_fails_changes_nothing() {
    run(async |root| {
        cp_03(root, Reply::text("half").and_fail(LlmError::new("SERVER", "it broke")), "it broke").await;
    });
}

#[test]
fn cp_03_a_summary_that_was_cut_off_changes_nothing() {
    run(async |root| cp_03(root, summary("s").max_tokens(), "did not end within 100 tokens").await);
}

#[test]
fn cp_03_an_empty_summary_changes_nothing() {
    run(async |root| cp_03(root, Reply::empty(), "wrote nothing").await);
}

#[test]
fn old_tool_results_are_cut_before_anything_is_summed_up() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        bench.begin("look around");
        bench.calls(Some(&format!("begin{}end", "x".repeat(400))));
        bench.calls(Some("small"));
        bench.says("done");
        bench.end();
        bench.begin("go on");
        let before = bench.session().len();
        bench.pre_step().await.unwrap();
        assert_eq!(bench.kinds_from(before), ["user/message"]);
        assert_eq!(bench.recorder.heard::<usize>(), [1]);
        let cut = &bench.history()[2];
        assert!(cut.contains("c1") && cut.contains("begin") && cut.ends_with("end"), "{cut}");
        assert!(cut.contains("308 of 408 characters were left out"), "{cut}");
        assert!(bench.compaction().estimate(&bench.agent).unwrap() < 500);
        assert_eq!(bench.model.requests().len(), 0);
    });
}

#[test]
fn a_request_that_the_endpoint_refused_as_too_long_is_compacted_whatever_the_estimate() {
    run(async |root| {
        let bench = Bench::new(root, CompactionConfig { context_window: 100_000, ..small() }, [summary("s")]).await;
        fill(&bench);
        let turn = bench.session().turns().last_turn;
        let code = Some(CONTEXT_LENGTH.to_owned());
        bench.log(TurnEnd { turn, reason: TurnEndReason::Error { step: 1, message: "too long".into(), code } });
        bench.begin("again");
        bench.pre_step().await.unwrap();
        assert_eq!(bench.recorder.heard::<(CompactTrigger, u64)>()[0].0, CompactTrigger::ContextLength);
        assert_eq!(bench.history()[0], framed("s"));
        let before = bench.session().len();
        bench.pre_step().await.unwrap();
        assert_eq!(bench.session().len(), before, "once");
    });
}
