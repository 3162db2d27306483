//! A harness inside of a Rust program: a plugin of its own with a tool and a permission gate, one prompt, and its events.
//!
//! The model is a recording, so this runs without a key: `cargo run --example embed`.
#![expect(clippy::print_stdout, reason = "an example that shows what happens")]

use std::sync::Arc;

use linn::Harness;
use linn::bus::{Context, Fault, ListenerError, Next, Plugin, Svc};
use linn::plugins::llm_replay::{Bundled, ReplayConfig, ReplayPlugin};
use linn::services::agent::CreateAgent;
use linn::services::events::{SessionEvent, ToolsPreExecute};
use linn::services::model::text_of;
use linn::services::session::{Fact, TurnEndReason};
use linn::services::tools::{PreToolDecision, Tool, ToolFailure, Tools};

/// Knows what is in stock, and lets nobody ask for what is secret.
struct Stock {
    secret: String,
}

/// What the tool is called with; the model learns of it from this type.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Look {
    /// The thing to look for.
    item: String,
}

impl Stock {
    /// The gate: it hears each call before it runs, and says no to some.
    async fn decide(
        &self,
        event: &ToolsPreExecute,
        next: Next<'_, ToolsPreExecute>,
    ) -> Result<PreToolDecision, ListenerError> {
        let item = event.execution.arguments().get("item").and_then(|it| it.as_str());
        if item == Some(self.secret.as_str()) {
            return Ok(PreToolDecision::Deny { reason: format!("`{}` is nobody's business", self.secret) });
        }
        next.run().await
    }
}

impl Plugin for Stock {
    const NAME: &'static str = "stock";
    type Config = String;
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, secret: String, tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let look = Tool::new("stock", "Says how many of an item there are.", async |look: Look, _call| {
            Ok::<_, ToolFailure>(format!("{} of {}", look.item.len() * 7, look.item))
        });
        tools.register(ctx, look.read_only())?;
        ctx.on_with(&Arc::new(Self { secret }), Self::decide)?;
        Ok(())
    }
}

/// Prints what is logged.
fn print(event: &SessionEvent) {
    let kind = event.record.fact.kind();
    match &event.record.fact {
        Fact::ToolCall(call) => println!("{kind}: {} {}", call.name, call.arguments),
        Fact::ToolResult(result) => println!("{kind}: {}", text_of(&result.content)),
        Fact::AssistantMessage(message) => println!("{kind}: {}", text_of(&message.content)),
        Fact::AssistantChunk(_) => {}
        _ => println!("{kind}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recording = Bundled { name: "stock", text: include_str!("embed.jsonl") };
    let harness = Harness::builder()
        .plugin::<ReplayPlugin>(ReplayConfig { bundled: vec![recording], ..ReplayConfig::default() })
        .plugin::<Stock>("dragons".to_owned())
        .build()
        .await?;
    harness.context().on(print)?;

    let mut create = CreateAgent::new("clerk", "first");
    create.options.model = Some("replay:stock".to_owned());
    let clerk = harness.agents()?.create(harness.context(), create).await?;
    clerk.agent().send("How many apples do we have? And how many dragons?")?;
    clerk.agent().when_idle().await;

    // How it went stands in the log, which is there as long as somebody holds the session.
    let log = clerk.agent().session().records_from(0);
    harness.shutdown().await?;
    let results: Vec<String> = log.iter().filter_map(|it| result(&it.fact)).collect();
    match log.last().map(|it| &it.fact) {
        Some(Fact::TurnEnd(end)) if end.reason == TurnEndReason::Completed => {}
        last => return Err(format!("the turn was not completed: {last:?}").into()),
    }
    if results != ["42 of apples", "Error: `dragons` is nobody's business"] {
        return Err(format!("the calls came to something else: {results:?}").into());
    }
    Ok(())
}

/// What a call came to, if this is a result.
fn result(fact: &Fact) -> Option<String> {
    if let Fact::ToolResult(result) = fact { Some(text_of(&result.content)) } else { None }
}
