//! The order in which a model is told of its tools.

use crate::ids::ToolName;
use crate::model::ToolSchema;
use crate::prompt::PromptError;

/// What stands for all tools that an order does not name.
pub const UNLISTED_TOOLS: &str = "<unlisted-tools>";

/// Whether an order is one: it has the marker once, and no name twice.
pub(crate) fn check(order: &[String]) -> Result<(), PromptError> {
    for (at, name) in order.iter().enumerate() {
        if order[..at].contains(name) {
            return Err(PromptError::ToolOrder(format!("names `{name}` twice")));
        }
    }
    if order.iter().any(|it| it == UNLISTED_TOOLS) {
        return Ok(());
    }
    let why = format!("does not say where the tools go that it does not name; put `{UNLISTED_TOOLS}` in its place");
    Err(PromptError::ToolOrder(why))
}

/// Puts tools in order: by name, or as configured. `known` are the tools there are, also those that this prompt lacks.
pub(crate) fn sort(
    tools: &mut [ToolSchema],
    order: Option<&[String]>,
    known: impl FnOnce() -> Result<Vec<ToolName>, PromptError>,
) -> Result<(), PromptError> {
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let Some(order) = order else { return Ok(()) };
    let mut absent =
        order.iter().filter(|it| *it != UNLISTED_TOOLS && tools.iter().all(|tool| tool.name != ***it)).peekable();
    if absent.peek().is_some() {
        let known = known()?;
        if let Some(unknown) = absent.find(|name| known.iter().all(|it| *it != ***name)) {
            let mut known: Vec<_> = known.iter().chain(tools.iter().map(|it| &it.name)).map(ToolName::as_str).collect();
            known.sort_unstable();
            known.dedup();
            let why = format!("names `{unknown}`, and there is no such tool; there are: {}", known.join(", "));
            return Err(PromptError::ToolOrder(why));
        }
    }
    let place = |name: &str| order.iter().position(|it| it == name);
    let unlisted = place(UNLISTED_TOOLS);
    tools.sort_by_key(|it| place(it.name.as_str()).or(unlisted));
    Ok(())
}
