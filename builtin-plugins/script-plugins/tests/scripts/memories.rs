//! Plugins that keep memories.

use linn_bus::Svc;
use linn_services::compaction::{CompactTrigger, Compacted, ContextBudget};
use linn_services::events::CompactionEnd;
use linn_services::memory_provider::{MemoryProvider, NewMemory};
use linn_services::prompt::{AssembleContext, SystemPrompt};
use serde_json::{Value, json};

use crate::support::{World, answers, call_of, keeps, kept, run, text, until};

fn provider(world: &World, name: &str, script: &str) {
    world.plugin(name).with("memory_provider", json!({ "script": "m.sh" })).script("m.sh", script);
}

fn memories(world: &World) -> Svc<dyn MemoryProvider> {
    world.root.get::<dyn MemoryProvider>().unwrap()
}

fn note() -> NewMemory {
    NewMemory {
        name: "n [<1>]".to_owned(),
        content: "remember".to_owned(),
        kind: "note".to_owned(),
        description: String::new(),
        scope: Some("project".to_owned()),
    }
}

fn actions(seen: &std::path::Path) -> Vec<String> {
    kept(seen).iter().map(|it| it["action"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn script_10_a_provider_is_asked_by_the_names_that_scripts_know() {
    run(async |world| {
        let seen = world.base.join("seen");
        let answer = json!({
            "ok": true, "output": "done", "id": "n-1", "injection": "[MEMORY {{x}}]", "entries": [{ "id": "n-1" }],
        });
        provider(&world, "b", &keeps(&seen, &answer));
        provider(&world, "c", "exit 1");
        let running = world.start().await;
        let memory = memories(&world);
        until(&world.root, || memory.injection().unwrap() == "[MEMORY {{x}}]").await;
        assert_eq!(memory.active().unwrap().as_deref(), Some("b"));
        let prompt = world.root.get::<dyn SystemPrompt>().unwrap();
        let assembly = prompt.assemble(AssembleContext::default()).await.unwrap();
        assert!(prompt.render(&assembly).unwrap().unwrap().ends_with("[MEMORY {{x}}]"));

        assert_eq!(memory.save(note()).await.unwrap().id, "n-1");
        assert_eq!(memory.list().await.unwrap().entries, [json!({ "id": "n-1" })]);
        assert_eq!(memory.forget("n-1", None).await.unwrap().output, "done");
        memory.search("what").await.unwrap();
        let agent = world.agent("main").await;
        let Value::Object(call) = json!({ "action": "append", "id": "n-1", "content": "more" }) else { unreachable!() };
        assert_eq!(memory.call(call, Some(agent.agent())).await.unwrap().output, "done");
        let expected = ["inject", "save", "inject", "list", "forget", "inject", "search", "append", "inject"];
        assert_eq!(actions(&seen), expected);
        let seen_now = kept(&seen);
        let args =
            json!({ "name": "n [<1>]", "content": "remember", "type": "note", "description": "", "scope": "project" });
        assert_eq!((&seen_now[1]["args"], &seen_now[1]["session_id"]), (&args, &json!("")));
        assert_eq!(seen_now[7]["args"], json!({ "action": "append", "id": "n-1", "content": "more" }));
        assert_eq!(seen_now[7]["session_id"], "main");

        let compacted = Compacted {
            summary: "s".to_owned(),
            facts: vec!["one".to_owned(), "two".to_owned()],
            tokens_before: 2,
            tokens_after: 1,
        };
        let trigger = CompactTrigger::Threshold;
        let agent = agent.agent().clone();
        world.root.emit(&CompactionEnd { agent, trigger, outcome: Ok(compacted), budget: ContextBudget::default() });
        until(&world.root, || kept(&seen).len() == 11).await;
        assert_eq!(
            kept(&seen)[9]["args"],
            json!({
                "name": "session-extract", "content": "one\ntwo", "type": "session", "cap_bytes": 16_384,
                "description": "auto-extracted durable facts (accumulated on compaction)",
            })
        );
        // The next one by name takes over, and what the first one said is gone.
        running.admin.disable("b").await.unwrap();
        assert_eq!(memory.active().unwrap().as_deref(), Some("c"));
        assert_eq!(memory.injection().unwrap(), "");
    });
}

#[test]
fn script_10_a_provider_that_speaks_as_the_document_says_is_understood() {
    run(async |world| {
        let seen = world.base.join("seen");
        let script = format!(
            "input=$(cat)\nprintf '%s\\n' \"$input\" >> '{}'\ncase $input in\n\
             *'\"action\":\"standing_prompt\"'*) echo '{{\"entries\":[{{\"name\":\"n\",\"content\":\"c\"}}]}}';;\n\
             *'\"action\":\"write\"'*) echo '{{\"ok\":true,\"id\":\"w\"}}';;\n\
             *) echo '{{\"ok\":false,\"output\":\"unknown action\"}}';;\nesac\n",
            seen.display()
        );
        provider(&world, "p", &script);
        let _running = world.start().await;
        let memory = memories(&world);
        until(&world.root, || memory.injection().unwrap() == "- **n**: c").await;
        assert_eq!(memory.save(note()).await.unwrap().id, "w");
        assert_eq!(
            actions(&seen),
            ["inject", "standing_prompt", "write", "standing_prompt"],
            "it is asked twice but once"
        );
        let error = memory.list().await.unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), ("MEMORY_PROVIDER_FAILED", "unknown action"));
    });
}

#[test]
fn script_10_failures_are_told_in_the_words_that_are_known() {
    run(async |world| {
        provider(&world, "p", "echo boom >&2; exit 2");
        let running = world.start().await;
        let memory = memories(&world);
        let error = memory.list().await.unwrap_err();
        assert_eq!(error.to_string(), "memory_provider 'p' exited with exit status: 2: boom");
        running.admin.disable("p").await.unwrap();
        assert_eq!(memory.list().await.unwrap_err().code(), "NO_MEMORY_PROVIDER");
        assert_eq!(memory.active().unwrap(), None);
        assert_eq!(memory.injection().unwrap(), "");
    });
}

#[test]
fn script_10_the_model_has_a_tool_for_the_memories_of_the_first_provider() {
    run(async |world| {
        let seen = world.base.join("seen");
        provider(&world, "b", &keeps(&seen, &json!({ "ok": true, "output": "appended" })));
        provider(&world, "c", &answers(&json!({ "entries": [{ "id": "of-c" }] })));
        let running = world.start().await;
        let agent = world.agent("main").await;
        let call = async || {
            let arguments = json!({ "action": "append", "id": "n", "content": "more" });
            world.tools.execute(call_of(agent.agent(), "memory", arguments)).await.unwrap()
        };
        assert_eq!(text(&call().await), "appended");
        let asked = kept(&seen).into_iter().find(|it| it["action"] == "append").unwrap();
        assert_eq!(asked["args"], json!({ "action": "append", "id": "n", "content": "more" }));
        assert_eq!(asked["session_id"], "main");
        running.admin.disable("b").await.unwrap();
        assert_eq!(text(&call().await), r#"[{"id":"of-c"}]"#);
        world.plugin("c").script("m.sh", "echo '{\"ok\":false,\"output\":\"unknown action: append\"}'");
        let refused = call().await;
        assert!(refused.is_error && text(&refused).contains("unknown action: append"), "{}", text(&refused));
        running.admin.disable("c").await.unwrap();
        assert_eq!(call().await.error.unwrap().code, "UNKNOWN_TOOL", "nobody keeps memories");
    });
}
