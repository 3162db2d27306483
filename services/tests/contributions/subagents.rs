//! Subagents and who brings them.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use linn_bus::{BoxFuture, Context, Fault, Root, Svc};
use linn_bus_test::{Recorder, leak_check, run};
use linn_services::agent::Agent;
use linn_services::events::{SubagentEnd, SubagentProviderAdded, SubagentProviderRemoved, SubagentStart};
use linn_services::model::ContentBlock;
use linn_services::subagents::{
    StartedSubagent, SubagentCapabilities, SubagentControl, SubagentOutcome, SubagentProvider, SubagentRequest,
    SubagentStopReason, Subagents, SubagentsPlugin,
};
use linn_services_test::undriven_agent;

type Coming = BoxFuture<'static, SubagentOutcome>;

/// Runs whatever the test gives it.
struct Shop {
    can: SubagentCapabilities,
    result: Arc<dyn Fn() -> Coming + Send + Sync>,
}

struct NoControl;

impl SubagentControl for NoControl {
    fn cancel(&self, _: Option<&str>) {}
    fn dispose(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl SubagentProvider for Shop {
    fn name(&self) -> &str {
        "shop"
    }
    fn capabilities(&self) -> SubagentCapabilities {
        self.can
    }
    fn inherits_parent_context(&self) -> bool {
        false
    }
    fn start(&self, _: SubagentRequest) -> BoxFuture<'static, Result<StartedSubagent, Fault>> {
        let result = (self.result)();
        let started = StartedSubagent { id: "run-1".into(), result, control: Arc::new(NoControl) };
        Box::pin(std::future::ready(Ok(started)))
    }
}

fn outcome(text: &str) -> SubagentOutcome {
    let output = vec![ContentBlock::text(text)];
    SubagentOutcome { output, structured: None, stop_reason: SubagentStopReason::Completed }
}

fn shop(result: impl Fn() -> Coming + Send + Sync + 'static) -> Arc<Shop> {
    Arc::new(Shop { can: SubagentCapabilities::default(), result: Arc::new(result) })
}

fn done(text: &'static str) -> Arc<Shop> {
    shop(move || Box::pin(std::future::ready(outcome(text))))
}

async fn subagents(root: &Root) -> Svc<dyn Subagents> {
    root.mount::<SubagentsPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Subagents>().unwrap()
}

async fn parent(root: &Root, name: &str) -> Agent {
    undriven_agent(root, name).await.agent().clone()
}

#[test]
fn sa_01_providers_are_told_when_they_come_and_go_and_a_listener_that_fails_takes_one_back() {
    run(async |root| {
        let subagents = subagents(&root).await;
        let recorder = Recorder::new();
        recorder.note(&root, |it: &SubagentProviderAdded| it.provider.name().to_owned()).unwrap();
        let fails = root.on(|_: &SubagentProviderRemoved| -> () { panic!("not now") }).unwrap();
        recorder.note(&root, |it: &SubagentProviderRemoved| it.name.clone()).unwrap();
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount_fn("p", async |ctx: Context, subagents: Svc<dyn Subagents>| {
                subagents.register(&ctx, done("x")).map(drop)
            });
            let plugin = plugin.unwrap();
            plugin.running().await.unwrap();
            assert_eq!(subagents.register(ctx, done("y")).unwrap_err().code(), "DUPLICATE_SUBAGENT_PROVIDER");
            plugin.dispose().await.unwrap();
        })
        .await;
        assert_eq!(recorder.names(), ["subagent/provider-added", "subagent/provider-removed"]);
        fails.dispose();

        root.once().on(|_: &SubagentProviderAdded| Err::<(), _>(Fault::msg("no"))).unwrap();
        assert_eq!(subagents.register(&root, done("x")).unwrap_err().code(), "CHANGE_REFUSED");
        assert!(subagents.providers().unwrap().is_empty());
    });
}

#[test]
fn sa_02_the_first_capability_that_is_missing_is_named_before_anything_starts() {
    run(async |root| {
        let subagents = subagents(&root).await;
        let never = shop(|| panic!("nothing is started"));
        subagents.register(&root, never).unwrap();
        let mut request = SubagentRequest::new(parent(&root, "boss").await, "work");
        request.persona = Some("a pirate".into());
        request.tools = Some(vec!["read_file".into()]);
        for capability in ["toolFilter", "depthLimit", "outputSchema"] {
            let error = subagents.start("shop", request.clone()).await.unwrap_err();
            assert_eq!(error.code(), "UNSUPPORTED_CAPABILITY");
            assert!(error.to_string().contains(capability), "{error}");
            if request.max_depth.is_some() {
                request.output_schema = Some(serde_json::json!({ "type": "object" }));
            }
            request.max_depth = Some(2);
        }
        let error = subagents.start("nobody", request).await.unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            ("NO_PROVIDER", "there is no subagent provider `nobody`; there are: shop".into())
        );
    });
}

#[test]
fn sa_03_start_and_end_are_told_in_the_scope_of_the_parent() {
    run(async |root| {
        let subagents = subagents(&root).await;
        subagents.register(&root, done("made")).unwrap();
        let (boss, other) = (parent(&root, "boss").await, parent(&root, "other").await);
        let heard = Arc::new(Mutex::new(Vec::new()));
        for (agent, name) in [(&boss, "boss"), (&other, "other")] {
            let (start, end) = (heard.clone(), heard.clone());
            agent.context().on(move |_: &SubagentStart| start.lock().unwrap().push((name, "start"))).unwrap();
            agent.context().on(move |_: &SubagentEnd| end.lock().unwrap().push((name, "end"))).unwrap();
        }
        let run = subagents.start("shop", SubagentRequest::new(boss, "work")).await.unwrap();
        assert_eq!(run.result().await, outcome("made"));
        assert_eq!(run.result().await, outcome("made"), "it can be asked for again");
        assert_eq!(*heard.lock().unwrap(), [("boss", "start"), ("boss", "end")]);
    });
}

#[test]
fn sa_04_what_a_listener_of_the_end_makes_of_the_message_is_its_own() {
    run(async |root| {
        let subagents = subagents(&root).await;
        subagents.register(&root, done("made")).unwrap();
        let changed = Arc::new(Mutex::new(Vec::new()));
        let keeps = changed.clone();
        let changing = move |it: &SubagentEnd| {
            // What it is lent it can only copy.
            let mut message = it.last_assistant_message.clone().unwrap();
            message[0] = ContentBlock::text("changed");
            message.push(ContentBlock::text("and more"));
            keeps.lock().unwrap().push(message);
        };
        root.on(changing).unwrap();
        let recorder = Recorder::new();
        recorder.note(&root, |it: &SubagentEnd| it.last_assistant_message.clone()).unwrap();
        let request = SubagentRequest::new(parent(&root, "boss").await, "work");
        let run = subagents.start("shop", request).await.unwrap();
        assert_eq!(run.result().await, outcome("made"));
        assert_eq!(changed.lock().unwrap()[0][0], ContentBlock::text("changed"));
        assert_eq!(recorder.heard::<Option<Vec<ContentBlock>>>(), [Some(vec![ContentBlock::text("made")])]);
        assert_eq!(run.result().await, outcome("made"), "also for who asks again");
    });
}

#[test]
fn sa_05_a_run_that_breaks_down_ends_as_an_error_without_a_message() {
    run(async |root| {
        let subagents = subagents(&root).await;
        subagents.register(&root, shop(|| async { panic!("broken") }.boxed())).unwrap();
        let recorder = Recorder::new();
        recorder.note(&root, |it: &SubagentEnd| (it.stop_reason.clone(), it.last_assistant_message.clone())).unwrap();
        let request = SubagentRequest::new(parent(&root, "boss").await, "work");
        let run = subagents.start("shop", request).await.unwrap();
        assert_eq!(run.result().await.stop_reason, SubagentStopReason::Error);
        let heard = recorder.heard::<(SubagentStopReason, Option<Vec<ContentBlock>>)>();
        assert_eq!(heard, [(SubagentStopReason::Error, None)]);
    });
}
