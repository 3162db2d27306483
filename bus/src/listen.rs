//! What may listen: the shapes of closures and methods, what they may answer, and how they are stored.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Context as TaskContext;

use crate::dispatch::Next;
use crate::event::{Bail, Emit, Event, Mode, Parallel, Serial, Waterfall};
use crate::fault::Fault;
use crate::hook::{Hook, HookControl, HookHead};
use crate::pool::{self, Finish, FreeLists, Panicked, Started};

/// What one listener said: nothing, an answer, or a fault.
pub(crate) type Outcome<E> = Result<Option<<E as Event>::Output>, Fault>;

/// A stored listener of a synchronous event.
#[doc(hidden)]
pub trait Call<E: Event>: HookControl {
    fn call(&self, event: &E) -> Outcome<E>;
}

/// A stored listener of a serial or parallel event.
#[doc(hidden)]
pub trait Start<E: Event>: HookControl {
    fn start<'a>(&'a self, event: &'a E, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E>;
}

/// A stored listener of a waterfall event.
#[doc(hidden)]
pub trait Layer<E: Event>: HookControl {
    fn start<'a>(&'a self, event: &'a E, next: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E>;
}

/// How far a listener got at its first poll.
#[doc(hidden)]
pub struct Begun<'a, E: Event>(pub(crate) Started<'a, Outcome<E>>);

/// How a listener's answer was written: plain, or as a `Result`.
#[doc(hidden)]
pub(crate) mod answer {
    #[derive(Debug)]
    pub enum Plain {}
    #[derive(Debug)]
    pub enum Fallible {}
}
use answer::{Fallible, Plain};

/// That a listener of `E` may answer `R`, plainly or as a `Result`. Implemented by the mode of the event.
#[diagnostic::on_unimplemented(
    message = "a listener of `{E}` cannot answer `{R}`",
    label = "wrong answer",
    note = "listeners answer by mode: Emit and Parallel => `()` or `Result<(), _>`; Bail and Serial => `Option<Output>` or `Result<Option<Output>, _>`; Waterfall => `Output` or `Result<Output, _>`, where `_` is a `Fault` or any error"
)]
pub trait Answers<E: Event, R, K>: Mode {
    #[doc(hidden)]
    fn outcome(answer: R) -> Outcome<E>;
}

/// That the type which listeners of `E` answer is `R`. Every type is itself alone; the trait exists for what the compiler
/// says when another was written. The expected type comes first, so that `R` is inferred from it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a listener of `{E}` cannot answer `{R}`: answer `{Self}`, or a `Result` of it",
    label = "wrong answer",
    note = "listeners answer by mode: Emit and Parallel => `()` or `Result<(), _>`; Bail and Serial => `Option<Output>` or `Result<Option<Output>, _>`; Waterfall => `Output` or `Result<Output, _>`, where `_` is a `Fault` or any error"
)]
pub trait AnsweredAs<E, R>: Sized {
    fn answer(answer: R) -> Self;
}
impl<E, T> AnsweredAs<E, T> for T {
    #[inline(always)]
    fn answer(answer: T) -> T {
        answer
    }
}

/// Nothing can be answered, so whoever listens says nothing.
impl<E> AnsweredAs<E, ()> for Option<std::convert::Infallible> {
    #[inline(always)]
    fn answer((): ()) -> Self {
        None
    }
}

macro_rules! answers {
    ($mode:ty: $answer:ty => $some:expr) => {
        impl<E: Event, R> Answers<E, R, Plain> for $mode
        where
            $answer: AnsweredAs<E, R>,
        {
            #[inline(always)]
            fn outcome(answer: R) -> Outcome<E> {
                Ok($some(<$answer>::answer(answer)))
            }
        }
        impl<E: Event, R, X: Into<Fault>> Answers<E, Result<R, X>, Fallible> for $mode
        where
            $answer: AnsweredAs<E, R>,
        {
            #[inline(always)]
            fn outcome(answer: Result<R, X>) -> Outcome<E> {
                answer.map(|it| $some(<$answer>::answer(it))).map_err(Into::into)
            }
        }
    };
}
answers!(Emit: () => |()| None);
answers!(Parallel: () => |()| None);
answers!(Bail: Option<E::Output> => std::convert::identity);
answers!(Serial: Option<E::Output> => std::convert::identity);
answers!(Waterfall: E::Output => Some);

/// Turns an answer of type `R` into an outcome of `E`.
pub(crate) struct FinishAs<E, R, K>(PhantomData<E>, PhantomData<fn(R, K)>);

impl<E: Event, R, K> Finish<R> for FinishAs<E, R, K>
where
    E::Mode: Answers<E, R, K>,
{
    type Output = Outcome<E>;
    #[inline(always)]
    fn finish(answer: R) -> Outcome<E> {
        <E::Mode as Answers<E, R, K>>::outcome(answer)
    }
    #[cold]
    fn panicked(panic: Panicked) -> Outcome<E> {
        Err(Fault::panicked(panic))
    }
}

/// Starts one asynchronous listener where the type of its future is known. Handed to the code that [`listener!`](crate::listener) writes.
#[doc(hidden)]
pub struct Starter<'a, 'c, 'w, E> {
    cx: &'c mut TaskContext<'w>,
    free: &'c FreeLists,
    event: PhantomData<&'a E>,
}

impl<'a, 'c, 'w, E: Event> Starter<'a, 'c, 'w, E> {
    #[inline]
    pub(crate) fn new(cx: &'c mut TaskContext<'w>, free: &'c FreeLists) -> Self {
        Self { cx, free, event: PhantomData }
    }

    #[inline]
    pub fn run<Fut, K>(self, make: impl FnOnce() -> Fut) -> Begun<'a, E>
    where
        Fut: Future + Send + 'a, // crosses threads: `Arc` for `Rc`, `Mutex` for `Cell`; drop the rest before `.await`
        E::Mode: Answers<E, Fut::Output, K>,
    {
        Begun(pool::start::<Fut, FinishAs<E, Fut::Output, K>>(self.free, make, self.cx))
    }
}

#[inline]
fn ready<'a, E: Event>(call: impl FnOnce() -> Outcome<E>) -> Begun<'a, E> {
    Begun(Started::Ready(pool::guarded(call).unwrap_or_else(|panic| Err(Fault::panicked(panic)))))
}

/// What a body needs to be to be stored for an event of some mode.
#[doc(hidden)]
pub trait SyncBody<E: Event>: Send + Sync + 'static {
    fn call(&self, event: &E) -> Outcome<E>;
}
#[doc(hidden)]
pub trait AsyncBody<E: Event>: Send + Sync + 'static {
    fn start<'a>(&'a self, event: &'a E, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E>;
}
#[doc(hidden)]
pub trait LayerBody<E: Event>: Send + Sync + 'static {
    fn start<'a>(&'a self, event: &'a E, next: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E>;
}

impl<E: Event, L: SyncBody<E>> Call<E> for Hook<L> {
    #[inline]
    fn call(&self, event: &E) -> Outcome<E> {
        pool::guarded(|| self.body.call(event)).unwrap_or_else(|text| Err(Fault::panicked(text)))
    }
}

/// The three bodies as hooks; wrappers, since one closure may be stored in more than one way.
#[doc(hidden)]
pub(crate) struct AsSync<L>(L);
#[doc(hidden)]
pub(crate) struct AsAsync<L>(L);
#[doc(hidden)]
pub(crate) struct AsLayer<L>(L);

impl<E: Event, L: SyncBody<E>> Start<E> for Hook<AsSync<L>> {
    fn start<'a>(&'a self, event: &'a E, _: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        ready(|| self.body.0.call(event))
    }
}
impl<E: Event, L: SyncBody<E>> Layer<E> for Hook<AsSync<L>> {
    fn start<'a>(&'a self, event: &'a E, _: Next<'a, E>, _: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        ready(|| self.body.0.call(event))
    }
}
impl<E: Event, L: AsyncBody<E>> Start<E> for Hook<AsAsync<L>> {
    #[inline]
    fn start<'a>(&'a self, event: &'a E, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        self.body.0.start(event, starter)
    }
}
impl<E: Event, L: AsyncBody<E>> Layer<E> for Hook<AsAsync<L>> {
    fn start<'a>(&'a self, event: &'a E, _: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        self.body.0.start(event, starter)
    }
}
impl<E: Event, L: LayerBody<E>> Layer<E> for Hook<AsLayer<L>> {
    #[inline]
    fn start<'a>(&'a self, event: &'a E, next: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        self.body.0.start(event, next, starter)
    }
}

pub(crate) type Stored<E> = Arc<<<E as Event>::Mode as Mode>::Object<E>>;

/// That events of a mode may have listeners that are plain functions: all of them.
#[doc(hidden)]
pub trait StoresSync<E: Event>: Mode {
    fn sync<L: SyncBody<E>>(head: HookHead, body: L) -> Arc<Self::Object<E>>;
}
/// That events of a mode may have asynchronous listeners.
#[diagnostic::on_unimplemented(
    message = "`{E}` is dispatched synchronously: its listeners cannot be `async`",
    label = "asynchronous listener",
    note = "a listener of an {Self} event is a plain closure `|e: &{E}| ..` or method; to wait for something, start a task with `ctx.spawn(..)`"
)]
#[doc(hidden)]
pub trait StoresAsync<E: Event>: Mode {
    fn asynchronous<L: AsyncBody<E>>(head: HookHead, body: L) -> Arc<Self::Object<E>>;
}
/// That events of a mode have a `next`.
#[diagnostic::on_unimplemented(
    message = "listeners of `{E}` get no `next`: its mode is `{Self}`",
    label = "only listeners of Waterfall events take `next`",
    note = "write `|e: &{E}| ..` or `async |e: &{E}| ..`"
)]
#[doc(hidden)]
pub trait StoresLayer<E: Event>: Mode {
    fn layer<L: LayerBody<E>>(head: HookHead, body: L) -> Arc<Self::Object<E>>;
}

macro_rules! stores {
    ($($mode:ty: $sync:expr;)*) => {$(
        impl<E: Event> StoresSync<E> for $mode {
            fn sync<L: SyncBody<E>>(head: HookHead, body: L) -> Arc<Self::Object<E>> {
                Arc::new(Hook::new(head, $sync(body)))
            }
        }
    )*};
    (async $($mode:ty)*) => {$(
        impl<E: Event> StoresAsync<E> for $mode {
            fn asynchronous<L: AsyncBody<E>>(head: HookHead, body: L) -> Arc<Self::Object<E>> {
                Arc::new(Hook::new(head, AsAsync(body)))
            }
        }
    )*};
}
stores! { Emit: std::convert::identity; Bail: std::convert::identity; Serial: AsSync; Parallel: AsSync; Waterfall: AsSync; }
stores! { async Serial Parallel Waterfall }
impl<E: Event> StoresLayer<E> for Waterfall {
    fn layer<L: LayerBody<E>>(head: HookHead, body: L) -> Arc<Self::Object<E>> {
        Arc::new(Hook::new(head, AsLayer(body)))
    }
}

/// The shapes a listener may have; inferred, never named by an author.
#[doc(hidden)]
pub(crate) mod shape {
    #[derive(Debug)]
    pub enum Plain {}
    #[derive(Debug)]
    pub enum Async {}
    #[derive(Debug)]
    pub enum Wrap {}
    #[derive(Debug)]
    pub enum Captured {}
    #[derive(Debug)]
    pub enum CapturedWrap {}
}

/// The shape of what is given to [`Context::on`](crate::Context::on), asked for before anything is said about the event's
/// mode and about `Send`: it settles the event and the shape, so that every further question has one answer and the compiler
/// can say what is wrong.
#[diagnostic::on_unimplemented(
    message = "this is no listener",
    label = "not a listener",
    note = "by the event's mode: Emit `|e: &E| ..`; Bail `|e: &E| Some(answer)` or `None`; Serial `async |e: &E| Some(answer)`; Parallel `async |e: &E| ..`; Waterfall `async |e: &E, next: Next<'_, E>| next.run().await`",
    note = "write the payload's type at the argument, as a reference: `|e: &E| ..`; an async closure that captures its surroundings goes into `listener!(async move |e: &E| ..)`, or becomes a method: `ctx.on_with(&state, State::method)`"
)]
pub trait ListenerOf<E, M> {}

impl<E, R, K, F: Fn(&E) -> R> ListenerOf<E, (shape::Plain, R, K)> for F {}
impl<E, R, K, F: for<'a> AnyFn1<'a, E, R>> ListenerOf<E, (shape::Async, R, K)> for F {}
impl<E: Event, R, K, F: for<'a> AnyFn1Next<'a, E, R>> ListenerOf<E, (shape::Wrap, R, K)> for F {}
impl<E, F, S> ListenerOf<E, shape::Captured> for Captured<E, F, S> {}
impl<E, F, S> ListenerOf<E, shape::CapturedWrap> for CapturedWrap<E, F, S> {}

/// Whatever of a certain shape may be given to [`Context::on`](crate::Context::on) as a listener of `E`.
#[diagnostic::on_unimplemented(
    message = "this is no listener",
    label = "not a listener",
    note = "by the event's mode: Emit `|e: &E| ..`; Bail `|e: &E| Some(answer)` or `None`; Serial `async |e: &E| Some(answer)`; Parallel `async |e: &E| ..`; Waterfall `async |e: &E, next: Next<'_, E>| next.run().await`",
    note = "write the payload's type at the argument, as a reference: `|e: &E| ..`; an async closure that captures its surroundings goes into `listener!(async move |e: &E| ..)`, or becomes a method: `ctx.on_with(&state, State::method)`"
)]
pub trait IntoListener<E, M>: ListenerOf<E, M> + Sized {
    #[doc(hidden)]
    fn store(self, head: HookHead) -> Stored<E>
    where
        E: Event;
}

/// A function of one borrowed argument that returns a future borrowing it. An async closure that captures is none: it can be
/// called, but not through a shared reference.
#[doc(hidden)]
pub trait AnyFn1<'a, E: 'a, R>: Fn(&'a E) -> Self::Fut {
    type Fut: Future<Output = R> + 'a;
}
// Not recommended, so that the compiler reports the listener, with its notes, and not the `Fn` behind it.
#[diagnostic::do_not_recommend]
impl<'a, E: 'a, R, F, Fut> AnyFn1<'a, E, R> for F
where
    F: Fn(&'a E) -> Fut,
    Fut: Future<Output = R> + 'a,
{
    type Fut = Fut;
}
/// The same with a future that may move to another thread.
#[doc(hidden)]
pub trait Fn1<'a, E: 'a, R>: AnyFn1<'a, E, R, Fut = Self::SendFut> {
    type SendFut: Future<Output = R> + Send + 'a;
}
impl<'a, E: 'a, R, F, Fut> Fn1<'a, E, R> for F
where
    F: AnyFn1<'a, E, R, Fut = Fut>,
    Fut: Future<Output = R> + Send + 'a,
{
    type SendFut = Fut;
}
#[doc(hidden)]
pub trait AnyFn1Next<'a, E: Event, R>: Fn(&'a E, Next<'a, E>) -> Self::Fut {
    type Fut: Future<Output = R> + 'a;
}
#[diagnostic::do_not_recommend]
impl<'a, E: Event, R, F, Fut> AnyFn1Next<'a, E, R> for F
where
    F: Fn(&'a E, Next<'a, E>) -> Fut,
    Fut: Future<Output = R> + 'a,
{
    type Fut = Fut;
}
#[doc(hidden)]
pub trait Fn1Next<'a, E: Event, R>: AnyFn1Next<'a, E, R, Fut = Self::SendFut> {
    type SendFut: Future<Output = R> + Send + 'a;
}
impl<'a, E: Event, R, F, Fut> Fn1Next<'a, E, R> for F
where
    F: AnyFn1Next<'a, E, R, Fut = Fut>,
    Fut: Future<Output = R> + Send + 'a,
{
    type SendFut = Fut;
}
#[doc(hidden)]
pub trait Fn2<'a, S: 'a, E: 'a, R>: Fn(&'a S, &'a E) -> Self::Fut {
    type Fut: Future<Output = R> + Send + 'a;
}
impl<'a, S: 'a, E: 'a, R, F, Fut> Fn2<'a, S, E, R> for F
where
    F: Fn(&'a S, &'a E) -> Fut,
    Fut: Future<Output = R> + Send + 'a,
{
    type Fut = Fut;
}
#[doc(hidden)]
pub trait Fn2Next<'a, S: 'a, E: Event, R>: Fn(&'a S, &'a E, Next<'a, E>) -> Self::Fut {
    type Fut: Future<Output = R> + Send + 'a;
}
impl<'a, S: 'a, E: Event, R, F, Fut> Fn2Next<'a, S, E, R> for F
where
    F: Fn(&'a S, &'a E, Next<'a, E>) -> Fut,
    Fut: Future<Output = R> + Send + 'a,
{
    type Fut = Fut;
}

/// A closure or function with the way it answers.
struct Plainly<F, R, K>(F, PhantomData<fn() -> (R, K)>);

impl<E, F, R, K> SyncBody<E> for Plainly<F, R, K>
where
    F: Fn(&E) -> R + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K>,
    R: 'static,
    K: 'static,
{
    #[inline]
    fn call(&self, event: &E) -> Outcome<E> {
        <E::Mode as Answers<E, R, K>>::outcome((self.0)(event))
    }
}
impl<E, F, R, K> AsyncBody<E> for Plainly<F, R, K>
where
    F: for<'a> Fn1<'a, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K>,
    R: 'static,
    K: 'static,
{
    #[inline]
    fn start<'a>(&'a self, event: &'a E, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        starter.run(|| (self.0)(event))
    }
}
impl<E, F, R, K> LayerBody<E> for Plainly<F, R, K>
where
    F: for<'a> Fn1Next<'a, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K>,
    R: 'static,
    K: 'static,
{
    #[inline]
    fn start<'a>(&'a self, event: &'a E, next: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        starter.run(|| (self.0)(event, next))
    }
}

impl<E, R: 'static, K: 'static, F> IntoListener<E, (shape::Plain, R, K)> for F
where
    F: Fn(&E) -> R + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K> + StoresSync<E>,
{
    fn store(self, head: HookHead) -> Stored<E> {
        <E::Mode as StoresSync<E>>::sync(head, Plainly(self, PhantomData))
    }
}
impl<E, R: 'static, K: 'static, F> IntoListener<E, (shape::Async, R, K)> for F
where
    F: for<'a> Fn1<'a, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K> + StoresAsync<E>,
{
    fn store(self, head: HookHead) -> Stored<E> {
        <E::Mode as StoresAsync<E>>::asynchronous(head, Plainly(self, PhantomData))
    }
}
impl<E, R: 'static, K: 'static, F> IntoListener<E, (shape::Wrap, R, K)> for F
where
    F: for<'a> Fn1Next<'a, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K> + StoresLayer<E>,
{
    fn store(self, head: HookHead) -> Stored<E> {
        <E::Mode as StoresLayer<E>>::layer(head, Plainly(self, PhantomData))
    }
}

/// A method and the state it is called on; what [`Context::on_with`](crate::Context::on_with) registers.
struct With<S, F> {
    state: Arc<S>,
    method: F,
}
struct WithPlainly<S, F, R, K>(With<S, F>, PhantomData<fn() -> (R, K)>);

impl<E, S, F, R, K> SyncBody<E> for WithPlainly<S, F, R, K>
where
    S: Send + Sync + 'static,
    F: Fn(&S, &E) -> R + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K>,
    R: 'static,
    K: 'static,
{
    #[inline]
    fn call(&self, event: &E) -> Outcome<E> {
        <E::Mode as Answers<E, R, K>>::outcome((self.0.method)(&self.0.state, event))
    }
}
impl<E, S, F, R, K> AsyncBody<E> for WithPlainly<S, F, R, K>
where
    S: Send + Sync + 'static,
    F: for<'a> Fn2<'a, S, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K>,
    R: 'static,
    K: 'static,
{
    #[inline]
    fn start<'a>(&'a self, event: &'a E, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        starter.run(|| (self.0.method)(&self.0.state, event))
    }
}
impl<E, S, F, R, K> LayerBody<E> for WithPlainly<S, F, R, K>
where
    S: Send + Sync + 'static,
    F: for<'a> Fn2Next<'a, S, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K>,
    R: 'static,
    K: 'static,
{
    #[inline]
    fn start<'a>(&'a self, event: &'a E, next: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        starter.run(|| (self.0.method)(&self.0.state, event, next))
    }
}

/// Whatever method of a certain shape may be given to [`Context::on_with`](crate::Context::on_with) as a listener of `E`.
#[diagnostic::on_unimplemented(
    message = "this method is no listener for `{E}`",
    label = "not a listener for `{E}`",
    note = "by the event's mode: Emit `fn (&self, e: &E)`; Bail `fn (&self, e: &E) -> Option<Answer>`; Serial `async fn (&self, e: &E) -> Option<Answer>`; Parallel `async fn (&self, e: &E)`; Waterfall `async fn (&self, e: &E, next: Next<'_, E>) -> Output`"
)]
pub trait IntoMethod<S, E, M>: MethodOf<S, E, M> + Sized {
    #[doc(hidden)]
    fn store(self, state: Arc<S>, head: HookHead) -> Stored<E>
    where
        E: Event;
}

impl<E, S, R: 'static, K: 'static, F> IntoMethod<S, E, (shape::Plain, R, K)> for F
where
    S: Send + Sync + 'static,
    F: Fn(&S, &E) -> R + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K> + StoresSync<E>,
{
    fn store(self, state: Arc<S>, head: HookHead) -> Stored<E> {
        let body = WithPlainly(With { state, method: self }, PhantomData);
        <E::Mode as StoresSync<E>>::sync(head, body)
    }
}
impl<E, S, R: 'static, K: 'static, F> IntoMethod<S, E, (shape::Async, R, K)> for F
where
    S: Send + Sync + 'static,
    F: for<'a> Fn2<'a, S, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K> + StoresAsync<E>,
{
    fn store(self, state: Arc<S>, head: HookHead) -> Stored<E> {
        let body = WithPlainly(With { state, method: self }, PhantomData);
        <E::Mode as StoresAsync<E>>::asynchronous(head, body)
    }
}
impl<E, S, R: 'static, K: 'static, F> IntoMethod<S, E, (shape::Wrap, R, K)> for F
where
    S: Send + Sync + 'static,
    F: for<'a> Fn2Next<'a, S, E, R> + Send + Sync + 'static,
    E: Event,
    E::Mode: Answers<E, R, K> + StoresLayer<E>,
{
    fn store(self, state: Arc<S>, head: HookHead) -> Stored<E> {
        let body = WithPlainly(With { state, method: self }, PhantomData);
        <E::Mode as StoresLayer<E>>::layer(head, body)
    }
}

/// The shape of a method, asked for before anything is said about `Send`: it settles the event and the shape, so that the
/// second question has one answer and the compiler can say which value is not `Send`.
#[diagnostic::on_unimplemented(
    message = "this method is no listener on `{S}`",
    label = "not a listener method of `{S}`",
    note = "by the event's mode: Emit `fn (&self, e: &E)`; Bail `fn (&self, e: &E) -> Option<Answer>`; Serial `async fn (&self, e: &E) -> Option<Answer>`; Parallel `async fn (&self, e: &E)`; Waterfall `async fn (&self, e: &E, next: Next<'_, E>) -> Output`"
)]
pub trait MethodOf<S, E, M> {}

#[doc(hidden)]
pub trait AnyFn2<'a, S: 'a, E: 'a, R>: Fn(&'a S, &'a E) -> Self::Fut {
    type Fut: Future<Output = R> + 'a;
}
impl<'a, S: 'a, E: 'a, R, F, Fut> AnyFn2<'a, S, E, R> for F
where
    F: Fn(&'a S, &'a E) -> Fut,
    Fut: Future<Output = R> + 'a,
{
    type Fut = Fut;
}
#[doc(hidden)]
pub trait AnyFn2Next<'a, S: 'a, E: Event, R>: Fn(&'a S, &'a E, Next<'a, E>) -> Self::Fut {
    type Fut: Future<Output = R> + 'a;
}
impl<'a, S: 'a, E: Event, R, F, Fut> AnyFn2Next<'a, S, E, R> for F
where
    F: Fn(&'a S, &'a E, Next<'a, E>) -> Fut,
    Fut: Future<Output = R> + 'a,
{
    type Fut = Fut;
}

impl<S, E, R, K, F: Fn(&S, &E) -> R> MethodOf<S, E, (shape::Plain, R, K)> for F {}
impl<S: 'static, E, R, K, F: for<'a> AnyFn2<'a, S, E, R>> MethodOf<S, E, (shape::Async, R, K)> for F {}
impl<S: 'static, E: Event, R, K, F: for<'a> AnyFn2Next<'a, S, E, R>> MethodOf<S, E, (shape::Wrap, R, K)> for F {}

/// An async closure that captures, with the code that starts it. Written by [`listener!`](crate::listener).
#[doc(hidden)]
pub struct Captured<E, F, S> {
    closure: F,
    shim: S,
    event: PhantomData<fn(&E)>,
}

#[doc(hidden)]
pub fn captured<E, F, S>(closure: F, shim: S) -> Captured<E, F, S>
where
    E: Event,
    S: for<'a> Fn(&'a F, &'a E, Starter<'a, '_, '_, E>) -> Begun<'a, E>,
{
    Captured { closure, shim, event: PhantomData }
}

#[doc(hidden)]
pub struct CapturedWrap<E, F, S>(Captured<E, F, S>);

#[doc(hidden)]
pub fn captured_wrap<E, F, S>(closure: F, shim: S) -> CapturedWrap<E, F, S>
where
    E: Event,
    S: for<'a> Fn(&'a F, &'a E, Next<'a, E>, Starter<'a, '_, '_, E>) -> Begun<'a, E>,
{
    CapturedWrap(Captured { closure, shim, event: PhantomData })
}

impl<E, F, S> AsyncBody<E> for Captured<E, F, S>
where
    E: Event,
    F: Send + Sync + 'static,
    S: for<'a> Fn(&'a F, &'a E, Starter<'a, '_, '_, E>) -> Begun<'a, E> + Send + Sync + 'static,
{
    #[inline]
    fn start<'a>(&'a self, event: &'a E, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        (self.shim)(&self.closure, event, starter)
    }
}
impl<E, F, S> LayerBody<E> for CapturedWrap<E, F, S>
where
    E: Event,
    F: Send + Sync + 'static,
    S: for<'a> Fn(&'a F, &'a E, Next<'a, E>, Starter<'a, '_, '_, E>) -> Begun<'a, E> + Send + Sync + 'static,
{
    #[inline]
    fn start<'a>(&'a self, event: &'a E, next: Next<'a, E>, starter: Starter<'a, '_, '_, E>) -> Begun<'a, E> {
        (self.0.shim)(&self.0.closure, event, next, starter)
    }
}

impl<E, F, S> IntoListener<E, shape::Captured> for Captured<E, F, S>
where
    Self: AsyncBody<E>,
    E: Event,
    E::Mode: StoresAsync<E>,
{
    fn store(self, head: HookHead) -> Stored<E> {
        <E::Mode as StoresAsync<E>>::asynchronous(head, self)
    }
}
impl<E, F, S> IntoListener<E, shape::CapturedWrap> for CapturedWrap<E, F, S>
where
    Self: LayerBody<E>,
    E: Event,
    E::Mode: StoresLayer<E>,
{
    fn store(self, head: HookHead) -> Stored<E> {
        <E::Mode as StoresLayer<E>>::layer(head, self)
    }
}

/// An async closure that captures its surroundings, as a listener.
///
/// ```
/// use std::sync::Arc;
/// use linn_bus::{Context, Event, Next, listener};
///
/// #[derive(Event)]
/// #[event(name = "doc/greet", mode = Waterfall, output = String)]
/// struct Greet;
///
/// async fn polite(ctx: &Context) -> Result<(), linn_bus::BusError> {
///     let word = Arc::new("please".to_owned());
///     ctx.on(listener!(async move |_: &Greet, next: Next<'_, Greet>| {
///         Ok::<_, linn_bus::Fault>(format!("{}, {word}", next.run().await?))
///     }))?;
///     Ok(())
/// }
/// ```
#[macro_export]
macro_rules! listener {
    (async move |$event:tt : & $E:ty $(,)?| $($body:tt)*) => {
        $crate::__private::captured::<$E, _, _>(
            async move |$event: &$E| $($body)*,
            |closure, event, starter| starter.run(|| closure(event)),
        )
    };
    (async move |$event:tt : & $E:ty, $next:tt : $N:ty $(,)?| $($body:tt)*) => {
        $crate::__private::captured_wrap::<$E, _, _>(
            async move |$event: &$E, $next: $N| $($body)*,
            |closure, event, next, starter| starter.run(|| closure(event, next)),
        )
    };
    (async |$($rest:tt)*) => {
        ::core::compile_error!(
            "write `async move`: a listener outlives what is around it, so `listener!(async move |e: &E| ..)` takes it along"
        )
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "`listener!` takes an async closure with the types written out: `listener!(async move |e: &E| ..)`, in a waterfall `listener!(async move |e: &E, next: Next<'_, E>| ..)`; a closure that is not async goes to `on` as it is"
        )
    };
}
