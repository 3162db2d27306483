//! What commands do. One module an area.

mod admin;
mod bash;
mod compact;
mod conversation;
mod goals;
mod inspection;
mod memory;
mod plugins;
mod prompts;
mod providers;
mod replies;
mod sessions;
mod settings;
mod startup;

use crate::bridge::Bridge;

impl Bridge {
    /// Says that a command cannot be carried out, since nobody provides what it needs.
    fn missing(&self, command: &str, what: &str) {
        self.error(format!("{command} needs {what}, and no plugin that is mounted provides that"));
    }
}
