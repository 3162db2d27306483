//! What the model is told about whether anybody can be asked.

use crate::agent::Agent;
use crate::model::{ContentBlock, MessageSource};
use crate::prompt::{AssembleContext, Section, TextOf};
use crate::session::{AppendError, ApprovalPolicy, ContextMessage, Fact, Session};

/// Name of the section in the system text.
const SECTION: &str = "approval:policy";

/// Its place among the guidance for tools.
const SECTION_ORDER: i32 = 115;

/// The policy of a session: the last one in its log, or the one that holds without.
pub(crate) fn policy_of(session: &Session, default: ApprovalPolicy) -> ApprovalPolicy {
    session.find_last(|it| policy_in(&it.fact)).unwrap_or(default)
}

fn policy_in(fact: &Fact) -> Option<ApprovalPolicy> {
    if let Fact::ApprovalPolicyChanged(it) = fact { Some(it.policy) } else { None }
}

/// The section that says the policy in words where it matters, and marks it in any case.
pub(crate) fn section(default: ApprovalPolicy) -> Section {
    let text = move |it: &AssembleContext| {
        let session = it.agent.as_ref().map(Agent::session);
        words(session.map_or(default, |it| policy_of(it, default)))
    };
    Section { name: SECTION.to_owned(), order: SECTION_ORDER, text: TextOf::new(text) }
}

fn words(policy: ApprovalPolicy) -> String {
    match policy {
        ApprovalPolicy::Ask => "<approval-policy>ask</approval-policy>".to_owned(),
        ApprovalPolicy::Never => "<approval-policy>never</approval-policy>\n\
            Nobody can be asked to approve a tool call in this session. A call that would need approval is rejected at \
            once, and trying it again changes nothing: find a way that needs none, or say what has to be done by hand."
            .to_owned(),
    }
}

/// Adds one notice to the conversation if the policy is another than at the last step. Before the first step there is
/// nothing to tell: the system text says it.
pub(crate) fn tell_change(session: &Session, default: ApprovalPolicy) -> Result<(), AppendError> {
    let Some(last_step) = session.find_last(|it| matches!(it.fact, Fact::StepStart(_)).then_some(it.seq)) else {
        return Ok(());
    };
    let told = session.find_last(|it| policy_in(&it.fact).filter(|_| it.seq < last_step)).unwrap_or(default);
    let now = policy_of(session, default);
    if told == now {
        return Ok(());
    }
    let change = match now {
        ApprovalPolicy::Ask => "Tool calls can be approved again from now on.",
        ApprovalPolicy::Never => "From now on nobody can be asked to approve a tool call.",
    };
    let content = vec![ContentBlock::text(format!("{change}\n{}", words(now)))];
    let fact = ContextMessage { content, source: MessageSource::plugin("approval") };
    match session.say(fact) {
        Err(error) if !error.is_logged() => Err(error),
        _ => Ok(()),
    }
}
