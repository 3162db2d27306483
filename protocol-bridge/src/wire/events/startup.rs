//! What a front end learns first.

use serde_json::Value;

use super::wire_events;
use crate::wire::commands::Client;

wire_events! {
    Ready<'a> = "ready", checked {
        #[serde(flatten)]
        fields: &'a Value,
    }
    ProtocolHello<'a> = "protocol_hello", checked {
        version: &'a str,
        min_client: &'a str,
        client_protocol_version: Option<u64>,
        client: Option<&'a Client>,
        capabilities: &'a [&'a str],
    }
    SessionRecovered<'a> = "session_recovered", checked {
        warnings: &'a [String],
        interrupted_runs: &'a [String],
        interrupted_activities: &'a [Value],
    }
}
