//! A plugin whose every trait object and function panics when it is called, and when it is dropped.

use std::sync::Arc;

use futures_util::stream;
use linn_sdk::bus::BoxFuture;
use linn_sdk::prelude::*;
use linn_sdk::services::commands::{Command, CommandBody, CommandCall, CommandOutput, Commands};
use linn_sdk::services::llm::{Adapter, ChunkStream, Llm, LlmError};
use linn_sdk::services::model::{GenerateRequest, ToolSchema};
use linn_sdk::services::prompt::{Section, SystemPrompt, TextOf};
use linn_sdk::services::skills::{SkillCandidate, SkillDefinition, SkillLookup, SkillProvider, Skills};
use linn_sdk::services::tools::{ToolBody, ToolGuard, ToolPreview};

/// What the plugin is configured with.
#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {}

/// Panics as often as it is dropped; `when` says when it panics before that.
struct Bomb {
    when: &'static str,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped: {}", self.when);
    }
}

impl Adapter for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }

    fn stream(&self, _: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let when = self.when;
        assert_ne!(when, "asked", "as soon as it is asked");
        Box::pin(async move {
            assert_ne!(when, "opened", "before its stream is there");
            let bomb = Bomb { when: "streamed" };
            let chunks = stream::poll_fn(move |_| {
                let _kept = &bomb;
                panic!("in its stream")
            });
            Ok(ChunkStream::new(chunks))
        })
    }
}

impl CommandBody for Bomb {
    fn run<'a>(&'a self, _: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>> {
        panic!("a command")
    }
}

impl SkillProvider for Bomb {
    fn name(&self) -> &str {
        "bombs"
    }

    fn list<'a>(&'a self, _: &'a SkillLookup) -> BoxFuture<'a, Result<Vec<SkillCandidate>, Fault>> {
        Box::pin(async { panic!("a list of skills") })
    }

    fn get<'a>(
        &'a self,
        _: &'a SkillCandidate,
        _: &'a SkillLookup,
    ) -> BoxFuture<'a, Result<Option<SkillDefinition>, Fault>> {
        panic!("a skill")
    }
}

impl ToolBody for Bomb {
    fn execute<'a>(&'a self, _: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        panic!("a tool")
    }

    fn preview<'a>(&'a self, _: &'a ToolExecution) -> BoxFuture<'a, Option<ToolPreview>> {
        panic!("a preview")
    }
}

struct Bombs;

impl Plugin for Bombs {
    const NAME: &'static str = "bombs";
    type Config = Config;
    type Needs = (Svc<dyn Llm>, Svc<dyn Tools>, (Svc<dyn Commands>, Svc<dyn Skills>, Svc<dyn SystemPrompt>));

    async fn start(ctx: &Context, _: Config, needs: Self::Needs) -> Result<(), Fault> {
        let (llm, tools, (commands, skills, prompt)) = needs;
        for when in ["asked", "opened", "streamed"] {
            llm.register(ctx, vec![when.into()], Arc::new(Bomb { when }))?;
        }
        let schema = ToolSchema {
            name: "bomb".into(),
            description: "Panics.".to_owned(),
            parameters: serde_json::json!({ "type": "object" }),
        };
        tools.register(ctx, Tool::from_body(schema, Arc::new(Bomb { when: "tool" })))?;
        tools.guard(
            ctx,
            ToolGuard::new(|it| {
                assert_ne!(it.name().as_str(), "count_words", "a guard");
                None
            }),
        )?;
        commands.register(ctx, Command::new("bomb", "Panics.", Arc::new(Bomb { when: "command" })))?;
        skills.register(ctx, Arc::new(Bomb { when: "skills" }))?;
        let text = TextOf::new(|_| panic!("a section"));
        prompt.section(ctx, Section { name: "bomb".to_owned(), order: 1, text })?;
        Ok(())
    }
}

linn_sdk::plugin!(Bombs);
