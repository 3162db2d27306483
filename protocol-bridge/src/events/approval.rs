//! What runs without a question.

use linn_services::approval::{ApprovalMode, ApprovalModes, Permission};
use linn_services::events::ApprovalChanged;
use linn_services::persistence::SessionFiles;
use linn_services::session::Session;
use linn_services::tools::ToolClass;

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

/// A class of tools that is permitted, as files keep it.
fn class_name(permission: &Permission) -> Option<&'static str> {
    match permission {
        Permission::Class { class: ToolClass::ReadOnly } => Some("readonly"),
        Permission::Class { class: ToolClass::Destructive } => Some("destructive"),
        _ => None,
    }
}

fn class_of(name: &str) -> Option<ToolClass> {
    match name {
        "readonly" => Some(ToolClass::ReadOnly),
        "destructive" => Some(ToolClass::Destructive),
        _ => None,
    }
}

impl Bridge {
    pub(crate) fn approval_changed(&self, event: &ApprovalChanged) {
        match event {
            ApprovalChanged::Mode { mode } => self.say(&Event { mode: mode_name(*mode), tool: None, pattern: None }),
            ApprovalChanged::Permitted { permission, .. } => match permission {
                Permission::Class { .. } => {
                    self.say(&Event { mode: &permission.text(), tool: None, pattern: None });
                    self.keep_escalations();
                }
                Permission::Tool { tool } => self.tell_permitted(tool.as_str(), "*"),
                Permission::Pattern { tool, pattern: what } | Permission::Exact { tool, target: what } => {
                    self.tell_permitted(tool.as_str(), what);
                }
            },
            ApprovalChanged::Cleared { .. } => self.keep_escalations(),
            // There is no word for it on the wire.
            _ => {}
        }
    }

    /// Keeps which classes of tools are permitted in the current session, for its next life.
    fn keep_escalations(&self) {
        let Some(agent) = self.agent() else { return };
        self.spawn(move |bridge| async move {
            let modes = bridge.service::<dyn ApprovalModes>().and_then(|it| it.permissions(agent.session()).ok());
            let (Some(files), Some(permitted)) = (bridge.service::<dyn SessionFiles>(), modes) else { return };
            let classes: Vec<String> = permitted.iter().filter_map(class_name).map(str::to_owned).collect();
            if let Err(error) = files.keep_escalations(agent.session().id(), &classes).await {
                bridge.ctx.logger().warn(format_args!("what was permitted is forgotten with the program: {error}"));
            }
        });
    }

    /// Permits what was permitted in an earlier life of a session.
    pub(crate) async fn restore_escalations(&self, session: &Session) {
        let (Some(files), Some(modes)) = (self.service::<dyn SessionFiles>(), self.service::<dyn ApprovalModes>())
        else {
            return;
        };
        let restored = match files.escalations(session.id()).await {
            Ok(names) => names.iter().filter_map(|it| class_of(it)).map(|class| Permission::Class { class }).collect(),
            Err(error) => {
                self.ctx.logger().warn(format_args!("what was permitted before is asked about again: {error}"));
                return;
            }
        };
        if let Err(error) = modes.restore(session, restored) {
            self.ctx.logger().warn(format_args!("what was permitted before is asked about again: {error}"));
        }
    }

    fn tell_permitted(&self, tool: &str, pattern: &str) {
        self.say(&Event { mode: "allow_pattern", tool: Some(tool), pattern: Some(pattern) });
    }
}
