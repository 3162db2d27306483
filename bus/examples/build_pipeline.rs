//! A small build pipeline: steps, vetoes, cache and retries are plugins, and the pipeline knows none of them.
//!
//! `cargo run -p linn-bus --example build_pipeline`. Try it: veto a step with a listener on `MayRun`, for all targets
//! through `root`, or for the app alone through the context of a scope. `docs/bus.md` explains each word.
#![expect(clippy::print_stdout, reason = "an example that tells a story")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use linn_bus::{Context, Event, Fault, ListenerError, Next, Plugin, Root, ScopeKey, TokioRuntime};

/// What is built. Its key is the scope of every event about it.
struct Target {
    name: &'static str,
    key: ScopeKey,
}

/// Which steps does the target have? Each listener adds to what `next` says.
#[derive(Event)]
#[event(name = "build/plan", mode = Waterfall, output = Vec<&'static str>, subject = self.target.key)]
struct Plan {
    target: Arc<Target>,
}

/// May the step run? An answer is a veto, with its reason; `None` leaves it to the others.
#[derive(Event)]
#[event(name = "build/may-run", mode = Bail, output = String, subject = self.target.key)]
struct MayRun {
    target: Arc<Target>,
    step: &'static str,
}

/// The step runs. Listeners wrap it: before, instead of, or more than once.
#[derive(Event)]
#[event(name = "build/run", mode = Waterfall, output = String, subject = self.target.key)]
struct Run {
    target: Arc<Target>,
    step: &'static str,
}

/// The step is over.
#[derive(Event)]
#[event(name = "build/done", mode = Emit, subject = self.target.key)]
struct Done {
    target: Arc<Target>,
    step: &'static str,
    outcome: String,
}

/// Adds a step at the end of the plan. Mounted in a scope, it does so for one target.
struct AddStep(&'static str);
impl AddStep {
    async fn plan(&self, _: &Plan, next: Next<'_, Plan>) -> Result<Vec<&'static str>, ListenerError> {
        let mut steps = next.run().await?;
        steps.push(self.0);
        Ok(steps)
    }
}
impl Plugin for AddStep {
    const NAME: &'static str = "add-step";
    type Config = &'static str;
    type Needs = ();
    async fn start(ctx: &Context, step: &'static str, (): ()) -> Result<(), Fault> {
        ctx.on_with(&Arc::new(AddStep(step)), AddStep::plan)?;
        Ok(())
    }
}

/// Wraps every step: answers without `next` when the step ran before, and runs `next` again when it fails.
#[derive(Default)]
struct CacheAndRetry(Mutex<HashSet<(&'static str, &'static str)>>);
impl CacheAndRetry {
    async fn cache(&self, run: &Run, next: Next<'_, Run>) -> Result<String, ListenerError> {
        let key = (run.target.name, run.step);
        if self.0.lock().is_ok_and(|it| it.contains(&key)) {
            return Ok("up to date".to_owned());
        }
        let outcome = next.run().await?;
        self.0.lock().map(|mut it| it.insert(key)).ok();
        Ok(outcome)
    }
    async fn retry(&self, run: &Run, next: Next<'_, Run>) -> Result<String, ListenerError> {
        let first = next.run().await;
        let Err(error) = &first else { return first };
        println!("    {} failed, once more: {error:#}", run.step);
        next.run().await
    }
}
impl Plugin for CacheAndRetry {
    const NAME: &'static str = "cache-and-retry";
    type Config = ();
    type Needs = ();
    async fn start(ctx: &Context, (): (), (): ()) -> Result<(), Fault> {
        let state = Arc::new(Self::default());
        ctx.on_with(&state, Self::cache)?; // The first one registered is the outermost.
        ctx.on_with(&state, Self::retry)?;
        Ok(())
    }
}

/// The pipeline itself: plan, then for each step ask, run and tell.
async fn build(ctx: &Context, target: &Arc<Target>, runs: &AtomicU32) -> Result<(), Fault> {
    let steps = ctx.waterfall(&Plan { target: target.clone() }, async || vec!["compile"]).await?;
    println!("  {}: {}", target.name, steps.join(", "));
    for step in steps {
        let outcome = match ctx.bail(&MayRun { target: target.clone(), step })? {
            Some(reason) => format!("vetoed: {reason}"),
            None => {
                let work = async || match runs.fetch_add(1, Relaxed) {
                    1 => Err(Fault::msg("the disk was full")), // The second step ever run fails.
                    _ => Ok("done".to_owned()),
                };
                ctx.waterfall(&Run { target: target.clone(), step }, work).await?
            }
        };
        ctx.emit(&Done { target: target.clone(), step, outcome });
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fault> {
    let root = Root::new(TokioRuntime::seams());
    let [app, site] = ["app", "site"].map(|name| Arc::new(Target { name, key: root.new_scope_key() }));
    let runs = AtomicU32::new(0);
    root.on(|done: &Done| println!("    {:<8} {}", done.step, done.outcome))?;
    root.mount::<CacheAndRetry>(())?.running().await?;
    // Mounted first is outermost in a waterfall, so what it adds after `next` comes last.
    root.mount::<AddStep>("publish")?.running().await?;
    root.mount::<AddStep>("test")?.running().await?;
    // A plugin may be a function, and a listener a closure.
    let freeze = root.mount_fn("freeze", async |ctx: Context, (): ()| {
        ctx.on(|ask: &MayRun| (ask.step == "publish").then(|| "no publishing on a Friday".to_owned())).map(drop)
    })?;
    freeze.running().await?;
    // What goes through the context of a scope hears the events about its key only.
    let site_only = root.scope_for(&site.key)?;
    site_only.context().mount::<AddStep>("minify")?.running().await?;

    println!("first build: publishing is frozen, and the site alone has a step `minify`");
    build(&root, &app, &runs).await?;
    build(&root, &site, &runs).await?;
    freeze.dispose().await?;
    site_only.dispose().await?;
    println!("second build: the freeze and the scope of the site are disposed, so what they registered is gone");
    build(&root, &app, &runs).await?;
    build(&root, &site, &runs).await?;
    Ok(root.fiber().dispose().await?)
}
