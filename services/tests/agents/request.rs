//! What a request is made of, and in which order.

use std::sync::Arc;

use linn_services::agent::{build_request, paired, with_own_ids};
use linn_services::model::{ContentBlock, EpochHeader, LlmCallConfig, Message, Role};
use linn_services::session::Overlay;
use linn_services_test::{message, request_of};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: "t".into(), arguments: String::new() }
}

fn result(id: &str) -> ContentBlock {
    ContentBlock::ToolResult { tool_call_id: id.into(), content: vec!["ok".into()], is_error: false }
}

fn user(block: impl Into<ContentBlock>) -> Arc<Message> {
    Arc::new(Message::user([block.into()]))
}

fn assistant<const N: usize>(blocks: [ContentBlock; N]) -> Arc<Message> {
    Arc::new(Message::assistant(blocks))
}

fn short(messages: Vec<Arc<Message>>) -> Vec<String> {
    messages.iter().map(|it| message(it)).collect()
}

#[test]
fn results_follow_their_calls_in_the_order_of_the_calls() {
    let messages = vec![
        user("hi"),
        assistant([call("c1"), call("c2")]),
        user("in between"),
        user(result("c2")),
        user(result("c1")),
        user("next"),
    ];
    let expected = [
        "user: hi",
        "assistant: call c1 t  | call c2 t ",
        "user: result c1 ok",
        "user: result c2 ok",
        "user: in between",
        "user: next",
    ];
    assert_eq!(short(paired(messages)), expected);
}

#[test]
fn a_call_without_a_result_gets_one_and_a_result_without_a_call_goes() {
    let messages =
        vec![user(result("c9")), assistant([call("c1")]), user("next"), assistant(["x".into()]), user(result("c1"))];
    let expected = [
        "assistant: call c1 t ",
        "user: result c1 failed Error: the call was interrupted; there is no result",
        "user: next",
        "assistant: x",
    ];
    assert_eq!(short(paired(messages)), expected);
}

#[test]
fn what_is_paired_stays_as_it_is() {
    let messages = vec![user("hi"), assistant([call("c1")]), user(result("c1")), assistant(["x".into()])];
    let same = paired(messages.clone());
    assert!(messages.iter().zip(&same).all(|(a, b)| Arc::ptr_eq(a, b)));
}

#[test]
fn r020_r021_ids_that_are_empty_or_taken_become_their_own() {
    let history = [assistant([call("c1")])];
    let answer = Message::assistant([call("c1"), call(""), call("c2"), call("c2"), call("")]);
    let own = with_own_ids(&answer, &history).into_owned();
    assert_eq!(message(&own), "assistant: call c1-2 t  | call call-2 t  | call c2 t  | call c2-2 t  | call call-3 t ");
    assert_eq!(*with_own_ids(&own, &history), own);
}

#[test]
fn a_request_is_the_prefix_then_the_history_then_what_is_laid_over_it() {
    let header = EpochHeader {
        config: LlmCallConfig::of_model("m"),
        system: Some("be kind".into()),
        tools: None,
        message_prefix: Some(vec![Message::user(["prefix".into()])]),
    };
    let build = |overlays: &[Overlay]| {
        let request = build_request(&header, vec![user("hi")], overlays, &"s".into(), CancellationToken::new());
        assert_eq!((request.config.model.as_str(), request.system.as_deref()), ("m", Some("be kind")));
        request_of(&request)
    };
    let behind = |text: &str| Overlay::Messages(vec![Message::user([text.into()])]);
    let instead = |text: &str| Overlay::Replacement(vec![Message::user([text.into()])]);
    assert_eq!(build(&[]), ["user: prefix", "user: hi"]);
    assert_eq!(build(&[behind("a"), behind("b")]), ["user: prefix", "user: hi", "user: a", "user: b"]);
    assert_eq!(build(&[behind("a"), instead("b"), behind("c")]), ["user: prefix", "user: b", "user: c"]);
}

/// Anything that a history may hold, sound or not.
fn any_message() -> impl Strategy<Value = Arc<Message>> {
    let block = prop_oneof![
        (0..4_u8).prop_map(|n| call(&format!("c{n}"))),
        (0..4_u8).prop_map(|n| result(&format!("c{n}"))),
        Just(ContentBlock::text("x")),
    ];
    (any::<bool>(), prop::collection::vec(block, 1..4)).prop_map(|(is_answer, blocks)| {
        let (role, wanted): (_, fn(&ContentBlock) -> bool) = if is_answer {
            (Role::Assistant, |it| !matches!(it, ContentBlock::ToolResult { .. }))
        } else {
            (Role::User, |it| !matches!(it, ContentBlock::ToolCall { .. }))
        };
        Arc::new(Message { role, content: blocks.into_iter().filter(wanted).collect() })
    })
}

proptest! {
    #[test]
    fn whatever_the_history_holds_each_call_is_followed_by_its_result(
        messages in prop::collection::vec(any_message(), 0..12),
    ) {
        // Calls of one answer have ids of their own, as the loop logs them.
        let messages: Vec<_> = messages.iter().map(|it| match it.role {
            Role::Assistant => Arc::new(with_own_ids(it, &[]).into_owned()),
            _ => it.clone(),
        }).collect();
        let shown = paired(messages);
        let mut open = Vec::new();
        for message in &shown {
            for block in &message.content {
                match block {
                    ContentBlock::ToolCall { id, .. } => open.push(id.clone()),
                    ContentBlock::ToolResult { tool_call_id, .. } => {
                        prop_assert!(!open.is_empty());
                        prop_assert_eq!(&open.remove(0), tool_call_id);
                    }
                    _ => prop_assert!(open.is_empty() || message.role == Role::Assistant),
                }
            }
        }
        prop_assert!(open.is_empty());
        prop_assert_eq!(paired(shown.clone()), shown);
    }
}
