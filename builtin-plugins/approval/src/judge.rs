//! Judges a call by rules and mode.
//!
//! In this order: a deny rule refuses; what may be a denied command in disguise is asked about; an allow rule lets pass; an
//! ask rule asks; the mode has the last word. An allow rule beats a deny rule that is not narrower than it.

use linn_services::approval::ApprovalMode;
use linn_services::tools::ToolClass;

use crate::command::SimpleCommand;
use crate::glob::fits;
use crate::restricted::restricted_path;
use crate::rule::{Rule, Rules};
use crate::subject::{Subject, Unit};

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may run.
    Allow,
    /// It may not; why, for the model.
    Deny(String),
    /// A human decides.
    Ask {
        /// Why, for the human.
        reason: Option<String>,
        /// It may be something that is denied, so only a permission for this very command answers for the human.
        is_suspicion: bool,
    },
}

/// Judges a call.
pub(crate) fn judge(subject: &Subject, rules: &Rules, mode: ApprovalMode) -> Verdict {
    let about =
        |rules: &'_ [Rule]| -> Vec<Rule> { rules.iter().filter(|it| it.is_about(&subject.tool)).cloned().collect() };
    let (allow, deny, ask) = (about(&rules.allow), about(&rules.deny), about(&rules.ask));
    if let Some(rule) = denying(subject, &deny, &allow) {
        return Verdict::Deny(format!("tool call '{}' denied by permission rule {rule}", subject.tool));
    }
    let is_allowed = is_covered(subject, &allow);
    if let Some(reason) = suspicion(subject, &deny, &allow, is_allowed) {
        return Verdict::Ask { reason: Some(reason), is_suspicion: true };
    }
    if is_allowed {
        return Verdict::Allow;
    }
    let asked = |reason: String| Verdict::Ask { reason: Some(reason), is_suspicion: false };
    if let Some(rule) = ask.iter().find(|it| is_meant(it, subject)) {
        return asked(format!("rule {rule} asks"));
    }
    if let Some(reason) = suspicion(subject, &ask, &[], false) {
        return asked(reason);
    }
    match mode {
        _ if subject.class.is_none() => Verdict::Allow,
        ApprovalMode::Never => Verdict::Allow,
        ApprovalMode::Always => Verdict::Ask { reason: None, is_suspicion: false },
        ApprovalMode::Destructive => match restricted_path(subject) {
            Some(path) => asked(format!("`{path}` is restricted")),
            None if subject.class == Some(ToolClass::Destructive) => Verdict::Ask { reason: None, is_suspicion: false },
            None => Verdict::Allow,
        },
    }
}

/// Whether rules that are about the tool let all of a call pass.
pub(crate) fn is_covered(subject: &Subject, allow: &[Rule]) -> bool {
    if allow.iter().any(Rule::is_for_all) || is_exactly_covered(subject, allow) {
        return true;
    }
    let is_clear = subject.unclear.is_none() && !subject.units.is_empty();
    is_clear && subject.units.iter().all(|unit| allow.iter().any(|rule| covers(rule, unit)))
}

/// Whether a rule names this very command line. What was shown is what runs, whatever the line means.
pub(crate) fn is_exactly_covered(subject: &Subject, allow: &[Rule]) -> bool {
    let Some(line) = &subject.command else { return false };
    // A path beside the command is something that a rule for the command did not show.
    subject.paths().next().is_none() && allow.iter().any(|it| it.pattern == *line)
}

/// Whether an allow rule means one thing that a call is about.
fn covers(rule: &Rule, unit: &Unit) -> bool {
    match unit {
        _ if rule.is_for_all() => true,
        Unit::Command(command) => rule.fits(&command.text),
        Unit::Path(path) => {
            let leads_elsewhere = path.resolved.as_ref().is_some_and(|it| *it != path.plain && !rule.fits(it));
            !path.goes_up && !leads_elsewhere && (rule.fits(&path.plain) || rule.pattern == path.written)
        }
        Unit::Text(text) => rule.fits(text),
        Unit::Whole => false,
    }
}

/// The deny rule that holds, if one does.
fn denying<'a>(subject: &Subject, deny: &'a [Rule], allow: &[Rule]) -> Option<&'a Rule> {
    if is_exactly_covered(subject, allow) {
        return None;
    }
    deny.iter().filter(|it| is_meant(it, subject)).find(|denied| !is_beaten(denied, subject, allow))
}

/// Whether rules that allow, each at least as narrow, let pass all that a deny rule means of a call.
fn is_beaten(denied: &Rule, subject: &Subject, allow: &[Rule]) -> bool {
    if denied.is_for_all() {
        return is_covered(subject, allow);
    }
    let mut met = subject.units.iter().filter(|unit| is_meant_by(denied, unit)).peekable();
    // What fits the line as a whole and nothing in it is beaten by no rule for a part.
    met.peek().is_some() && met.all(|unit| allow.iter().any(|it| covers(it, unit) && width(it) >= width(denied)))
}

/// How narrow a rule is: how much a call has to begin with.
fn width(rule: &Rule) -> usize {
    rule.literal_prefix().chars().count()
}

/// Whether a rule that forbids means a call.
fn is_meant(rule: &Rule, subject: &Subject) -> bool {
    let is_line = subject.command.as_ref().is_some_and(|it| fits_any_case(&rule.pattern, it));
    rule.is_for_all() || is_line || subject.units.iter().any(|it| is_meant_by(rule, it))
}

/// Whether a rule that forbids means one thing that a call is about, in any of its spellings.
fn is_meant_by(rule: &Rule, unit: &Unit) -> bool {
    let fits = |text: &str| fits_any_case(&rule.pattern, text);
    match unit {
        _ if rule.is_for_all() => true,
        Unit::Command(command) => command.readings().iter().any(|it| fits(it)),
        Unit::Path(path) => fits(&path.written) || fits(&path.plain) || path.resolved.as_deref().is_some_and(fits),
        Unit::Text(text) => fits(text),
        Unit::Whole => false,
    }
}

fn fits_any_case(pattern: &str, text: &str) -> bool {
    fits(&pattern.to_lowercase(), &text.to_lowercase())
}

/// Why a call may be something that a forbidding rule means although it does not fit it.
fn suspicion(subject: &Subject, forbidding: &[Rule], allow: &[Rule], is_allowed: bool) -> Option<String> {
    subject.command.as_ref()?;
    let specific: Vec<&Rule> = forbidding.iter().filter(|it| !it.is_for_all()).collect();
    let first = specific.first()?;
    if is_exactly_covered(subject, allow) {
        return None;
    }
    if let Some(unclear) = subject.unclear {
        return Some(format!("the command line {}, so it may be what rule {first} is about", unclear.why()));
    }
    for command in subject.commands() {
        let is_named = allow.iter().any(|it| width(it) > 0 && it.fits(&command.text));
        if command.is_wrapper() && !is_named {
            let name = command.name();
            return Some(format!("`{name}` runs other commands, so it may be what rule {first} is about"));
        }
        let resembled = specific.iter().find(|it| resembles(command, it, Options::Count));
        let resembled = resembled
            .or_else(|| specific.iter().filter(|_| !is_allowed).find(|it| resembles(command, it, Options::AreLeftOut)));
        // A rule that allows at least as much of the command by its words has the human's word already.
        if let Some(rule) = resembled
            && !allow.iter().any(|it| it.fits(&command.text) && width(it) >= width(rule))
        {
            return Some(format!("the command may be what rule {rule} is about"));
        }
    }
    None
}

/// Whether the options of a rule have to be among the words of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Options {
    Count,
    AreLeftOut,
}

/// Whether a command has the words of a rule, with others in between.
fn resembles(command: &SimpleCommand, rule: &Rule, options: Options) -> bool {
    let prefix = rule.literal_prefix().to_lowercase();
    let mut wanted = prefix.split_whitespace();
    let Some(name) = wanted.next() else { return false };
    let name = name.rsplit('/').next().unwrap_or(name);
    if command.name() != name {
        return false;
    }
    let mut words = command.words.iter().skip(1).map(|it| it.to_lowercase());
    wanted.filter(|it| options == Options::Count || !it.starts_with('-')).all(|it| words.any(|word| word == it))
}
