//! Section 6.3: the last word of a turn; and what is told of sessions in use.

use linn_bus_test::run;
use linn_plugin_finish::{FinishConfig, FinishPlugin};
use linn_services_test::Reply;
use serde_json::{Value, json};

use crate::kit::{World, all, first, types};

/// The types that matter for how a turn is closed.
fn course(events: &[Value]) -> Vec<&str> {
    let wanted = ["tool_call", "tool_result", "reflecting", "summary_required", "done"];
    types(events).into_iter().filter(|it| wanted.contains(it)).collect()
}

#[test]
fn a_turn_without_a_word_for_the_human_is_asked_for_one_6_3() {
    run(async |root| {
        let replies = [
            Reply::call("c1", "echo", json!({ "text": "a" })),
            Reply::text("ok"),
            Reply::text(&"a long word ".repeat(9)),
        ];
        let mut world = World::new(root, replies).await;
        world.add_tools();
        world.root.mount::<FinishPlugin>(FinishConfig::default()).unwrap().running().await.unwrap();
        world.prompt("go").await;
        let events = world.until("done").await;
        assert_eq!(course(&events), ["tool_call", "tool_result", "reflecting", "done"]);
        let told = first(&events, "reflecting");
        assert_eq!((&told["recurrence"], told["run_id"].is_string()), (&json!(1), true));
        assert!(all(&events, "error").is_empty(), "{events:#?}");
    });
}
