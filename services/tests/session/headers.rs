//! What stands in front of the history, and how its changes are logged.

use linn_bus_test::run;
use linn_services::model::{EpochHeader, LlmCallConfig, Message, ToolSchema};
use linn_services::session::{Fact, HeaderReason, RequestHeader, RequestHeaderDelta, header_change};
use proptest::prelude::*;
use serde_json::json;

use crate::{session, turn_start};

fn tool(name: &str, description: &str) -> ToolSchema {
    ToolSchema { name: name.into(), description: description.to_owned(), parameters: json!({"type": "object"}) }
}

fn header(system: &str, tools: &[ToolSchema]) -> EpochHeader {
    let config = LlmCallConfig::of_model("m");
    EpochHeader { config, system: Some(system.into()), tools: Some(tools.to_vec()), message_prefix: None }
}

#[test]
fn an_equal_header_needs_no_fact_and_empty_parts_count_as_absent() {
    let bare = EpochHeader { config: LlmCallConfig::of_model("m"), ..EpochHeader::default() };
    assert_eq!(header_change(&bare, &bare), None);
    assert_eq!(header_change(&bare, &header("", &[])), None);
}

#[test]
fn a_change_of_lines_and_tools_is_a_delta() {
    let old = header("a\nb\nc\nd", &[tool("a", "1"), tool("c", "1"), tool("d", "1")]);
    let new = header("a\nB\nc\nd", &[tool("a", "1"), tool("b", "1"), tool("d", "2")]);
    let Some(Fact::RequestHeaderDelta(delta)) = header_change(&old, &new) else { panic!("no delta") };
    let system = delta.system.unwrap();
    assert_eq!((system.keep_start, system.keep_end, system.insert), (1, 2, vec!["B".to_owned()]));
    let tools = delta.tools.unwrap();
    let names = |tools: &[ToolSchema]| tools.iter().map(|it| it.name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&tools.added), names(&tools.changed)), (vec!["b".to_owned()], vec!["d".to_owned()]));
    assert_eq!(tools.removed, ["c"]);
    assert_eq!((delta.config, delta.message_prefix), (None, None));
}

#[test]
fn a_new_order_of_tools_is_logged_in_full() {
    let (a, b) = (tool("a", "1"), tool("b", "1"));
    let change = header_change(&header("s", &[a.clone(), b.clone()]), &header("s", &[b, a]));
    assert!(matches!(change, Some(Fact::RequestHeader(RequestHeader { reason: HeaderReason::Fallback, .. }))));
}

#[test]
fn a_delta_without_a_header_is_refused() {
    run(async |root| {
        let session = session(&root).await;
        session.append(turn_start(1)).unwrap();
        let delta = RequestHeaderDelta { system: None, tools: None, config: None, message_prefix: Some(vec![]) };
        assert_eq!(session.append(delta).unwrap_err().code(), "DELTA_WITHOUT_HEADER");
        assert_eq!((session.len(), session.request_header()), (1, None));
    });
}

fn headers() -> impl Strategy<Value = EpochHeader> {
    let system = prop::option::of(prop::collection::vec("[ab]{0,1}", 0..6).prop_map(|it| it.join("\n")));
    let tools = prop::collection::vec(("[a-d]", "[12]"), 0..5);
    let tools = prop::option::of((tools, any::<bool>()).prop_map(|(mut tools, is_sorted)| {
        if is_sorted {
            tools.sort();
            tools.dedup_by(|a, b| a.0 == b.0);
        }
        tools.iter().map(|(name, description)| tool(name, description)).collect::<Vec<_>>()
    }));
    let config = ("[mn]", prop::option::of(0u32..3))
        .prop_map(|(model, max_tokens)| LlmCallConfig { max_tokens, ..LlmCallConfig::of_model(model) });
    let prefix = prop::option::of(prop::collection::vec("[ab]", 0..3));
    let prefix = prefix.prop_map(|it| it.map(|it| it.into_iter().map(|it| Message::user([it.into()])).collect()));
    (config, system, tools, prefix).prop_map(|(config, system, tools, message_prefix)| EpochHeader {
        config,
        system,
        tools,
        message_prefix,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_change_of_headers_is_reproduced_by_the_log(headers in prop::collection::vec(headers(), 2..6)) {
        run(async |root| {
            let session = session(&root).await;
            let first = RequestHeader { header: headers[0].clone(), reason: HeaderReason::Initial };
            session.append(first).unwrap();
            for new in &headers {
                let old = session.request_header().unwrap();
                let change = header_change(&old, new);
                assert_eq!(change.is_none(), *old == new.clone().canonical());
                if let Some(change) = change {
                    // Through JSON, as a log is kept.
                    let data = serde_json::to_value(&*session.append(change).unwrap()).unwrap();
                    assert!(data["type"].as_str().unwrap().starts_with("request/header"));
                }
                assert_eq!(*session.request_header().unwrap(), new.clone().canonical());
            }
        });
    }
}
