//! Calls that run together, and calls that do not.

use linn_bus::{Root, listener};
use linn_bus_test::run;
use linn_services::events::{ToolsPostExecute, ToolsResult};
use linn_services::session::Fact;
use linn_services::tools::PostToolDecision;
use linn_services_test::{Gate, Reply};

use crate::support::{Notes, World, echo, from_plugin, log, results, say, text, tool, waiting};

#[test]
fn r113_results_stand_in_the_order_of_the_calls() {
    for _ in 0..20 {
        run(results_in_the_order_of_the_calls);
    }
}

async fn results_in_the_order_of_the_calls(root: Root) {
    let (first, third) = (Gate::new(), Gate::new());
    let three =
        Reply::call("c1", "slow", text("")).and_call("c2", "echo", text("two")).and_call("c3", "late", text(""));
    let world = World::new(root, [three, Reply::text("done")]).await;
    world.tools.register(&world.root, waiting("slow", &first).read_only()).unwrap();
    world.tools.register(&world.root, waiting("late", &third).read_only()).unwrap();
    world.tools.register(&world.root, echo().read_only()).unwrap();
    let notes = Notes::default();
    let told = notes.clone();
    world.root.on(listener!(async move |e: &ToolsResult| told.add(e.execution.call_id().as_str()))).unwrap();
    let agent = world.agent().await;
    agent.send("hi").unwrap();
    // Both are running at once, and the one in between is done.
    first.reached().await;
    third.reached().await;
    third.open();
    world.root.sleep(std::time::Duration::from_secs(1)).await.unwrap();
    assert_eq!(results(&agent), Vec::<String>::new());
    assert_eq!(log(&agent)[5..], ["tool/call", "tool/call", "tool/call"]);
    first.open();
    agent.when_idle().await;
    assert_eq!(notes.lines(), ["c2", "c3", "c1"]);
    assert_eq!(results(&agent), ["c1 slow", "c2 two", "c3 late"]);
    let last = world.requests().pop().unwrap();
    assert_eq!(last[2..5], ["user: result c1 slow", "user: result c2 two", "user: result c3 late"]);
}

#[test]
fn a_call_that_changes_things_runs_alone() {
    run(async |root| {
        let gates = [Gate::new(), Gate::new(), Gate::new(), Gate::new()];
        let names = ["read-a", "read-b", "write", "read-c"];
        let four = names
            .iter()
            .enumerate()
            .fold(Reply::empty(), |it, (n, name)| it.and_call(&format!("c{n}"), name, text("")));
        let world = World::new(root, [four, Reply::text("done")]).await;
        for (name, gate) in names.into_iter().zip(&gates) {
            let it = waiting(name, gate);
            world.tools.register(&world.root, if name == "write" { it } else { it.read_only() }).unwrap();
        }
        let agent = world.agent().await;
        agent.send("hi").unwrap();
        let reached = || gates.iter().map(Gate::is_reached).collect::<Vec<_>>();
        let pause = || world.root.sleep(std::time::Duration::from_secs(1));
        gates[1].reached().await;
        pause().await.unwrap();
        assert_eq!(reached(), [true, true, false, false]);
        gates[0].open();
        pause().await.unwrap();
        assert_eq!((reached(), results(&agent)), (vec![true, true, false, false], vec!["c0 read-a".to_owned()]));
        gates[1].open();
        pause().await.unwrap();
        assert_eq!(reached(), [true, true, true, false]);
        gates[2].open();
        gates[3].open();
        agent.when_idle().await;
        assert_eq!(results(&agent), ["c0 read-a", "c1 read-b", "c2 write", "c3 read-c"]);
    });
}

#[test]
fn ix_11_contexts_come_behind_all_results_in_the_order_of_the_calls() {
    run(async |root| {
        let two = Reply::call("c1", "echo", text("a")).and_call("c2", "echo", text("b"));
        let world = World::new(root, [two, Reply::text("done")]).await;
        world.tools.register(&world.root, echo()).unwrap();
        let adding = |e: &ToolsPostExecute| PostToolDecision::Accept {
            content: None,
            is_error: None,
            meta: None,
            additional_context: Some(from_plugin(e.execution.call_id().as_str())),
        };
        world.root.on(adding).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let place = |wanted: &str| log(&agent).iter().position(|it| it == wanted).unwrap();
        let last_result = log(&agent).iter().rposition(|it| it == "tool/result").unwrap();
        assert!(last_result < place("context/message"));
        let last = world.requests().pop().unwrap();
        assert_eq!(
            last[4..],
            [
                "user: <context source=\"plugin\"> | c1 | </context>",
                "user: <context source=\"plugin\"> | c2 | </context>"
            ]
        );
    });
}

#[test]
fn a_call_of_a_tool_that_does_not_exist_is_answered() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "nothing", text("")), Reply::text("done")]).await;
        let agent = world.agent().await;
        say(&agent, "hi").await;
        let codes = crate::support::facts(&agent, |it| match it {
            Fact::ToolResult(it) => it.error.as_ref().map(|it| it.code.clone()),
            _ => None,
        });
        assert_eq!(codes, ["UNKNOWN_TOOL"]);
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}

#[test]
fn a_tool_that_panics_is_a_result() {
    run(async |root| {
        let world = World::new(root, [Reply::call("c1", "bad", text("")), Reply::text("done")]).await;
        world.tools.register(&world.root, tool("bad", async |_, _| panic!("tool"))).unwrap();
        let agent = world.agent().await;
        say(&agent, "hi").await;
        assert!(results(&agent)[0].starts_with("c1 failed"), "{:?}", results(&agent));
        assert_eq!(log(&agent).last().unwrap(), "turn/end{completed}");
    });
}
