//! A tool that counts words.

use linn_sdk::prelude::*;

/// What the plugin is configured with.
#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Words that are not counted.
    ignore: Vec<String>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    /// What to count in.
    text: String,
}

struct WordCount;

impl Plugin for WordCount {
    const NAME: &'static str = "word-count";
    type Config = Config;
    type Needs = Svc<dyn Tools>;

    async fn start(ctx: &Context, config: Config, tools: Svc<dyn Tools>) -> Result<(), Fault> {
        let count = Tool::new("count_words", "Counts the words of a text.", move |it: Text, _call| {
            let counted = it.text.split_whitespace().filter(|word| !config.ignore.iter().any(|it| it == word)).count();
            async move { Ok::<_, ToolFailure>(counted.to_string()) }
        });
        tools.register(ctx, count.read_only())?;
        Ok(())
    }
}

linn_sdk::plugin!(WordCount);
