//! The window of a model.

use std::sync::Arc;

use linn_bus::{ServiceError, provider};
use linn_bus_test::run;
use linn_plugin_compaction::CompactionConfig;
use linn_services::providers::{
    EndpointDraft, Kept, LoggedIn, ModelInfo, ProviderInfo, ProviderPreset, ProviderSpec, ProviderUsage, Providers,
    ProvidersError, Put, Refreshed,
};
use secrecy::SecretString;

use crate::support::Bench;

/// Tells of one model.
struct OneModel(ModelInfo);

#[provider]
impl Providers for OneModel {
    fn list(&self) -> Result<Vec<ProviderInfo>, ServiceError> {
        Ok(Vec::new())
    }
    fn active(&self) -> Result<ProviderInfo, ServiceError> {
        panic!("nobody asks")
    }
    fn presets(&self) -> Result<Vec<ProviderPreset>, ServiceError> {
        Ok(Vec::new())
    }
    fn models(&self) -> Result<Vec<ModelInfo>, ServiceError> {
        Ok(vec![self.0.clone()])
    }
    fn route(&self, model: &str, _: Option<&str>) -> Result<Option<ModelInfo>, ServiceError> {
        Ok((model == self.0.id).then(|| self.0.clone()))
    }
    async fn settled(&self) -> Result<(), ServiceError> {
        Ok(())
    }
    async fn refresh(&self) -> Result<Refreshed, ProvidersError> {
        Ok(Refreshed::default())
    }
    async fn preview(&self, _: EndpointDraft) -> Result<Vec<ModelInfo>, ProvidersError> {
        Err(ProvidersError::Incomplete)
    }
    async fn log_in(&self, _: &str, _: Option<SecretString>) -> Result<LoggedIn, ProvidersError> {
        Err(ProvidersError::Incomplete)
    }
    async fn log_out(&self, _: &str) -> Result<Kept, ProvidersError> {
        Err(ProvidersError::Incomplete)
    }
    async fn set_key(&self, _: Option<&str>, _: SecretString) -> Result<String, ProvidersError> {
        Err(ProvidersError::Incomplete)
    }
    async fn set_active(&self, _: &str) -> Result<ProviderInfo, ProvidersError> {
        Err(ProvidersError::Incomplete)
    }
    async fn put(&self, _: ProviderSpec) -> Result<Put, ProvidersError> {
        Err(ProvidersError::Incomplete)
    }
    async fn usage(&self, _: Option<&str>) -> Result<ProviderUsage, ServiceError> {
        Ok(ProviderUsage::default())
    }
}

fn told(id: &str, context_window: u64) -> ModelInfo {
    ModelInfo {
        id: id.to_owned(),
        name: id.to_owned(),
        reasoning: false,
        context_window,
        max_tokens: 10,
        thinking_levels: Vec::new(),
        vision: false,
        provider: "p".to_owned(),
    }
}

#[test]
fn the_window_is_the_one_that_is_set_or_else_the_one_its_provider_tells_of() {
    run(async |root| {
        let bench =
            Bench::new(root, CompactionConfig { context_window: 1000, ..CompactionConfig::default() }, []).await;
        let window = || bench.compaction().budget(&bench.agent).unwrap().context_window;
        assert_eq!(window(), 1000, "nobody tells");
        let provided = bench.root.provide::<dyn Providers>(Arc::new(OneModel(told("other", 7)))).unwrap();
        assert_eq!(window(), 1000, "of this model nobody does");
        provided.dispose().await;
        bench.root.provide::<dyn Providers>(Arc::new(OneModel(told("m", 5000)))).unwrap();
        assert_eq!(window(), 5000);
    });
}

#[test]
fn a_window_that_is_set_counts_more_than_what_a_provider_tells() {
    run(async |root| {
        let set = CompactionConfig { windows: [("m".to_owned(), 900)].into(), ..CompactionConfig::default() };
        let bench = Bench::new(root, set, []).await;
        bench.root.provide::<dyn Providers>(Arc::new(OneModel(told("m", 5000)))).unwrap();
        assert_eq!(bench.compaction().budget(&bench.agent).unwrap().context_window, 900);
    });
}
