//! How many sessions of a provider are in use, for providers that count them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use linn_services::events::ProvidersChanged;
use linn_services::providers::{ProviderInfo, Providers};

use crate::bridge::Bridge;
use crate::wire::events::UmansConc;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(5);

/// The domain of the providers that count sessions.
const DOMAIN: &str = "umans.ai";

impl Bridge {
    pub(crate) fn providers_changed(&self, _: &ProvidersChanged) {
        self.watch_concurrency();
    }

    /// Tells of sessions in use from now on, as long as there is a provider that counts them. Whoever asks no such provider
    /// has no timer for it.
    pub(crate) fn watch_concurrency(&self) {
        if !self.has_greeted.load(Ordering::Acquire) || self.counted().is_none() {
            return;
        }
        if self.is_watching.swap(true, Ordering::AcqRel) {
            return;
        }
        self.spawn(|bridge| async move {
            while let Some(provider) = bridge.counted() {
                bridge.tell_concurrency(&provider).await;
                bridge.ctx.clock().sleep(EVERY).await;
            }
            bridge.say(&UmansConc { used: None, limit: None, provider: None });
            bridge.is_watching.store(false, Ordering::Release);
            // One may have come in between.
            bridge.watch_concurrency();
        });
    }

    /// The provider that counts sessions, if one can be asked.
    fn counted(&self) -> Option<ProviderInfo> {
        let all = self.service::<dyn Providers>()?.list().ok()?;
        all.into_iter().find(|it| it.has_key && is_counted(&it.base_url))
    }

    async fn tell_concurrency(&self, provider: &ProviderInfo) {
        let Some(providers) = self.service::<dyn Providers>() else { return };
        // The model says whose use is asked for, and nothing else.
        let Ok(usage) = providers.usage(Some(&format!("{}:any", provider.name))).await else { return };
        let Some(window) = usage.windows.iter().find(|it| it.id == "concurrency") else { return };
        let count = |it: Option<f64>| it.filter(|it| *it >= 0.0).map(|it| it as u64);
        let provider = Some(provider.name.as_str());
        self.say(&UmansConc { used: count(window.used), limit: count(window.limit), provider });
    }
}

/// Whether an address is one of a provider that counts sessions.
fn is_counted(base_url: &str) -> bool {
    let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let host = host.split(['/', ':', '?']).next().unwrap_or_default().to_ascii_lowercase();
    host == DOMAIN || host.strip_suffix(DOMAIN).is_some_and(|it| it.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_known_by_its_host() {
        assert!(is_counted("https://api.code.umans.ai/v1") && is_counted("https://UMANS.ai"));
        assert!(!is_counted("https://notumans.ai/v1") && !is_counted("https://example.com/umans.ai"));
    }
}
