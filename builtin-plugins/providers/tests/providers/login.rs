//! Logins in a browser, whose tokens stand for keys.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use linn_bus::{BoxFuture, Context, Demand, Fault, NeedList, Plugin, provider};
use linn_bus_test::run;
use linn_services::llm::wire::Endpoint;
use linn_services::llm::{ChunkStream, LlmError, Wire};
use linn_services::model::GenerateRequest;
use linn_services::oauth::{OAuth, OAuthError, OAuthLogin, OAuthProvider, OAuthToken};
use linn_services::providers::ProviderSpec;
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::support::{Kept, Net, config, harness, spec};

/// One login, for the provider `vendor`. Clones are the same.
#[derive(Clone)]
struct Logins(Arc<State>);

struct State {
    /// The number of the token; none after a logout.
    token: Mutex<Option<u32>>,
    n_refused: AtomicU32,
    changes: bool,
}

impl Logins {
    /// A login whose token changes when it is refused, or not.
    fn new(changes: bool) -> Self {
        Self(Arc::new(State { token: Mutex::new(Some(1)), n_refused: AtomicU32::new(0), changes }))
    }

    fn login(&self) -> OAuthProvider {
        OAuthProvider {
            id: "vendor".into(),
            label: "Vendor".into(),
            kind: "openai".into(),
            base_url: "https://vendor.example".into(),
            description: "By login".into(),
            headers: vec![("x-client".into(), "linn".into()), ("x-account".into(), "?".into())],
            plugin: "vendor-login".into(),
            has_credentials: self.0.token.lock().unwrap().is_some(),
        }
    }
}

#[provider]
impl OAuth for Logins {
    fn providers(&self) -> Result<Vec<OAuthProvider>, OAuthError> {
        let twin = OAuthProvider { id: "deepseek".into(), ..self.login() };
        Ok(vec![twin, self.login()])
    }
    async fn log_in(&self, _: &str) -> Result<OAuthLogin, OAuthError> {
        Ok(OAuthLogin::Done)
    }
    async fn complete(&self, _: &str) -> Result<OAuthProvider, OAuthError> {
        Err(OAuthError::NothingPending)
    }
    fn is_pending(&self) -> Result<bool, OAuthError> {
        Ok(false)
    }
    fn provider_for(&self, id: &str, base_url: &str) -> Result<Option<OAuthProvider>, OAuthError> {
        Ok((id == "vendor" || base_url.contains("vendor.example")).then(|| self.login()))
    }
    async fn token(&self, provider: &str) -> Result<OAuthToken, OAuthError> {
        let token = self.0.token.lock().unwrap().ok_or_else(|| OAuthError::NoToken(provider.to_owned()))?;
        let headers = vec![("X-Account".to_owned(), "a1".into())];
        Ok(OAuthToken { access_token: format!("token-{token}").into(), headers })
    }
    fn refused(&self, _: &str) -> Result<(), OAuthError> {
        self.0.n_refused.fetch_add(1, Relaxed);
        if self.0.changes {
            *self.0.token.lock().unwrap() = Some(2);
        }
        Ok(())
    }
    async fn log_out(&self, _: &str) -> Result<(), OAuthError> {
        *self.0.token.lock().unwrap() = None;
        Ok(())
    }
}

struct LoginsPlugin;

impl Plugin for LoginsPlugin {
    const NAME: &'static str = "logins";
    type Config = Logins;
    type Needs = ();
    fn provides(list: &mut NeedList) {
        list.add::<dyn OAuth>(Demand::Required);
    }
    async fn start(ctx: &Context, logins: Logins, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn OAuth>(Arc::new(logins))?;
        Ok(())
    }
}

/// A wire that takes the second token alone, and keeps the headers it was asked with.
#[derive(Clone, Default)]
struct Picky(Arc<Mutex<Vec<String>>>);

impl Wire for Picky {
    fn kind(&self) -> &str {
        "openai"
    }
    fn stream(
        &self,
        endpoint: Arc<Endpoint>,
        _: Arc<GenerateRequest>,
    ) -> BoxFuture<'static, Result<ChunkStream, LlmError>> {
        let shown = endpoint.headers.iter().map(|(name, value)| format!("{name}={}", value.expose_secret()));
        let key = endpoint.key().map_or("no key", |it| it.expose_secret());
        let shown = format!("{key} as {:?}: {}", endpoint.key_kind, shown.collect::<Vec<_>>().join(" "));
        let is_taken = shown.contains("token-2");
        self.0.lock().unwrap().push(shown);
        Box::pin(async move {
            let stream = || ChunkStream::new(futures_util::stream::empty());
            is_taken.then(stream).ok_or_else(|| LlmError::new("AUTH", "refused"))
        })
    }
}

fn vendor() -> ProviderSpec {
    ProviderSpec { api_key: None, ..spec("vendor") }
}

#[test]
fn wp_3_5_the_token_of_a_login_stands_for_a_key() {
    run(async |root| {
        let logins = Logins::new(true);
        root.mount::<LoginsPlugin>(logins.clone()).unwrap().running().await.unwrap();
        let net = Net::new([("https://vendor.example/models/info", json!({ "m": {} }))]);
        let of = harness(&root, config(&net, vec![vendor()]), &Kept::default()).await;
        let picky = Picky::default();
        of.llm.register_wire(&root, Arc::new(picky.clone())).unwrap();
        assert_eq!(of.models().await, ["vendor:m"]);
        assert!(net.headers().contains(&"authorization: Bearer token-1".to_owned()), "{:?}", net.headers());
        let active = of.providers.active().unwrap();
        assert!(active.has_key && active.is_logged_in);

        of.ask("m").await.unwrap();
        let asked = picky.0.lock().unwrap().clone();
        let expected = |n: u32| format!("token-{n} as OAuth: X-Account=a1 x-client=linn");
        assert_eq!(asked, [expected(1), expected(2)], "a token that was refused is asked for anew, once");
        assert_eq!(logins.0.n_refused.load(Relaxed), 1);

        of.providers.set_key(Some("vendor"), "k".into()).await.unwrap();
        of.providers.settled().await.unwrap();
        assert_eq!(of.providers.active().unwrap().name, "vendor");
    });
}

#[test]
fn a_token_that_stays_refused_is_an_error() {
    run(async |root| {
        let logins = Logins::new(false);
        root.mount::<LoginsPlugin>(logins.clone()).unwrap().running().await.unwrap();
        let of = harness(&root, config(&Net::default(), vec![vendor()]), &Kept::default()).await;
        let picky = Picky::default();
        of.llm.register_wire(&root, Arc::new(picky.clone())).unwrap();
        of.providers.settled().await.unwrap();
        assert_eq!(of.ask("m").await.unwrap_err(), "AUTH: refused");
        assert_eq!(picky.0.lock().unwrap().len(), 1, "the same token is not tried again");
    });
}

#[test]
fn wp_2_4_what_can_be_logged_in_to_is_listed_behind_the_presets() {
    run(async |root| {
        let logins = Logins::new(true);
        root.mount::<LoginsPlugin>(logins.clone()).unwrap().running().await.unwrap();
        let of = harness(&root, config(&Net::default(), vec![vendor()]), &Kept::default()).await;
        let presets = of.providers.presets().unwrap();
        let ids: Vec<&str> = presets.iter().map(|it| &*it.id).collect();
        assert_eq!(ids, ["umans", "opencode-go", "openrouter", "deepseek", "vendor"]);
        let preset = &presets[4];
        assert!(preset.supports_oauth && preset.configured && preset.has_key && preset.logged_in);
        assert_eq!(preset.env_var, None);

        assert_eq!(of.providers.log_out("vendor").await.unwrap().failure, None);
        assert!(logins.0.token.lock().unwrap().is_none(), "the login ended");
        let preset = of.providers.presets().unwrap().remove(4);
        assert!(!preset.configured && !preset.has_key && !preset.logged_in);
        assert_eq!(of.providers.log_out("vendor").await.unwrap_err().code(), "NOT_LOGGED_IN");
    });
}

#[test]
fn a_login_without_a_token_is_an_error_in_its_words() {
    run(async |root| {
        let logins = Logins::new(true);
        root.mount::<LoginsPlugin>(logins.clone()).unwrap().running().await.unwrap();
        let of = harness(&root, config(&Net::default(), vec![vendor()]), &Kept::default()).await;
        *logins.0.token.lock().unwrap() = None;
        let error = of.ask("m").await.unwrap_err();
        assert_eq!(error, "NO_KEY: no API key set for provider 'vendor'; use /login to log in", "nobody is logged in");
    });
}
