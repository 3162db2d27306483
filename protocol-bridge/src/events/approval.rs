//! What runs without a question.

use linn_services::approval::{ApprovalMode, Permission};
use linn_services::events::ApprovalChanged;

use crate::bridge::Bridge;
use crate::wire::events::ApprovalChanged as Event;

/// A mode, as front ends name it.
pub(crate) fn mode_name(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Never => "never",
        ApprovalMode::Destructive => "destructive",
        ApprovalMode::Always => "always",
    }
}

impl Bridge {
    pub(crate) fn approval_changed(&self, event: &ApprovalChanged) {
        match event {
            ApprovalChanged::Mode { mode } => self.say(&Event { mode: mode_name(*mode), tool: None, pattern: None }),
            ApprovalChanged::Permitted { permission, .. } => match permission {
                Permission::Class { .. } => self.say(&Event { mode: &permission.text(), tool: None, pattern: None }),
                Permission::Tool { tool } => self.tell_permitted(tool.as_str(), "*"),
                Permission::Pattern { tool, pattern } => self.tell_permitted(tool.as_str(), pattern),
            },
            // There is no word for it on the wire.
            _ => {}
        }
    }

    fn tell_permitted(&self, tool: &str, pattern: &str) {
        self.say(&Event { mode: "allow_pattern", tool: Some(tool), pattern: Some(pattern) });
    }
}
