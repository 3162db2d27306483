//! `linn chat`: one prompt after the other.

use std::io::{BufRead as _, IsTerminal as _};

use anyhow::Context as _;

use crate::cli::ChatArguments;
use crate::cli::run::Conversation;
use crate::cli::turn::Outcome;

/// Reads prompts until there are no more, and runs each. How the last one went.
pub(crate) async fn chat(arguments: ChatArguments) -> anyhow::Result<Outcome> {
    let conversation = Conversation::begin(&arguments.conversation, None).await?;
    if std::io::stdin().is_terminal() {
        conversation.terminal.explain("Type a prompt; an empty line or ctrl-d ends the conversation.");
    }
    let mut outcome = Outcome::Completed;
    while let Some(prompt) = next_prompt(&conversation).await? {
        outcome = conversation.turn(&prompt).await?;
        if conversation.is_unread() {
            break;
        }
    }
    conversation.end().await?;
    Ok(outcome)
}

/// The next line that says something; `None` at the end of the input, at an empty line and on ctrl-c.
async fn next_prompt(conversation: &Conversation) -> anyhow::Result<Option<String>> {
    if std::io::stdin().is_terminal() {
        conversation.terminal.prompt();
    }
    tokio::select! {
        line = read_line() => Ok(line?.filter(|it| !it.trim().is_empty())),
        _ = tokio::signal::ctrl_c() => Ok(None),
    }
}

#[expect(clippy::disallowed_methods, reason = "reading a terminal blocks, and ends with the program")]
async fn read_line() -> anyhow::Result<Option<String>> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|n_read| (n_read > 0).then_some(line))
    });
    read.await?.context("standard input cannot be read")
}
