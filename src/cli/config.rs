//! `linn config`: what is set, and by whom.

use anyhow::bail;
use linn::config::{Config, Listed};
use serde_json::{Value, json};

use crate::cli::ConfigArguments;
use crate::cli::terminal::Terminal;

/// Lists the effective values with who set them. Whether anything is wrong with the configuration.
///
/// # Errors
///
/// There is no key of the name that was asked for.
pub(crate) fn config(arguments: &ConfigArguments, terminal: &Terminal) -> anyhow::Result<bool> {
    let config = arguments.settings.load()?;
    let wanted = |it: &Listed| match &arguments.key {
        Some(key) => it.key.name == key || it.key.name.starts_with(&format!("{key}.")),
        None => arguments.all || !it.origin.to_string().starts_with("built-in"),
    };
    let listed: Vec<_> = config.listing().into_iter().filter(wanted).collect();
    if let (true, Some(key)) = (listed.is_empty(), &arguments.key) {
        bail!("there is no key `{key}`; `linn config --all` lists all of them");
    }
    if arguments.json {
        terminal.plain(&format!("{:#}", as_json(&config, &listed)));
    } else {
        show(&config, &listed, arguments, terminal);
    }
    Ok(!config.problems().is_empty())
}

fn show(config: &Config, listed: &[Listed], arguments: &ConfigArguments, terminal: &Terminal) {
    if listed.is_empty() {
        terminal.explain("everything is as built in; `linn config --all` lists it");
    }
    for it in listed {
        terminal.say(&format!("{} = {}", it.key.name, effective(config, it)));
        terminal.explain(&format!("    {}", it.origin));
        for (origin, shown) in &it.shadowed {
            if arguments.key.is_some() {
                terminal.explain(&format!("    wins over {shown} from {origin}"));
            }
        }
    }
    for problem in config.problems() {
        terminal.warn(&problem.to_string());
    }
}

/// The value as it holds, however it was written; of what is a secret, that there is one.
fn effective(config: &Config, listed: &Listed) -> String {
    match config.get_json(listed.key.name) {
        None | Some(Value::Null) => listed.shown.clone(),
        Some(value) => value.to_string(),
    }
}

fn as_json(config: &Config, listed: &[Listed]) -> Value {
    let keys: Vec<_> = listed
        .iter()
        .map(|it| json!({ "key": it.key.name, "value": config.get_json(it.key.name), "origin": it.origin.to_string() }))
        .collect();
    let problems = config.problems().iter().map(|it| json!({ "code": it.code(), "message": it.to_string() }));
    json!({ "keys": keys, "problems": problems.collect::<Vec<_>>() })
}
