//! Verbs from many threads at once, on a runtime with threads of its own.

use std::sync::Arc;

use linn_bus::{Root, TokioRuntime};
use linn_plugin_agent_loop::{AgentLoopPlugin, LoopConfig};
use linn_services::agent::{AgentOptions, Agents, AgentsPlugin, CreateAgent, rebuild_request};
use linn_services::llm::{Llm, LlmPlugin};
use linn_services::model::{ContentBlock, HookContext, MessageSource, text_of};
use linn_services::prompt::{SystemPromptConfig, SystemPromptPlugin};
use linn_services::session::invariants::LogChecker;
use linn_services::session::{Fact, SessionsPlugin};
use linn_services::tools::ToolsPlugin;
use linn_services_test::{Reply, ScriptedModel};

const N_THREADS: usize = 4;
const N_VERBS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_stay_sound_whatever_threads_do() {
    let root = Root::new(TokioRuntime::seams());
    root.mount::<SessionsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<AgentsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<SystemPromptPlugin>(SystemPromptConfig::default()).unwrap().running().await.unwrap();
    root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
    root.mount::<AgentLoopPlugin>(LoopConfig::default()).unwrap().running().await.unwrap();
    let model = ScriptedModel::new((0..4 * N_THREADS * N_VERBS).map(|_| Reply::text("x")));
    root.get::<dyn Llm>().unwrap().register(&root, vec!["m1".into()], Arc::new(model.clone())).unwrap();
    let mut options = CreateAgent::new("a", "s");
    options.options = AgentOptions { model: Some("m1".into()), ..AgentOptions::default() };
    let handle = root.get::<dyn Agents>().unwrap().create(&root, options).await.unwrap();
    let agent = handle.agent();

    tokio::task::block_in_place(|| {
        std::thread::scope(|threads| {
            for thread in 0..N_THREADS {
                threads.spawn(move || {
                    for n in 0..N_VERBS {
                        let text = format!("{thread}-{n}");
                        match (thread + n) % 4 {
                            0 => agent.send(text).unwrap(),
                            1 => agent.steer(text).unwrap(),
                            2 if n % 50 == 2 => agent.cancel(Some(&text)).unwrap(),
                            _ => {
                                let content = vec![ContentBlock::text(text)];
                                agent.inject(HookContext { content, source: MessageSource::plugin("test") }).unwrap();
                            }
                        }
                        std::thread::yield_now();
                    }
                });
            }
        });
    });
    agent.when_idle().await;

    let records = agent.session().records_from(0);
    let mut checker = LogChecker::default();
    for record in &records {
        checker.take(record).unwrap();
    }
    assert!(!agent.session().turns().is_open);
    // No context is lost, and none is there twice.
    let mut injected: Vec<String> = records
        .iter()
        .filter_map(|it| if let Fact::ContextMessage(it) = &it.fact { Some(text_of(&it.content)) } else { None })
        .collect();
    let n_injected = injected.len();
    injected.sort();
    injected.dedup();
    let n_expected = (0..N_THREADS)
        .flat_map(|thread| (0..N_VERBS).map(move |n| ((thread + n) % 4, n)))
        .filter(|(kind, n)| *kind == 3 || *kind == 2 && n % 50 != 2)
        .count();
    assert_eq!((n_injected, injected.len()), (n_expected, n_expected));
    // Whatever came in between, each request shows what the log had before its step.
    let steps: Vec<(u32, u32)> = records
        .iter()
        .filter_map(|it| if let Fact::StepStart(it) = &it.fact { Some((it.turn, it.step)) } else { None })
        .collect();
    let rebuilt: Vec<String> = steps
        .iter()
        .filter_map(|(turn, step)| rebuild_request(agent.session(), *turn, *step))
        .map(|it| serde_json::to_string(&it).unwrap())
        .collect();
    let sent: Vec<String> = model.requests().iter().map(|it| serde_json::to_string(&**it).unwrap()).collect();
    // A step that was cancelled between its header and its request has one and not the other.
    let mut rest = rebuilt.iter();
    assert!(sent.iter().all(|sent| rest.any(|it| it == sent)), "a request is not in the log");
    handle.dispose().await;
    root.fiber().dispose().await.unwrap();
}
