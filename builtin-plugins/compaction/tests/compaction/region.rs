//! What may be cut, and where.

use linn_bus_test::run;
use linn_plugin_compaction::CompactionConfig;
use linn_services::compaction::{CompactTrigger, CompactionError};
use linn_services::session::{CompactStart, Fact, StepEnd, StepStart};
use linn_services_test::Gate;

use crate::support::{Bench, FRAMED, asked, framed, small, summary};

/// user, call c1, result c1, call c2, result c2, call c3, result c3, text.
fn three_calls(bench: &Bench) {
    bench.begin(&"p".repeat(100));
    for _ in 0..3 {
        bench.calls(Some(&"r".repeat(150)));
    }
    bench.says("done");
}

#[test]
fn r102_no_cut_parts_a_call_from_its_result() {
    for keep in 1..=8 {
        run(async |root| {
            let config = CompactionConfig {
                retain_messages: keep,
                context_window: 1200,
                threshold_percent: 40,
                digest_percent: 40,
                extra_passes: 0,
                ..small()
            };
            let bench = Bench::new(root, config, [summary("s")]).await;
            three_calls(&bench);
            assert_eq!(bench.history().len(), 8);
            bench.pre_step().await.unwrap();
            // Keeping 4 falls on the result of c2, so that its call stays as well.
            let expected = match keep {
                1 => 2,
                2 | 3 => 4,
                4 | 5 => 6,
                _ => 8,
            };
            assert_eq!(bench.history().len(), expected, "keep {keep}: {:#?}", bench.history());
        });
    }
}

#[test]
fn r103_a_second_compaction_takes_the_first_summary_in() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("first"), summary("second")]).await;
        for n in 1..=3 {
            bench.turn(&format!("{n}{}", "p".repeat(99)), &"a".repeat(100));
        }
        bench.begin("go on");
        bench.pre_step().await.unwrap();
        assert_eq!(bench.history()[0], framed("first"));
        for _ in 0..3 {
            bench.calls(Some(&"r".repeat(100)));
        }
        bench.pre_step().await.unwrap();
        let history = bench.history();
        assert_eq!(history[0], framed("second"));
        assert_eq!(history.iter().filter(|it| it.starts_with(FRAMED)).count(), 1, "{history:#?}");
        assert!(asked(&bench.model.requests()[1]).contains("first"));
    });
}

#[test]
fn r103_a_summary_alone_is_not_summed_up_again() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("first")]).await;
        for n in 1..=3 {
            bench.turn(&format!("{n}{}", "p".repeat(99)), &"a".repeat(100));
        }
        bench.begin("go on");
        bench.pre_step().await.unwrap();
        let history = bench.history();
        assert_eq!(history.len(), 3);
        assert_eq!(bench.compaction().compact(bench.request(CompactTrigger::Threshold)).await.unwrap(), None);
        assert_eq!((bench.history(), bench.model.requests().len()), (history, 1));
    });
}

#[test]
fn r104_a_call_that_was_never_answered_gets_a_result() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("s")]).await;
        for _ in 0..3 {
            bench.turn(&"p".repeat(100), &"a".repeat(100));
        }
        bench.begin("look");
        bench.calls(None);
        bench.end();
        bench.begin("again");
        bench.pre_step().await.unwrap();
        let history = bench.history();
        assert_eq!(history[0], framed("s"));
        let last = history.last().unwrap();
        assert!(last.contains("c1") && last.contains("interrupted") && last.ends_with("again"), "{last}");
        // The prompt is still the human's.
        let is_user = bench.session().find_last(|it| match &it.fact {
            Fact::UserMessage(it) if it.content.iter().any(|it| it.as_text() == Some("again")) => {
                Some(it.source.kind() == "user")
            }
            _ => None,
        });
        assert_eq!(is_user, Some(true));
    });
}

#[test]
fn r104_a_call_at_the_very_end_is_answered_when_a_human_compacts() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("s")]).await;
        for _ in 0..3 {
            bench.turn(&"p".repeat(100), &"a".repeat(100));
        }
        bench.begin("look");
        bench.calls(None);
        bench.end();
        bench.compaction().compact(bench.request(CompactTrigger::Manual)).await.unwrap().unwrap();
        let history = bench.history();
        assert!(history.last().unwrap().contains("interrupted"), "{history:#?}");
    });
}

fn region(error: &CompactionError) -> &str {
    match error {
        CompactionError::Region(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn cp_02_a_history_with_a_result_before_its_call_is_not_cut() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        bench.begin(&"p".repeat(100));
        let content = vec![linn_services::model::ContentBlock::text("r".repeat(200))];
        let (turn, step) = (1, 1);
        bench.log(StepStart { turn, step });
        bench.log(linn_services::session::ToolResult {
            turn,
            step,
            call_id: "none".into(),
            content,
            is_error: false,
            error: None,
            meta: None,
        });
        bench.log(StepEnd { turn, step });
        bench.says("done");
        bench.says("done again");
        let error = bench.compaction().compact(bench.request(CompactTrigger::Threshold)).await.unwrap_err();
        assert_eq!(
            (region(&error), error.code()),
            ("a result stands there without its call before it", "COMPACTION_REGION")
        );
    });
}

#[test]
fn cp_02_an_open_step_is_not_cut() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        three_calls(&bench);
        bench.log(StepStart { turn: 1, step: 9 });
        let error = bench.compaction().compact(bench.request(CompactTrigger::ContextLength)).await.unwrap_err();
        assert_eq!(region(&error), "a step is open");
    });
}

#[test]
fn cp_02_one_at_a_time() {
    run(async |root| {
        let gate = Gate::new();
        let bench = Bench::new(root, small(), [summary("s").held_at(&gate)]).await;
        three_calls(&bench);
        let (compaction, request) = (bench.compaction(), bench.request(CompactTrigger::Threshold));
        let first = bench.root.spawn(async move { compaction.compact(request).await }).unwrap();
        gate.reached().await;
        let error = bench.compaction().compact(bench.request(CompactTrigger::Threshold)).await.unwrap_err();
        assert_eq!(error.code(), "COMPACTION_IN_PROGRESS");
        gate.open();
        assert!(first.join().await.unwrap().unwrap().is_some());
        assert_eq!(bench.history()[0], framed("s"));
    });
}

#[test]
fn cp_02_a_compaction_that_is_open_in_this_turn_blocks() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        three_calls(&bench);
        bench.log(CompactStart { turn: 1 });
        let error = bench.compaction().compact(bench.request(CompactTrigger::Threshold)).await.unwrap_err();
        assert_eq!(error.code(), "COMPACTION_IN_PROGRESS");
    });
}

#[test]
fn cp_04_a_compaction_that_was_never_closed_in_an_earlier_turn_does_not_block() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("s")]).await;
        three_calls(&bench);
        bench.log(CompactStart { turn: 1 });
        bench.end();
        bench.begin("go on");
        bench.pre_step().await.unwrap();
        assert_eq!(bench.history()[0], framed("s"));
    });
}

#[test]
fn a_compaction_that_is_dropped_leaves_the_history_and_closes_itself() {
    run(async |root| {
        let gate = Gate::new();
        let bench = Bench::new(root, small(), [summary("s").held_at(&gate), summary("t")]).await;
        three_calls(&bench);
        let history = bench.history();
        let (compaction, request) = (bench.compaction(), bench.request(CompactTrigger::Threshold));
        let signal = request.signal.clone();
        let before = bench.session().len();
        let running = bench.root.spawn(async move { compaction.compact(request).await }).unwrap();
        gate.reached().await;
        signal.cancel();
        assert_eq!(running.join().await.unwrap().unwrap_err().code(), "COMPACTION_SUMMARY");
        assert_eq!(bench.history(), history);
        assert_eq!(bench.kinds_from(before), ["compact/start", "compact/end"]);
        assert_eq!(bench.outcomes().len(), 1);
        // Nothing stays locked.
        assert!(bench.compaction().compact(bench.request(CompactTrigger::Threshold)).await.unwrap().is_some());
    });
}
