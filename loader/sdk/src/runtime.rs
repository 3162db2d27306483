//! A runtime of tokio that is the library's own: the library's copy of tokio does not know the one of the program.

use std::sync::{Mutex, MutexGuard, PoisonError};

use linn_bus::Fault;
use linn_bus::library::Runtime;
use tokio::runtime::{Builder, Handle};

/// Of this library, from when it is attached until it is detached.
static RUNTIME: Mutex<Option<tokio::runtime::Runtime>> = Mutex::new(None);

static REGISTERED: Runtime = Runtime { start, around, end };

linn_bus::library::register_runtime!(REGISTERED);

fn runtime() -> MutexGuard<'static, Option<tokio::runtime::Runtime>> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Result<(), Fault> {
    let mut runtime = runtime();
    if runtime.is_none() {
        let name = concat!(env!("CARGO_PKG_NAME"), " worker");
        let made = Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build();
        *runtime = Some(made?);
    }
    Ok(())
}

fn around(run: &mut dyn FnMut()) {
    let handle: Option<Handle> = runtime().as_ref().map(|it| it.handle().clone());
    let _inside = handle.as_ref().map(Handle::enter);
    run();
}

fn end() {
    // Outside of the lock: what is dropped with it may come here.
    let ended = runtime().take();
    if let Some(runtime) = ended {
        runtime.shutdown_background();
    }
}
