//! `linn chat`: one prompt after the other.

use std::io::{ErrorKind, IsTerminal as _};

use crate::cli::ChatArguments;
use crate::cli::commands::Command;
use crate::cli::run::Conversation;
use crate::cli::signals::interrupt;
use crate::cli::turn::Outcome;

/// Reads prompts until there are no more, and runs each. How the last one went.
pub(crate) async fn chat(arguments: ChatArguments) -> anyhow::Result<Outcome> {
    let mut conversation = Conversation::begin(arguments.conversation, None).await?;
    if std::io::stdin().is_terminal() {
        let how = "Type a prompt; an empty line or ctrl-d ends the conversation. /help lists the commands.";
        conversation.desk.terminal.explain(how);
    }
    let outcome = talk(&mut conversation).await;
    let is_saved = conversation.end().await?;
    outcome.map(|it| if is_saved { it } else { Outcome::Failed })
}

async fn talk(conversation: &mut Conversation) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Completed;
    while let Some(prompt) = next_prompt(conversation).await? {
        if let Some(command) = Command::parse(&prompt) {
            conversation.command(command).await;
            continue;
        }
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            conversation.desk.terminal.typed(&prompt);
        }
        let Some(prompt) = conversation.command_of_plugin(prompt).await else { continue };
        outcome = conversation.turn(&prompt).await?;
        if conversation.is_over() {
            break;
        }
    }
    Ok(outcome)
}

/// The next line that says something; `None` at the end of the input, at an empty line, on ctrl-c and when the program is
/// to end.
async fn next_prompt(conversation: &mut Conversation) -> anyhow::Result<Option<String>> {
    loop {
        let terminal = conversation.desk.terminal.clone();
        if std::io::stdin().is_terminal() {
            terminal.prompt();
        }
        let lines = conversation.desk.lines.clone();
        let line = tokio::select! {
            line = lines.next() => line,
            () = interrupt() => {
                conversation.ended_by("SIGINT");
                return Ok(None);
            }
            signal = conversation.signals.end() => {
                conversation.ended_by(signal);
                return Ok(None);
            }
        };
        match line {
            Ok(line) => return Ok(line.filter(|it| !it.trim().is_empty())),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                terminal.warn(&format!("{error}; it is passed over"))
            }
            Err(error) => return Err(anyhow::Error::new(error).context("standard input cannot be read")),
        }
    }
}
