//! What a provider is asked with: its key, or the token of a login in a browser.

use std::sync::Arc;

use linn_bus::Svc;
use linn_services::llm::wire::KeyKind;
use linn_services::oauth::{OAuth, OAuthError, OAuthProvider};
use linn_services::providers::{ProviderPreset, ProviderSpec};
use secrecy::SecretString;

use crate::book::Book;
use crate::endpoint::Key;

/// What a provider is asked with.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) key: Option<SecretString>,
    /// The provider, with the headers that its login brings.
    pub(crate) spec: Arc<ProviderSpec>,
    /// The login, if there is no key.
    pub(crate) login: Option<Login>,
}

/// A login whose token is used.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) oauth: Svc<dyn OAuth>,
    pub(crate) provider: String,
    pub(crate) token: SecretString,
}

/// The login that brings tokens for a provider, if a human has logged in.
pub(crate) fn login_of(oauth: &Svc<dyn OAuth>, spec: &ProviderSpec) -> Option<OAuthProvider> {
    let found = oauth.provider_for(&spec.name, &spec.base_url).ok().flatten();
    found.filter(|it| it.has_credentials)
}

impl Credentials {
    /// A key, or nothing.
    pub(crate) fn of_key(spec: Arc<ProviderSpec>, key: Option<SecretString>) -> Self {
        Self { key, spec, login: None }
    }

    /// What stands for the key in a request: the key, or the token of the login.
    pub(crate) fn secret(&self) -> Option<&SecretString> {
        self.key.as_ref().or(self.login.as_ref().map(|it| &it.token))
    }

    /// The same, as a request is made with it.
    pub(crate) fn as_key(&self) -> Key<'_> {
        Key { secret: self.secret(), kind: self.kind() }
    }

    /// How the secret is sent.
    pub(crate) fn kind(&self) -> KeyKind {
        if self.login.is_some() { KeyKind::OAuth } else { KeyKind::Api }
    }

    /// The token of a login, with what it wants in the headers.
    pub(crate) async fn of_login(
        oauth: &Svc<dyn OAuth>,
        login: &OAuthProvider,
        spec: &ProviderSpec,
    ) -> Result<Self, OAuthError> {
        let told = oauth.token(&login.id).await?;
        let mut headers: Vec<(String, SecretString)> =
            login.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        for (name, value) in spec.headers.iter().chain(&told.headers) {
            headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
            headers.push((name.clone(), value.clone()));
        }
        let login = Login { oauth: oauth.clone(), provider: login.id.clone(), token: told.access_token };
        Ok(Self { key: None, spec: Arc::new(ProviderSpec { headers, ..spec.clone() }), login: Some(login) })
    }
}

/// Something one logs in to in a browser, as it is listed.
pub(crate) fn preset_of(book: &Book, login: OAuthProvider) -> ProviderPreset {
    let configured = book.is_configured(&login.id);
    ProviderPreset {
        id: login.id,
        label: login.label,
        kind: login.kind,
        base_url: login.base_url,
        env_var: None,
        alt_envs: Vec::new(),
        description: login.description,
        has_key: login.has_credentials,
        configured,
        logged_in: configured && login.has_credentials,
        supports_oauth: true,
    }
}
