//! Memory for the futures of asynchronous listeners, and futures without their type.
//!
//! A listener's future is written into a block, polled there once, and erased only when it is pending. Blocks come from
//! small lists, one a thread and size, so that a dispatch whose listeners are ready allocates nothing.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

use crate::around;

/// Block sizes; every block is aligned to [`ALIGN`].
const CLASSES: [usize; 6] = [64, 128, 256, 512, 1024, 2048];
const ALIGN: usize = 64;
/// Free blocks a thread keeps of one size.
const KEPT: u32 = 64;

struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

/// The free blocks of one size.
struct List {
    first: Cell<Option<NonNull<FreeBlock>>>,
    /// How many more there is room for.
    room: Cell<u32>,
}

/// The free blocks of one thread.
pub(crate) struct FreeLists([List; CLASSES.len()]);

impl FreeLists {
    const fn with_room(room: u32) -> Self {
        let mut lists = [const { List { first: Cell::new(None), room: Cell::new(0) } }; CLASSES.len()];
        let mut class = 0;
        while class < CLASSES.len() {
            lists[class].room = Cell::new(room);
            class += 1;
        }
        Self(lists)
    }
}

thread_local! {
    static FREE: FreeLists = const { FreeLists::with_room(KEPT) };
}

/// For threads that are ending and have no lists any more: nothing is on it and nothing ever gets there.
static NOTHING: Nothing = Nothing(FreeLists::with_room(0));
struct Nothing(FreeLists);
// SAFETY: without room and without blocks, the lists are only read.
unsafe impl Sync for Nothing {}

impl Drop for FreeLists {
    fn drop(&mut self) {
        for (class, list) in self.0.iter().enumerate() {
            while let Some(block) = list.first.get() {
                // SAFETY: blocks on the list are owned by it and hold a `FreeBlock`, written by `put`.
                list.first.set(unsafe { block.as_ref() }.next);
                // SAFETY: a block of this class was allocated with this layout.
                unsafe { dealloc(block.as_ptr().cast(), class_layout(class)) };
            }
        }
    }
}

impl FreeLists {
    /// Runs `f` with the lists of this thread; with empty ones where the thread is ending.
    #[inline]
    pub(crate) fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
        let free = FREE.try_with(ptr::from_ref).unwrap_or(&raw const NOTHING.0);
        // SAFETY: the lists of a running thread stay where they are until it ends, which is not while it is in here; the
        // others are static.
        f(unsafe { &*free })
    }

    #[inline]
    fn take(&self, class: usize) -> Option<NonNull<u8>> {
        let List { first, room } = &self.0[class];
        let block = first.get()?;
        // SAFETY: a block on the list is owned by it and holds a `FreeBlock`.
        first.set(unsafe { block.as_ref() }.next);
        room.set(room.get() + 1);
        Some(block.cast())
    }

    /// # Safety
    ///
    /// `block` is of this class and not used afterwards.
    #[inline]
    unsafe fn put(&self, block: NonNull<u8>, class: usize) {
        let List { first, room } = &self.0[class];
        let Some(left) = room.get().checked_sub(1) else {
            // SAFETY: a block of this class was allocated with the layout of its class.
            unsafe { dealloc(block.as_ptr(), class_layout(class)) };
            return;
        };
        let block = block.cast::<FreeBlock>();
        // SAFETY: the block is ours, at least 64 bytes long and aligned to 64.
        unsafe { block.write(FreeBlock { next: first.get() }) };
        first.set(Some(block));
        room.set(left);
    }
}

const fn class_layout(class: usize) -> Layout {
    match Layout::from_size_align(CLASSES[class], ALIGN) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

#[inline]
const fn class_of(layout: Layout) -> Option<usize> {
    if layout.align() > ALIGN {
        return None;
    }
    let mut class = 0;
    while class < CLASSES.len() {
        if layout.size() <= CLASSES[class] {
            return Some(class);
        }
        class += 1;
    }
    None
}

#[inline]
fn take(free: &FreeLists, layout: Layout) -> NonNull<u8> {
    let Some(class) = class_of(layout) else { return allocate(layout) };
    free.take(class).unwrap_or_else(|| allocate(class_layout(class)))
}

#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    if layout.size() == 0 {
        return NonNull::without_provenance(layout.align().try_into().expect("an alignment is not zero"));
    }
    // SAFETY: the layout has a size.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
///
/// `block` came from [`take`] with the same layout and is not used afterwards.
#[inline]
unsafe fn give_back(free: &FreeLists, block: NonNull<u8>, layout: Layout) {
    match class_of(layout) {
        // SAFETY: by contract.
        Some(class) => unsafe { free.put(block, class) },
        None if layout.size() != 0 => {
            // SAFETY: blocks without a class come straight from `alloc` with this layout.
            unsafe { dealloc(block.as_ptr(), layout) };
        }
        None => {}
    }
}

/// A list of limited length in a pooled block.
pub(crate) struct Buffer<T> {
    first: NonNull<T>,
    length: usize,
    capacity: usize,
}

// SAFETY: it owns its values like a `Vec`.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T> Buffer<T> {
    pub(crate) fn new(free: &FreeLists, capacity: usize) -> Self {
        Self { first: take(free, Self::layout(capacity)).cast(), length: 0, capacity }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::array::<T>(capacity).expect("as many values as exist somewhere else")
    }

    /// Adds a value; panics when the list is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.length < self.capacity, "a list of limited length is full");
        // SAFETY: the block has room for `capacity` values, and this place is not in use.
        unsafe { self.first.add(self.length).write(value) };
        self.length += 1;
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: so many values were written.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.length).as_ref() }
    }
}

impl<T> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: so many values were written, and `&mut self` makes the access exclusive.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.length).as_mut() }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: the values are ours and not used afterwards. Should a drop panic, the block is lost and nothing else.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.length).drop_in_place() };
        // SAFETY: taken with this layout, and not used afterwards.
        FreeLists::with(|free| unsafe { give_back(free, self.first.cast(), Self::layout(self.capacity)) });
    }
}

/// What the panic of a listener said.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "the panic carried no text".to_owned()
    }
}

/// The text of a panic that was caught.
#[derive(Debug)]
pub(crate) struct Panicked(pub(crate) String);

/// Runs `f`; a panic in it becomes its text. Instantiated where the code behind `f` was built.
#[inline]
pub(crate) fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(|| around::inside(f))).map_err(panicked)
}

/// Not inlined: every listener has a copy of what is.
#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> Panicked {
    let text = Panicked(panic_text(&*payload));
    // A payload whose own drop panics must not get away either.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    text
}

struct Vtable<T: 'static> {
    poll: unsafe fn(NonNull<u8>, &mut Context<'_>) -> Poll<T>,
    drop: unsafe fn(&FreeLists, NonNull<u8>),
}

/// A pending future in a pooled block, without its type. A panic in it comes out as what its [`Finish`] makes of it.
pub(crate) struct ErasedFuture<'a, T: 'static> {
    block: NonNull<u8>,
    vtable: &'static Vtable<T>,
    lifetime: PhantomData<&'a mut ()>,
}

// SAFETY: made only from futures that are `Send`; the vtable is shared, immutable code.
unsafe impl<T> Send for ErasedFuture<'_, T> {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl<T> Sync for ErasedFuture<'_, T> {}

/// How far a future got at its first poll.
pub(crate) enum Started<'a, T: 'static> {
    Ready(T),
    Pending(ErasedFuture<'a, T>),
}

/// Maps the end of a future that is polled in place.
pub(crate) trait Finish<R> {
    type Output: 'static;
    fn finish(answer: R) -> Self::Output;
    fn panicked(panic: Panicked) -> Self::Output;
}

/// Writes the future that `make` returns into a block and polls it once.
#[inline]
pub(crate) fn start<'a, F, M>(
    free: &FreeLists,
    make: impl FnOnce() -> F,
    cx: &mut Context<'_>,
) -> Started<'a, M::Output>
where
    F: Future + Send + 'a,
    M: Finish<F::Output>,
{
    let layout = const { Layout::new::<F>() };
    let block = take(free, layout);
    // Whether the block holds a future that is not dropped yet.
    let mut holds = false;
    // One catch for the whole of it: making, polling and dropping are all code of the listener.
    let first = guarded(|| {
        let at = block.cast::<F>();
        let future = make();
        // SAFETY: the block has the layout of `F`, is ours, and stays where it is until the future is dropped.
        let polled = unsafe {
            at.write(future);
            holds = true;
            Pin::new_unchecked(&mut *at.as_ptr()).poll(cx)
        };
        if polled.is_ready() {
            holds = false;
            // SAFETY: written above, dropped once.
            unsafe { at.drop_in_place() };
        }
        // The answer is turned by code of the listener too.
        polled.map(M::finish)
    });
    match first {
        Ok(Poll::Pending) => Started::Pending(ErasedFuture {
            block,
            vtable: const { &Vtable { poll: poll_in_place::<F, M>, drop: drop_in_place::<F> } },
            lifetime: PhantomData,
        }),
        Ok(Poll::Ready(answer)) => {
            // SAFETY: the block is ours and holds nothing any more.
            unsafe { give_back(free, block, layout) };
            Started::Ready(answer)
        }
        Err(panic) => Started::Ready(M::panicked(after_panic::<F>(free, block, holds, panic))),
    }
}

/// Cleans up after a panic in [`start`]. The text of a second one, in the drop, has been seen by the panic hook; the first
/// one is the cause.
#[cold]
fn after_panic<F>(free: &FreeLists, block: NonNull<u8>, holds: bool, panic: Panicked) -> Panicked {
    let layout = const { Layout::new::<F>() };
    if holds {
        // SAFETY: the future was written and is dropped once, here.
        let _ = unsafe { drop_and_give_back::<F>(free, block, layout) };
    } else {
        // SAFETY: the block is ours and holds nothing.
        unsafe { give_back(free, block, layout) };
    }
    panic
}

/// # Safety
///
/// `block` holds an `F` written by [`start`]; neither is used afterwards.
unsafe fn drop_and_give_back<F>(free: &FreeLists, block: NonNull<u8>, layout: Layout) -> Result<(), Panicked> {
    let outcome = guarded(|| {
        // SAFETY: by contract.
        unsafe { block.cast::<F>().drop_in_place() }
    });
    // SAFETY: by contract; the future is gone, whether or not its drop panicked.
    unsafe { give_back(free, block, layout) };
    outcome
}

/// # Safety
///
/// `block` holds a live, pinned `F`.
unsafe fn poll_in_place<F, M>(block: NonNull<u8>, cx: &mut Context<'_>) -> Poll<M::Output>
where
    F: Future,
    M: Finish<F::Output>,
{
    // SAFETY: by contract; the block never moves.
    let future = unsafe { Pin::new_unchecked(block.cast::<F>().as_mut()) };
    match guarded(|| future.poll(cx).map(M::finish)) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(M::panicked(panic)),
    }
}

/// # Safety
///
/// `block` holds an `F` written by [`start`]; neither is used afterwards.
unsafe fn drop_in_place<F>(free: &FreeLists, block: NonNull<u8>) {
    // The text of a panic in a drop has nobody to go to but the panic hook, which has seen it.
    // SAFETY: by contract.
    let _ = unsafe { drop_and_give_back::<F>(free, block, const { Layout::new::<F>() }) };
}

impl<T> ErasedFuture<'_, T> {
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the block holds the future from `start` until `drop`, and `&mut self` makes the access exclusive.
        unsafe { (self.vtable.poll)(self.block, cx) }
    }
}

impl<T> ErasedFuture<'_, T> {
    /// Drops the future; its block goes to `free`.
    #[inline]
    pub(crate) fn give_back(self, free: &FreeLists) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the block holds the future, which nobody else can reach, and `this` is not dropped.
        unsafe { (this.vtable.drop)(free, this.block) }
    }
}

impl<T> Drop for ErasedFuture<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the block holds the future, which nobody else can reach.
        FreeLists::with(|free| unsafe { (self.vtable.drop)(free, self.block) });
    }
}
