//! What a human permits for the rest of a session.

use linn_bus_test::run;
use linn_plugin_approval::ApprovalGateConfig;
use linn_services::approval::{ApprovalMode, Permission, PermissionScope};
use linn_services::events::ApprovalRequest;
use linn_services::session::Fact;
use serde_json::json;

use crate::support::{Desk, agent, rules};

#[test]
fn a_class_is_permitted_in_every_mode() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.modes.set_mode(ApprovalMode::Always).unwrap();
        desk.will_permit(PermissionScope::Class);
        assert!(desk.path("write_file", "a").await.was_asked());
        assert!(desk.path("edit", ".env").await.ran_unasked());
        assert!(desk.bash("$(anything)").await.ran_unasked());
        assert!(desk.path("read_file", "a").await.was_asked(), "the other class is not permitted");
    });
}

#[test]
fn a_tool_is_permitted_whatever_its_arguments() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&[], &[], &["write_file(src/*)"])).await;
        desk.will_permit(PermissionScope::Tool);
        assert!(desk.path("write_file", "a").await.was_asked());
        assert!(desk.path("write_file", "src/b").await.ran_unasked());
        assert!(desk.path("edit", "a").await.was_asked());
    });
}

#[test]
fn a_pattern_is_permitted_for_its_tool() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.will_permit(PermissionScope::Pattern(Some("src/*".to_owned())));
        assert!(desk.path("write_file", "src/a").await.has_run);
        assert!(desk.path("write_file", "src/b").await.ran_unasked());
        for (tool, path) in
            [("edit", "src/a"), ("write_file", "b"), ("write_file", "src/../b"), ("write_file", "../src/b")]
        {
            assert!(desk.path(tool, path).await.was_asked(), "{tool} {path}");
        }
    });
}

#[test]
fn what_is_permitted_is_logged_with_every_use() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.will_permit(PermissionScope::Tool);
        desk.path("write_file", "a").await;
        desk.path("write_file", "b").await;
        let records = desk.agent.session().records_from(1);
        let kinds: Vec<_> = records.iter().map(|it| it.fact.kind()).collect();
        assert_eq!(kinds, ["approval/asked", "approval/decided"].repeat(2));
        assert!(records.iter().all(|it| match &it.fact {
            Fact::ApprovalDecided(it) => it.outcome == linn_services::session::ApprovalOutcome::AllowedOnce,
            _ => true,
        }));
    });
}

#[test]
fn permissions_belong_to_a_conversation_and_those_who_work_for_it() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        let child = agent(&root, "child", Some(&desk.agent)).await;
        let other = agent(&root, "other", None).await;
        desk.will_permit(PermissionScope::Tool);
        assert!(desk.call_of(&child, "write_file", json!({ "path": "a" })).await.was_asked());
        assert!(desk.path("write_file", "a").await.ran_unasked());
        assert!(desk.call_of(&child, "write_file", json!({ "path": "a" })).await.ran_unasked());
        assert!(desk.call_of(&other, "write_file", json!({ "path": "a" })).await.was_asked());
    });
}

#[test]
fn permissions_are_listed_cleared_and_restored() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.will_permit(PermissionScope::Tool);
        desk.path("write_file", "a").await;
        let session = desk.agent.session();
        let permitted = desk.modes.permissions(session).unwrap();
        assert_eq!(permitted, [Permission::Tool { tool: "write_file".into() }]);
        desk.modes.clear(session).unwrap();
        assert!(desk.modes.permissions(session).unwrap().is_empty());
        assert!(desk.path("write_file", "a").await.was_asked());
        desk.modes.restore(session, permitted).unwrap();
        assert!(desk.path("write_file", "a").await.ran_unasked());
    });
}

#[test]
fn a_restarted_gate_has_permitted_nothing() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.modes.set_mode(ApprovalMode::Never).unwrap();
        assert!(desk.path("write_file", "a").await.ran_unasked());
        desk.gate.restart().await.unwrap();
        assert!(desk.path("write_file", "a").await.was_asked());
    });
}

#[test]
fn a_pattern_outside_of_the_question_is_refused() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        let mut request = ApprovalRequest::new(desk.agent.clone(), "write_file");
        request.arguments = Some(std::sync::Arc::new(json!({ "path": "src/a" })));
        for pattern in ["*", "", "tests/*", "src/../*"] {
            let scope = PermissionScope::Pattern(Some(pattern.to_owned()));
            assert_eq!(desk.modes.permit(&request, scope).unwrap_err().code(), "PATTERN_OUT_OF_SCOPE", "{pattern}");
        }
        assert!(desk.modes.permissions(desk.agent.session()).unwrap().is_empty());
    });
}

#[test]
fn parts_of_a_call_that_was_shown_are_not_asked_about_again() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&[], &["bash(touch *)"], &[])).await;
        let write = json!({ "name": "write_file", "args": { "path": "a" } });
        let touch = json!({ "name": "bash", "args": { "command": "touch pwned" } });
        desk.will_allow();
        let outcome = desk.call("bulk", json!({ "calls": [write, touch] })).await;
        assert_eq!(outcome.asked.len(), 1);
        assert_eq!(outcome.text, "write_file ran\nError: tool call 'bash' denied by permission rule bash(touch *)");
        // What was not shown in the call is asked about by itself.
        desk.will_allow();
        let outcome = desk.call("bulk", json!({ "run": [write] })).await;
        assert_eq!(outcome.asked.len(), 2);
        assert!(outcome.text.contains("rejected"), "{}", outcome.text);
    });
}
