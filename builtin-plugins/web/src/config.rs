//! What the plugins are configured with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use linn_bus::Fault;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::Http;

/// What [`WebPlugin`](crate::WebPlugin) is configured with.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// How long a page or a search may take in all, in seconds.
    pub timeout_s: u64,
    /// How much of a page is read, in bytes.
    pub max_bytes: usize,
    /// Hosts that may be asked; `.example.com` lets those below it through as well. Empty for all.
    pub allowlist: Vec<String>,
    /// Where Exa is asked.
    pub exa_url: String,
    /// Where Tavily is asked.
    pub tavily_url: String,
    /// Searches a month that a service, `exa` or `tavily`, is asked for at most; no limit for one that is not named.
    pub monthly_limits: BTreeMap<String, u64>,
    /// The file that searches are counted in, for all programs of the user; by default they are counted for this one.
    pub counts_file: Option<PathBuf>,
    /// What requests go through; by default the network.
    #[serde(skip)]
    pub http: Option<Arc<dyn Http>>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            timeout_s: 20,
            max_bytes: 262_144,
            allowlist: Vec::new(),
            exa_url: "https://api.exa.ai/search".to_owned(),
            tavily_url: "https://api.tavily.com/search".to_owned(),
            monthly_limits: BTreeMap::new(),
            counts_file: None,
            http: None,
        }
    }
}

impl fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebConfig")
            .field("timeout_s", &self.timeout_s)
            .field("max_bytes", &self.max_bytes)
            .field("allowlist", &self.allowlist)
            .finish_non_exhaustive()
    }
}

impl WebConfig {
    /// Says what is wrong with values that cannot be meant.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let bad = |why: &str| Err(Fault::msg(why).with_code("WEB_CONFIG"));
        if self.timeout_s == 0 {
            return bad("`timeout_s` is at least 1");
        }
        if self.max_bytes == 0 {
            return bad("`max_bytes` is at least 1");
        }
        Ok(())
    }

    /// Whether a host, in lower case, may be asked.
    pub(crate) fn allows(&self, host: &str) -> bool {
        let lets_through = |entry: &String| {
            let entry = entry.trim().to_ascii_lowercase();
            match entry.strip_prefix("*.").or(entry.strip_prefix('.')) {
                Some(domain) => host == domain || host.strip_suffix(domain).is_some_and(|it| it.ends_with('.')),
                None => host == entry,
            }
        };
        self.allowlist.is_empty() || self.allowlist.iter().any(lets_through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_let_through_by_name_and_by_domain() {
        let config = WebConfig { allowlist: vec!["Docs.rs".into(), ".example.com".into()], ..WebConfig::default() };
        for (host, allowed) in [
            ("docs.rs", true),
            ("www.docs.rs", false),
            ("example.com", true),
            ("a.b.example.com", true),
            ("badexample.com", false),
            ("example.com.evil", false),
        ] {
            assert_eq!(config.allows(host), allowed, "{host}");
        }
        assert!(WebConfig::default().allows("anything"));
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused() {
        assert!(WebConfig::default().check().is_ok());
        assert!(WebConfig { timeout_s: 0, ..WebConfig::default() }.check().is_err());
        assert!(WebConfig { max_bytes: 0, ..WebConfig::default() }.check().is_err());
    }
}
