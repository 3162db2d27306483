//! A service whose error cannot say that the provider is gone.
use linn_bus::service;

struct OwnError;

#[service("ui/own-error")]
trait Own {
    fn run(&self) -> Result<(), OwnError>; //~ From<ServiceError>
}

fn main() {}
