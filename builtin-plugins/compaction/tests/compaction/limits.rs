//! What does not fit, whatever is tried.

use linn_bus_test::{leak_check, run};
use linn_plugin_compaction::{CompactionConfig, CompactionPlugin};
use linn_services::llm::{LlmError, LlmPlugin};
use linn_services::model::{EpochHeader, LlmCallConfig, ToolSchema};
use linn_services::session::{HeaderReason, RequestHeader};
use linn_services_test::Reply;
use serde_json::json;

use crate::support::{Bench, asked, framed, small, summary};

fn too_long() -> Reply {
    Reply::empty().and_fail(LlmError::context_length("the prompt is too long"))
}

/// Turns that are worth a summary of some length.
fn fill(bench: &Bench) {
    for n in 1..=5 {
        bench.turn(&format!("{n}{}", "p".repeat(59)), &format!("{n}{}", "a".repeat(59)));
    }
    bench.begin("go on");
}

#[test]
fn r105_a_summary_request_that_is_too_long_is_asked_again_with_less() {
    run(async |root| {
        let bench = Bench::new(root, small(), [too_long(), too_long(), summary("s")]).await;
        fill(&bench);
        bench.pre_step().await.unwrap();
        let sizes: Vec<_> = bench.model.requests().iter().map(|it| asked(it).len()).collect();
        assert_eq!(sizes.len(), 3);
        assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
        assert!(bench.model.requests().iter().all(|it| it.messages.len() == 1 && it.tools.is_empty()));
        assert!(asked(&bench.model.requests()[2]).contains("were left out"));
        assert_eq!(bench.history()[0], framed("s"));
    });
}

#[test]
fn r105_after_the_last_attempt_the_error_is_clear_and_the_history_unchanged() {
    run(async |root| {
        let bench = Bench::new(root, small(), [too_long(), too_long(), too_long(), summary("never asked for")]).await;
        fill(&bench);
        let history = bench.history();
        bench.pre_step().await.unwrap();
        assert_eq!((bench.history(), bench.model.n_left()), (history, 1));
        let failed = bench.outcomes().remove(0).unwrap_err();
        assert_eq!(failed.message, "no summary was made: the prompt is too long after 3 attempts");
    });
}

fn message(error: &linn_bus::ListenerError) -> String {
    format!("{error:#}")
}

fn code(error: &linn_bus::ListenerError) -> &str {
    match error.cause() {
        linn_bus::Cause::Failed(fault) => fault.code().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r106_what_stands_in_front_of_the_history_and_does_not_fit_is_named() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        fill(&bench);
        let parameters = json!({"type": "object", "description": "t".repeat(1500)});
        let tools = Some(vec![ToolSchema { name: "huge".into(), description: String::new(), parameters }]);
        let header = EpochHeader { config: LlmCallConfig::of_model("m"), tools, ..EpochHeader::default() };
        bench.log(RequestHeader { header, reason: HeaderReason::Initial });
        let before = bench.session().len();
        let error = bench.pre_step_with("system").await.unwrap_err();
        assert_eq!(code(&error), "CONTEXT_CANNOT_SHRINK");
        assert!(message(&error).contains("the largest part is the list of tools"), "{error:#}");
        // Nothing was asked or logged in the attempt.
        assert_eq!((bench.session().len(), bench.model.requests().len()), (before, 0));

        let error = bench.pre_step_with(&"s".repeat(3000)).await.unwrap_err();
        assert!(message(&error).contains("the largest part is the system prompt with about 3000"), "{error:#}");
    });
}

#[test]
fn r107_where_no_summary_helps_the_largest_result_is_cut() {
    run(async |root| {
        let config = CompactionConfig { retain_messages: 3, digest_result_tokens: 5000, extra_passes: 0, ..small() };
        let bench = Bench::new(root, config, [summary(&"s".repeat(400))]).await;
        bench.turn(&"p".repeat(60), &"a".repeat(60));
        bench.begin("look");
        bench.calls(Some(&"r".repeat(900)));
        bench.pre_step().await.unwrap();
        assert!(bench.outcomes().remove(0).is_err(), "the summary saves nothing");
        let history = bench.history();
        assert!(history.last().unwrap().contains("characters were left out"), "{history:#?}");
        let budget = bench.compaction().budget(&bench.agent).unwrap();
        assert!(bench.compaction().estimate(&bench.agent).unwrap() <= budget.hard_limit_tokens);
    });
}

#[test]
fn r107_where_that_does_not_help_either_the_error_names_the_largest_part() {
    run(async |root| {
        let bench = Bench::new(root, CompactionConfig { retain_messages: 9, ..small() }, []).await;
        bench.begin("write");
        bench.says(&"a".repeat(2000));
        let error = bench.pre_step().await.unwrap_err();
        assert_eq!(code(&error), "CONTEXT_CANNOT_SHRINK");
        assert!(message(&error).contains("the largest part is answer 2 of the model with about 2008"), "{error:#}");
    });
}

#[test]
fn r108_a_tool_result_larger_than_the_window_is_cut_and_the_turn_goes_on() {
    run(async |root| {
        let config = CompactionConfig { context_window: 32_000, ..CompactionConfig::default() };
        let bench = Bench::new(root, config, []).await;
        bench.begin("read it");
        bench.calls(Some(&"0123456789abcdef".repeat(5 << 16)));
        bench.pre_step().await.unwrap();
        let history = bench.history();
        let result = history.last().unwrap();
        assert!(
            result.len() < 32_000 * 4 && result.contains("of 5242880 characters were left out"),
            "{}",
            result.len()
        );
        assert!(result.contains("call the tool again"));
        assert_eq!(bench.model.requests().len(), 0);
    });
}

#[test]
fn r109_a_first_message_that_is_too_long_is_an_error_and_is_not_lost() {
    run(async |root| {
        let config = CompactionConfig { context_window: 32_000, ..CompactionConfig::default() };
        let bench = Bench::new(root, config, [summary("s")]).await;
        bench.begin(&"m".repeat(300_000));
        let before = bench.session().len();
        let error = bench.pre_step().await.unwrap_err();
        assert_eq!(code(&error), "CONTEXT_CANNOT_SHRINK");
        let expected = "the context is too large for the model: about 75008 tokens, and 29760 fit; the largest part is the last \
                        message with about 75008; make that smaller, or choose a model with a larger window";
        assert!(message(&error).ends_with(expected), "{error:#}");
        assert_eq!((bench.session().len(), bench.model.requests().len()), (before, 0));
        assert_eq!(bench.session().messages().len(), 1);
    });
}

#[test]
fn windows_of_models_go_by_the_longest_name_that_fits() {
    run(async |root| {
        let windows = [("*".to_owned(), 10), ("m".to_owned(), 20_000), ("m*".to_owned(), 30)].into();
        let bench = Bench::new(root, CompactionConfig { windows, ..CompactionConfig::default() }, []).await;
        let budget = bench.compaction().budget(&bench.agent).unwrap();
        assert_eq!((budget.context_window, budget.reserve_tokens, budget.safety_tokens), (20_000, 1000, 400));
        assert_eq!((budget.hard_limit_tokens, budget.threshold_tokens, budget.digest_tokens), (18_600, 18_000, 14_000));
    });
}

#[test]
fn configs_that_cannot_be_meant_do_not_start() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let bad = [
            CompactionConfig { threshold_percent: 0, ..CompactionConfig::default() },
            CompactionConfig { digest_percent: 101, ..CompactionConfig::default() },
            CompactionConfig { digest_target_percent: 80, ..CompactionConfig::default() },
            CompactionConfig { chars_per_token: 0, ..CompactionConfig::default() },
            CompactionConfig { summary_attempts: 0, ..CompactionConfig::default() },
        ];
        for config in bad {
            let mounted = root.mount::<CompactionPlugin>(config).unwrap();
            assert_eq!(mounted.running().await.unwrap_err().code(), "CONFIG_INVALID");
            mounted.dispose().await.unwrap();
        }
    });
}

#[test]
fn the_plugin_goes_without_a_trace() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<CompactionPlugin>(CompactionConfig::default()).unwrap();
            plugin.running().await.unwrap();
            assert!(ctx.get::<dyn linn_services::compaction::Compaction>().is_some());
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}
