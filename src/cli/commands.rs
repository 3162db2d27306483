//! What is typed in a conversation and is meant for the program, not for the model.

use anyhow::bail;
use linn::Harness;
use linn::loader::{ListingSource, Reloaded};
use linn::services::agent::Agent;
use linn::services::commands::{CommandCall, CommandOutput, Commands};
use linn::services::plugin_admin::PluginAdmin;

use crate::cli::terminal::Terminal;
use crate::cli::{inspect, plugins};

/// A command of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `/help`: the commands there are.
    Help,
    /// `/inspect`: what is on the bus.
    Inspect,
    /// `/plugins`: what there is.
    Plugins,
    /// `/plugins reload`: looks again at the library of one plugin, or at all libraries and scripts.
    Reload(Option<String>),
}

impl Command {
    /// The command that a line is; none if it is a prompt.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["/help"] => Some(Self::Help),
            ["/inspect"] => Some(Self::Inspect),
            ["/plugins"] => Some(Self::Plugins),
            ["/plugins", "reload"] => Some(Self::Reload(None)),
            ["/plugins", "reload", name] => Some(Self::Reload(Some((*name).to_owned()))),
            _ => None,
        }
    }

    /// Does it. What goes wrong is told, and the conversation goes on.
    pub(crate) async fn run(self, harness: &Harness, terminal: &Terminal) {
        let done = match self {
            Self::Help => help(harness, terminal),
            Self::Inspect => {
                inspect::show(&harness.context().inspect(), terminal);
                Ok(())
            }
            Self::Plugins => plugins::list(harness, false, terminal).await,
            Self::Reload(name) => reload(name.as_deref(), harness, terminal).await,
        };
        if let Err(error) = done {
            terminal.warn(&format!("✗ {error:#}"));
        }
    }
}

/// What is typed, and what it does.
const OWN: &[(&str, &str)] = &[
    ("/help", "shows this list"),
    ("/inspect", "shows what is on the bus"),
    ("/plugins", "lists plugins"),
    ("/plugins reload [name]", "looks again at libraries and scripts"),
];

fn help(harness: &Harness, terminal: &Terminal) -> anyhow::Result<()> {
    OWN.iter().for_each(|(name, what)| terminal.explain(&format!("{name}: {what}")));
    if let Some(commands) = harness.context().get::<dyn Commands>() {
        for command in commands.list()? {
            terminal.explain(&format!("/{}: {} ({})", command.name, command.description, command.plugin));
        }
    }
    Ok(())
}

/// Runs the command of a plugin, if the line is one: what it shows is shown, and what it asks the model is returned. What is
/// no command is a prompt.
pub(crate) async fn of_plugin(line: String, agent: &Agent, harness: &Harness, terminal: &Terminal) -> Option<String> {
    let Some(commands) = harness.context().get::<dyn Commands>() else { return Some(line) };
    let Some((name, arguments)) = line.strip_prefix('/').map(|it| it.split_once(' ').unwrap_or((it, ""))) else {
        return Some(line);
    };
    if !commands.list().is_ok_and(|all| all.iter().any(|it| it.name == name)) {
        return Some(line);
    }
    let call = CommandCall { agent: Some(agent.clone()), arguments: arguments.trim().to_owned() };
    match commands.run(name, call).await {
        Ok(CommandOutput::Prompt(prompt)) => return Some(prompt),
        Ok(CommandOutput::Text(text)) => terminal.plain(&text),
        Ok(_) => {}
        Err(error) => terminal.warn(&format!("✗ {error}")),
    }
    None
}

async fn reload(name: Option<&str>, harness: &Harness, terminal: &Terminal) -> anyhow::Result<()> {
    let mut is_known = false;
    let listings = match harness.loader() {
        Some(loader) => loader.list().await,
        None => Vec::new(),
    };
    let is_meant = |it: &&linn::loader::Listing| {
        name.is_none_or(|name| it.name == name || it.entries.iter().any(|(id, _)| id == name))
    };
    let mut libraries: Vec<_> = listings
        .iter()
        .filter(is_meant)
        .filter_map(|it| match &it.source {
            ListingSource::Library(path) => Some(path),
            _ => None,
        })
        .collect();
    libraries.dedup();
    for path in libraries {
        is_known = true;
        let Some(loader) = harness.loader() else { continue };
        match loader.reload(path).await {
            Ok(Reloaded::Unchanged) => terminal.explain(&format!("{} is what runs", path.display())),
            // Those that were switched are told by the terminal, as at every other reload.
            Ok(Reloaded::Switched { .. }) => {}
            Ok(_) => terminal.explain(&format!("{} was looked at anew", path.display())),
            Err(error) => terminal.warn(&format!("✗ {}: {error}", path.display())),
        }
    }
    if let Some(admin) = harness.context().get::<dyn PluginAdmin>()
        && (name.is_none() || admin.list()?.iter().any(|it| name == Some(it.name.as_str())))
    {
        is_known = true;
        admin.reload().await?;
        terminal.explain("scripts were read again");
    }
    match (is_known, name) {
        (false, Some(name)) => bail!("no library and no folder of scripts has a plugin `{name}`; see /plugins"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn what_is_no_command_is_a_prompt() {
        assert_eq!(Command::parse("/plugins reload hello"), Some(Command::Reload(Some("hello".to_owned()))));
        assert_eq!(Command::parse(" /plugins  reload "), Some(Command::Reload(None)));
        assert_eq!(Command::parse("/inspect"), Some(Command::Inspect));
        for prompt in ["plugins", "/plugin", "/inspect this file", "/etc/passwd", "/plugins reload a b", ""] {
            assert_eq!(Command::parse(prompt), None, "{prompt}");
        }
    }
}
