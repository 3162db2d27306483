//! Values that nobody is to see, and texts without them.
//!
//! A key that the harness was given is taken out wherever text of strangers comes in: what models stream, what tools
//! give back, what is logged to a session. So neither a model nor a front end nor a file ever sees one, whoever repeats it.

mod answers;
mod keeper;

pub(crate) use answers::without_secrets;
pub use keeper::{SecretKeeper, TextFlow};

use std::sync::Arc;

use linn_bus::{Context, Demand, Fault, NeedList, Plugin, ServiceError, provider, service};

/// Knows the secrets of the harness.
#[service("secrets")]
pub trait Secrets {
    /// What knows them: whoever is given a key tells it, and whoever takes in text has it redacted.
    fn keeper(&self) -> Result<SecretKeeper, ServiceError>;
}

/// What knows the secrets of the harness that a context is of; without the service one that knows none.
pub fn secrets_of(ctx: &Context) -> SecretKeeper {
    ctx.get::<dyn Secrets>().and_then(|it| it.keeper().ok()).unwrap_or_default()
}

/// Provides [`Secrets`] from a keeper that outlives the plugin: what it was told it knows for good. No configuration file
/// names it, which could put one in its place that knows nothing.
#[derive(Debug)]
pub struct SecretsPlugin;

impl Plugin for SecretsPlugin {
    const NAME: &'static str = "secrets";
    type Config = SecretKeeper;
    type Needs = ();

    fn provides(list: &mut NeedList) {
        list.add::<dyn Secrets>(Demand::Required);
    }

    async fn start(ctx: &Context, keeper: SecretKeeper, (): ()) -> Result<(), Fault> {
        ctx.provide::<dyn Secrets>(Arc::new(Provider(keeper)))?;
        Ok(())
    }
}

struct Provider(SecretKeeper);

#[provider]
impl Secrets for Provider {
    fn keeper(&self) -> Result<SecretKeeper, ServiceError> {
        Ok(self.0.clone())
    }
}
