//! Asks the provider that has the model.

use std::sync::Arc;

use linn_bus::{BoxFuture, Svc};
use linn_services::llm::wire::{Endpoint, EndpointModel};
use linn_services::llm::{Adapter, ChunkStream, Llm, LlmError, Wire};
use linn_services::model::GenerateRequest;
use secrecy::ExposeSecret as _;

use crate::book::Route;
use crate::endpoint::needs_key;
use crate::login::{Credentials, Login};
use crate::service::Service;

/// Answers for every model that no other adapter answers for.
#[derive(Clone)]
pub(crate) struct Router {
    pub(crate) service: Arc<Service>,
    pub(crate) llm: Svc<dyn Llm>,
    pub(crate) idle_timeout_ms: u64,
}

impl Router {
    /// Where a model is asked and over which wire: by what is configured at this moment.
    async fn resolve(&self, model: &str) -> Result<(Arc<dyn Wire>, Endpoint, Option<Login>), LlmError> {
        self.service.look_once();
        let mut route = self.service.book().route(model, None);
        // Who has it may be known in a moment. Of one provider it makes no difference.
        if route.info.is_none() && self.service.book().entries().len() > 1 && self.service.is_looking() {
            self.service.until_settled().await;
            route = self.service.book().route(model, None);
        }
        let (name, kind) = (&route.entry.spec.name, &route.entry.spec.kind);
        let with = self.service.credentials(&route.entry.spec).await;
        let with = with.map_err(|error| LlmError::new(error.code(), error.to_string()))?;
        let endpoint = self.endpoint(&route, &with)?;
        let Some(wire) = self.llm.wire(kind)? else {
            let known = self.llm.wires()?.join(", ");
            let known = if known.is_empty() { "none" } else { &known };
            let why =
                format!("provider `{name}` speaks the wire `{kind}`, which nothing here does; there are: {known}");
            return Err(LlmError::new("NO_WIRE", why));
        };
        self.service.note_asked(name, &route.model);
        Ok((wire, endpoint, with.login))
    }

    fn endpoint(&self, route: &Route, with: &Credentials) -> Result<Endpoint, LlmError> {
        let spec = &with.spec;
        if with.secret().is_none() && needs_key(spec) {
            let why = format!("no API key set for provider '{}'; use /login to log in", spec.name);
            return Err(LlmError::new("NO_KEY", why));
        }
        let max_tokens = route.info.as_ref().map(|it| u32::try_from(it.max_tokens).unwrap_or(u32::MAX));
        let model = EndpointModel {
            id: route.model.clone(),
            effort_levels: route.info.as_ref().map(|it| it.thinking_levels.clone()).unwrap_or_default(),
            max_tokens: max_tokens.filter(|it| *it > 0),
        };
        let endpoint = Endpoint {
            name: spec.name.clone(),
            base_url: spec.base_url.clone(),
            api_key: with.secret().cloned(),
            key_kind: with.kind(),
            headers: spec.headers.iter().cloned().collect(),
            prefix: route.prefix.clone(),
            models: vec![model],
            idle_timeout_ms: self.idle_timeout_ms,
        };
        Endpoint::check_all(std::slice::from_ref(&endpoint)).map_err(|it| LlmError::new(it.code(), it.to_string()))?;
        Ok(endpoint)
    }
}

impl Adapter for Router {
    fn name(&self) -> &str {
        "providers"
    }

    fn stream(&self, request: Arc<GenerateRequest>) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let router = self.clone();
        Box::pin(async move {
            let (wire, endpoint, login) = router.resolve(&request.config.model).await?;
            let asked = wire.stream(Arc::new(endpoint), request.clone()).await;
            match (asked, login) {
                // A token may end before its time; the next one is asked for once.
                (Err(error), Some(login)) if error.code.as_deref() == Some("AUTH") => {
                    login.oauth.refused(&login.provider).map_err(|it| LlmError::new(it.code(), it.to_string()))?;
                    let (wire, endpoint, again) = router.resolve(&request.config.model).await?;
                    if again.is_some_and(|it| it.token.expose_secret() == login.token.expose_secret()) {
                        return Err(error);
                    }
                    wire.stream(Arc::new(endpoint), request).await
                }
                (asked, _) => asked,
            }
        })
    }
}
