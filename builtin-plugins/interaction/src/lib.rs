//! Questions of a model to its human: the tool `ask`.
//!
//! Who answers is whoever listens to `interaction/ask`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use linn_bus::{Context, Fault, Inject, Plugin, Svc};
use linn_services::interaction::{Answers, Interaction, InteractionError, Question, Questions};
use linn_services::tools::{Tool, ToolExecution, ToolFailure, ToolOutput, Tools};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const DESCRIPTION: &str = "Asks the user one or more questions and waits for the answers. \
    Use it when a decision is the user's and you cannot go on without it.";

/// What is told where nothing was answered.
const SKIPPED: &str = "The user skipped the questions. Proceed with your best judgment and note any assumptions.";

/// What is told where nobody is there to answer.
const UNAVAILABLE: &str =
    "There is no user who could be asked. Proceed with your best judgment and note any assumptions.";

/// The tool `ask`.
#[derive(Debug)]
pub struct InteractionToolsPlugin;

/// What the tool needs.
#[derive(Inject)]
pub struct InteractionToolsNeeds {
    tools: Svc<dyn Tools>,
    interaction: Svc<dyn Interaction>,
}

linn_bus::plugin!(InteractionToolsPlugin);

impl Plugin for InteractionToolsPlugin {
    const NAME: &'static str = "interaction";
    type Config = ();
    type Needs = InteractionToolsNeeds;

    async fn start(ctx: &Context, (): (), needs: InteractionToolsNeeds) -> Result<(), Fault> {
        let InteractionToolsNeeds { tools, interaction } = needs;
        let asker = Arc::new(Asker { ctx: ctx.clone(), interaction });
        let tool = Tool::new("ask", DESCRIPTION, move |arguments: Arguments, call| {
            let asker = asker.clone();
            async move { asker.ask(arguments.questions, &call).await }
        });
        // A human answers one thing at a time.
        tools.register(ctx, tool.read_only().sequential())?;
        Ok(())
    }
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The questions, at least one, each with an id of its own.
    questions: Vec<Question>,
}

struct Asker {
    ctx: Context,
    interaction: Svc<dyn Interaction>,
}

impl Asker {
    async fn ask(&self, asked: Vec<Question>, call: &ToolExecution) -> Result<ToolOutput, ToolFailure> {
        let questions = Questions {
            agent: call.agent().cloned(),
            call_id: Some(call.call_id().clone()),
            questions: asked.clone(),
            signal: call.signal(),
        };
        match self.interaction.ask(questions).await {
            Ok(Answers::Given(given)) => Ok(told(&asked, &given).into()),
            Ok(Answers::Skipped) => Ok(SKIPPED.into()),
            Ok(Answers::Unavailable) => Ok(UNAVAILABLE.into()),
            Err(error @ InteractionError::Invalid(_)) => {
                // The human learns of it by the log and front ends by the data; the model goes on.
                self.ctx.logger().error(format_args!("{error}"));
                Ok(ToolOutput::from(SKIPPED).with_meta(json!({ "error": error.to_string(), "code": error.code() })))
            }
            Err(InteractionError::Cancelled) => Ok(ToolOutput::from("ask aborted").failed()),
            Err(error) => Err(ToolFailure::coded("InteractionError", error.code(), format!("ask failed: {error:#}"))),
        }
    }
}

/// The answers as the model reads them, in the order of the questions.
fn told(questions: &[Question], given: &BTreeMap<String, String>) -> String {
    let mut text = "User answered:".to_owned();
    for question in questions {
        let answer = given.get(&question.id).map_or("(skipped)", String::as_str);
        write!(text, "\n- {} ({}): {answer}", question.id, question.prompt)
            .expect("a string takes all that is written");
    }
    text
}
