//! `oauth/*`: what a login asks of a human.

use linn_bus::Event;
use serde::Serialize;

/// A human has to open a page to log in.
///
/// - Mode: emit, to everybody.
/// - Scope: none.
/// - Emitted by: the provider of the `oauth` service, once a login that needs it.
/// - On listener error or panic: logged.
/// - Cancelled by: nothing.
#[derive(Debug, Clone, Event, Serialize)]
#[event(name = "oauth/prompt", mode = Emit, view)]
#[serde(rename_all = "camelCase")]
pub struct OAuthPrompt {
    /// The provider.
    pub provider: String,
    /// The page, `http` or `https`.
    pub url: String,
    /// A code to type there.
    pub code: Option<String>,
    /// What to do, in words.
    pub message: String,
}
