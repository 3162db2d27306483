//! Traits that cannot be services.
use linn_bus::{ServiceError, provider, service};

#[service("ui/no-result")]
trait NoResult {
    fn list(&self) -> Vec<String>; //~ every method of a service returns a `Result` whose error is `From<ServiceError>`
}

#[service("ui/exclusive")]
trait Exclusive {
    fn change(&mut self) -> Result<(), ServiceError>; //~ a service is shared by everyone who needs it: take `&self`
}

#[service("ui/borrows")]
trait Borrows {
    fn text(&self) -> Result<&str, ServiceError>; //~ return owned data, or an `Arc`, instead of a borrow from the service
}

#[service("ui/generic")]
trait Generic {
    fn run<T>(&self, value: T) -> Result<(), ServiceError>; //~ so its methods have no type parameters
}

#[service("ui/constant")]
trait Constant {
    const N: u32; //~ a service is used as `dyn Trait`, so it has no constants: make it a method
}

#[provider]
struct Provider; //~ `#[provider]` goes on the `impl` of a service's trait

fn main() {}
