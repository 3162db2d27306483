//! All commands of one plugin.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{join_all, select};
use futures_util::stream::FuturesUnordered;
use linn_bus::{Clock, Context, Fault, Ids, SeededIds};
use linn_process::{Marks, Process, Reach, Watch, family, send_all};
use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::config::ShellConfig;
use crate::environment::Environment;
use crate::system::group::Group;
use crate::system::{default_shell, own_environment};

/// The variable that marks what a call started.
pub(crate) const COOKIE: &str = "LINN_CALL";

/// All commands of one plugin. None outlives it.
pub(crate) struct House {
    pub(crate) ctx: Context,
    pub(crate) runtime: Handle,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) environment: Environment,
    pub(crate) shell: String,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) grace: Duration,
    pub(crate) drain: Duration,
    /// What stands in the environment of everything that was started here.
    mark: String,
    n_calls: AtomicU64,
    state: Mutex<State>,
    strayed: Notify,
}

#[derive(Default)]
struct State {
    /// Commands whose callers went.
    strays: Vec<Group>,
    /// What commands that exited left running.
    left: BTreeSet<Process>,
    /// Ends all of it should the harness be killed; there from the first command on.
    watch: Option<Watch>,
    is_closed: bool,
}

impl House {
    /// Opens the house: it ends what strays, and everything that is left when the plugin goes.
    pub(crate) fn open(ctx: &Context, config: ShellConfig) -> Result<Arc<Self>, Fault> {
        let runtime = Handle::try_current().map_err(|_| {
            let what = "commands run on a tokio runtime with I/O enabled, and this plugin starts outside of one";
            Fault::msg(what).with_code("NO_RUNTIME")
        })?;
        // Not the ids of the context: a run that is played again may go beside the one it plays, and must not end its
        // commands.
        let chance = SeededIds::from_entropy();
        let house = Arc::new(Self {
            ctx: ctx.clone(),
            runtime,
            clock: ctx.clock().clone(),
            environment: Environment::new(&config.environment),
            shell: config.shell.unwrap_or_else(|| default_shell().to_owned()),
            workspace: config.workspace,
            grace: Duration::from_millis(config.grace_ms),
            drain: Duration::from_millis(config.drain_ms),
            mark: format!("{:016x}{:016x}-", chance.next_u64(), chance.next_u64()),
            n_calls: AtomicU64::new(0),
            state: Mutex::default(),
            strayed: Notify::new(),
        });
        let closing = house.clone();
        ctx.effect("processes", |fx| fx.defer_async(async move { closing.close().await }))?;
        ctx.spawn(house.clone().keep())?;
        Ok(house)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mark for one call, and the variable that carries it: inside of what another harness started its mark stays there.
    pub(crate) fn mark_of_call(&self) -> (String, String) {
        let mark = format!("{}{}.", self.mark, self.n_calls.fetch_add(1, Ordering::Relaxed));
        let outer = own_environment().into_iter().find(|(name, _)| name == COOKIE);
        let outer = outer.and_then(|(_, value)| value.into_string().ok()).unwrap_or_default();
        let variable = format!("{outer}{mark}");
        (mark, variable)
    }

    /// Begins to watch what is started here, if nobody does yet. A runtime has to be entered.
    pub(crate) fn watch(&self) {
        let mut state = self.state();
        if state.watch.is_some() || state.is_closed {
            return;
        }
        match Watch::start(&self.mark) {
            Ok(watch) => state.watch = Some(watch),
            // Commands run all the same, and every end but a sudden one is as it was.
            Err(error) => self.ctx.logger().warn(format_args!(
                "what commands start would outlive a harness that is killed: the watch does not start: {error}"
            )),
        }
    }

    /// Keeps in mind what a command left running.
    pub(crate) fn leave(&self, left: BTreeSet<Process>) {
        self.state().left.extend(left);
    }

    /// Takes over a command whose caller went.
    fn stray(&self, mut group: Group) {
        let mut state = self.state();
        if state.is_closed {
            drop(state);
            // Nobody is there to wait for it: dropped, it is killed.
            return drop(group);
        }
        group.terminate();
        state.strays.push(group);
        drop(state);
        self.strayed.notify_one();
    }

    fn take_strays(self: &Arc<Self>) -> Vec<Leash> {
        let strays = std::mem::take(&mut self.state().strays);
        strays.into_iter().map(|group| Leash::new(self.clone(), group)).collect()
    }

    /// Ends what strays, as long as the plugin is there.
    async fn keep(self: Arc<Self>) {
        let mut ending = FuturesUnordered::new();
        loop {
            ending.extend(self.take_strays().into_iter().map(Leash::end));
            let strayed = std::pin::pin!(self.strayed.notified());
            if ending.is_empty() {
                strayed.await;
            } else {
                select(strayed, ending.next()).await;
            }
        }
    }

    /// Ends everything that was started here and runs still.
    async fn close(self: Arc<Self>) {
        let (strays, watch) = {
            let mut state = self.state();
            state.is_closed = true;
            (std::mem::take(&mut state.strays), state.watch.take())
        };
        self.end_all(strays).await;
        if let Some(watch) = watch {
            watch.end().await;
        }
    }

    async fn end_all(&self, strays: Vec<Group>) {
        let end = async |mut group: Group| group.end(&*self.clock, self.grace).await;
        join_all(strays.into_iter().map(end)).await;

        if self.n_calls.load(Ordering::Relaxed) == 0 {
            // To look through all processes takes longer than all the rest of an end.
            return;
        }
        let mut known = std::mem::take(&mut self.state().left);
        let mut find = || {
            known = family(&Marks { leader: None, cookie: &self.mark, known: &known, reach: Reach::All });
            known.clone()
        };
        let found = find();
        if found.is_empty() {
            return;
        }
        send_all(&found, Signal::TERM);
        send_all(&found, Signal::CONT);
        let pause = Duration::from_millis(20);
        let mut waited = Duration::ZERO;
        while waited < self.grace && !find().is_empty() {
            self.clock.sleep(pause).await;
            waited += pause;
        }
        for _ in 0..50 {
            let found = find();
            if found.is_empty() {
                return;
            }
            send_all(&found, Signal::KILL);
            self.clock.sleep(pause).await;
        }
    }
}

impl std::fmt::Debug for House {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("House").field("shell", &self.shell).finish_non_exhaustive()
    }
}

/// A command and whoever waits for it: when the waiter goes, the house takes the command over.
pub(crate) struct Leash {
    house: Arc<House>,
    group: Option<Group>,
}

impl Leash {
    pub(crate) fn new(house: Arc<House>, group: Group) -> Self {
        Self { house, group: Some(group) }
    }

    pub(crate) fn group(&mut self) -> &mut Group {
        self.group.as_mut().expect("a leash is let go of by value")
    }

    /// Lets go of a command that is over.
    pub(crate) fn release(mut self) {
        drop(self.group.take());
    }

    async fn end(mut self) {
        let house = self.house.clone();
        self.group().end(&*house.clock, house.grace).await;
        self.release();
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.house.stray(group);
        }
    }
}
