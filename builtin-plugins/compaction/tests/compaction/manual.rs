//! What a human asks for.

use linn_bus_test::run;
use linn_services::compaction::CompactTrigger;
use linn_services::secrets::{SecretKeeper, SecretsPlugin};
use linn_services_test::Gate;

use crate::support::{Bench, asked, framed, small, summary};

fn talk(bench: &Bench) {
    for n in 1..=2 {
        bench.turn(&format!("{n}{}", "p".repeat(99)), &format!("{n}{}", "a".repeat(99)));
    }
}

#[test]
fn while_idle_it_has_a_turn_of_its_own() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("s")]).await;
        talk(&bench);
        let before = bench.session().len();
        let mut request = bench.request(CompactTrigger::Manual);
        request.instructions = Some("keep the names".into());
        let done = bench.compaction().compact(request).await.unwrap().unwrap();
        assert_eq!(
            bench.kinds_from(before),
            [
                "turn/start{injection}",
                "compact/start",
                "compact/summary",
                "user/message",
                "compact/end",
                "turn/end{completed}",
            ]
        );
        assert_eq!(done.summary, "s");
        assert!(done.tokens_after < done.tokens_before);
        assert_eq!(bench.history()[0], framed("s"));
        assert_eq!(bench.history().len(), 3);
        assert!(asked(&bench.model.requests()[0]).contains("Heed this as well: keep the names"));
    });
}

#[test]
fn r139_a_key_in_a_wish_of_the_human_does_not_reach_the_model() {
    run(async |root| {
        let keeper = SecretKeeper::new();
        keeper.keep("sk-test-123");
        root.mount::<SecretsPlugin>(keeper).unwrap().running().await.unwrap();
        let bench = Bench::new(root, small(), [summary("s")]).await;
        talk(&bench);
        let mut request = bench.request(CompactTrigger::Manual);
        request.instructions = Some("keep sk-test-123 in mind".into());
        bench.compaction().compact(request).await.unwrap().unwrap();
        let asked = asked(&bench.model.requests()[0]);
        assert!(asked.contains("Heed this as well: keep [redacted] in mind"), "{asked}");
        assert!(!asked.contains("sk-test-123"), "{asked}");
    });
}

#[test]
fn a_summary_that_fails_while_idle_logs_nothing() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        talk(&bench);
        let before = bench.session().len();
        let error = bench.compaction().compact(bench.request(CompactTrigger::Manual)).await.unwrap_err();
        assert_eq!(error.code(), "COMPACTION_SUMMARY");
        assert_eq!(bench.session().len(), before);
        assert_eq!(bench.outcomes().remove(0).unwrap_err().error.code, "COMPACTION_SUMMARY");
    });
}

#[test]
fn there_has_to_be_something_to_compact() {
    run(async |root| {
        let bench = Bench::new(root, small(), []).await;
        assert_eq!(bench.compaction().compact(bench.request(CompactTrigger::Manual)).await.unwrap(), None);
        bench.turn("hi", "ho");
        assert_eq!(bench.compaction().compact(bench.request(CompactTrigger::Manual)).await.unwrap(), None);
        assert!(bench.recorder.names().is_empty());
    });
}

#[test]
fn while_a_turn_runs_it_waits_for_its_end() {
    run(async |root| {
        let bench = Bench::new(root, small(), [summary("s")]).await;
        talk(&bench);
        bench.begin("busy");
        let (compaction, request) = (bench.compaction(), bench.request(CompactTrigger::Manual));
        let waiting = bench.root.spawn(async move { compaction.compact(request).await }).unwrap();
        bench.root.sleep(std::time::Duration::from_secs(60)).await.unwrap();
        assert!(!waiting.is_finished() && bench.model.requests().is_empty());
        bench.says("done");
        bench.end();
        assert!(waiting.join().await.unwrap().unwrap().is_some());
        assert_eq!(bench.history()[0], framed("s"));
    });
}

#[test]
fn a_turn_that_begins_meanwhile_wins() {
    run(async |root| {
        let gate = Gate::new();
        let bench = Bench::new(root, small(), [summary("s").held_at(&gate)]).await;
        talk(&bench);
        let (compaction, request) = (bench.compaction(), bench.request(CompactTrigger::Manual));
        let running = bench.root.spawn(async move { compaction.compact(request).await }).unwrap();
        gate.reached().await;
        bench.begin("go on");
        let (before, history) = (bench.session().len(), bench.history());
        gate.open();
        assert_eq!(running.join().await.unwrap().unwrap_err().code(), "COMPACTION_REGION");
        assert_eq!((bench.session().len(), bench.history()), (before, history));
    });
}
