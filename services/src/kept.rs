//! What plugins hand over as trait objects, functions and streams, with its panics kept where it was made.
//!
//! A plugin may be part of a library, and a panic that leaves a library ends the process, whoever would catch it. So whatever
//! others call of a plugin is wrapped in functions that are made where the plugin is: the constructors here, and the methods
//! with which trait objects are registered, such as `register` of `dyn Llm`. None of them is a method of the service's trait,
//! so they are the library's own copy. Their results have no other way to come about.

mod agents;
mod contributions;
mod models;
mod subagents;

use std::fmt;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::Arc;

use linn_bus::{BoxFuture, Contained, Fault, contain, contain_now};

pub use agents::Setup;
pub(crate) use models::KeptStream;

/// Stands for a name whose code panicked.
const NAMELESS: &str = "panicked";

/// A trait object of a plugin that is safe to call from everywhere.
///
/// Its methods answer a panic with an error where they have one, and with the least that they can say where they have none.
pub struct Kept<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Kept<T> {
    /// The same without the sign that it is kept.
    pub(crate) fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T: ?Sized> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// Implements the trait of a trait object by calls of it that are contained. Also its drop is.
struct Keeps<T: ?Sized>(Arc<Contained<Arc<T>>>);

impl<T: ?Sized> Keeps<T> {
    fn new(it: Arc<T>) -> Self {
        Self(Arc::new(Contained::new(it)))
    }

    /// What `call` gives; nothing if it panics, of which the panic hook has told.
    fn ask<'a, R>(&'a self, call: impl FnOnce(&'a T) -> R) -> Option<R> {
        contain_now(|| call(&self.0)).ok()
    }

    /// The name that `call` gives.
    fn name<'a>(&'a self, call: impl FnOnce(&'a T) -> &'a str) -> &'a str {
        self.ask(call).unwrap_or(NAMELESS)
    }
}

/// The future that `make` makes; the fault if making or running it panics.
fn future<'a, R: Send + 'a>(
    make: impl FnOnce() -> BoxFuture<'a, R> + Send + 'a,
) -> impl Future<Output = Result<R, Fault>> + Send + 'a {
    contain(async move { Ok::<_, Fault>(make().await) })
}

/// A panic that was kept goes on as one, here: this is called in the copy of whoever called the plugin.
fn go_on<R>(outcome: Result<R, Fault>) -> R {
    outcome.unwrap_or_else(|panic| resume_unwind(Box::new(panic.to_string())))
}

/// A function of a plugin that is safe to call from everywhere. A panic of it is one of whoever calls it.
pub struct Function<A: ?Sized, R>(Arc<Wrapped<A, R>>);

type Wrapped<A, R> = dyn Fn(&A) -> Result<R, Fault> + Send + Sync;

impl<A: ?Sized + 'static, R: 'static> Function<A, R> {
    /// Wraps a function.
    pub fn new(function: impl Fn(&A) -> R + Send + Sync + 'static) -> Self {
        let function = Contained::new(function);
        Self(Arc::new(move |argument: &A| contain_now(|| function(argument))))
    }

    /// Calls it.
    pub fn call(&self, argument: &A) -> R {
        go_on(self.0(argument))
    }
}

impl<A: ?Sized, R> Clone for Function<A, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: ?Sized, R> fmt::Debug for Function<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_of_a_function_is_one_of_who_calls_it_with_the_same_words() {
        let halve = Function::<u8, u8>::new(|it| {
            assert_eq!(it % 2, 0, "{it} is odd");
            it / 2
        });
        assert_eq!(halve.call(&8), 4);
        let panic = catch_unwind(AssertUnwindSafe(|| halve.clone().call(&7))).unwrap_err();
        assert!(panic.downcast_ref::<String>().is_some_and(|it| it.contains("7 is odd")));
    }
}
