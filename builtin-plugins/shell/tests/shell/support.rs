//! A harness on a real runtime, and a look at real processes.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use linn_bus::{BoxFuture, Clock, Fiber, Grace, Root, Seams, Svc, TokioRuntime};
use linn_plugin_shell::{ShellConfig, ShellPlugin};
use linn_services::interaction::InteractionPlugin;
use linn_services::shell::{OnOutput, Shell, ShellCommand, ShellOutput, ShellStream};
use linn_services::tools::{Tools, ToolsPlugin};
use tokio_util::sync::CancellationToken;

/// A time limit that is over when the test says so.
pub(crate) const HELD_S: u64 = 3600;

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The clock of the machine, but for sleeps of [`HELD_S`]: they end when `fire` is cancelled.
struct HeldClock {
    real: TokioRuntime,
    fire: CancellationToken,
}

impl Clock for HeldClock {
    fn now(&self) -> SystemTime {
        self.real.now()
    }
    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration == Duration::from_secs(HELD_S) {
            let fire = self.fire.clone();
            return Box::pin(async move { fire.cancelled().await });
        }
        self.real.sleep(duration)
    }
}

/// A harness with commands, tools and questions.
pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) plugin: Fiber,
    pub(crate) shell: Svc<dyn Shell>,
    pub(crate) tools: Svc<dyn Tools>,
    /// Ends the sleeps of [`HELD_S`].
    pub(crate) fire: CancellationToken,
}

/// Runs a test in a harness with the default config.
pub(crate) fn run(test: impl AsyncFnOnce(World)) {
    run_with(ShellConfig::default(), test);
}

/// Runs a test in a harness.
pub(crate) fn run_with(config: ShellConfig, test: impl AsyncFnOnce(World)) {
    on_root(async |root, fire| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        root.mount::<InteractionPlugin>(()).unwrap().running().await.unwrap();
        let plugin = root.mount::<ShellPlugin>(config).unwrap().fiber().clone();
        plugin.running().await.unwrap();
        let (shell, tools) = (root.get::<dyn Shell>().unwrap(), root.get::<dyn Tools>().unwrap());
        test(World { root, plugin, shell, tools, fire }).await;
    });
}

/// Runs a test on a root, and empties that.
pub(crate) fn on_root(test: impl AsyncFnOnce(Root, CancellationToken)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let fire = CancellationToken::new();
        let real = TokioRuntime::current();
        let clock = Arc::new(HeldClock { real, fire: fire.clone() });
        let grace = Grace { dispose: Duration::from_secs(2), ..Grace::default() };
        let root = Root::with_grace(Seams { clock, ..TokioRuntime::seams() }, grace);
        let (ctx, fiber) = (root.context().clone(), root.fiber().clone());
        ctx.within(LIMIT, test(root, fire)).await.expect("the test takes too long");
        fiber.dispose().await.unwrap();
    });
}

impl World {
    /// Runs a line to its end.
    pub(crate) async fn line(&self, line: &str) -> ShellOutput {
        self.shell.run(ShellCommand::line(line)).await.unwrap()
    }
}

/// What a command said so far.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    text: Arc<Mutex<Vec<u8>>>,
}

impl Heard {
    /// Has the command tell it of its standard output.
    pub(crate) fn listen(&self, command: ShellCommand) -> ShellCommand {
        let text = self.text.clone();
        let hear = move |stream, piece: &[u8]| {
            if stream == ShellStream::Stdout {
                text.lock().unwrap().extend_from_slice(piece);
            }
        };
        ShellCommand { on_output: Some(OnOutput::new(hear)), ..command }
    }

    /// The first lines, once they are there.
    pub(crate) async fn lines(&self, n: usize) -> Vec<String> {
        until(|| self.now().lines().count() >= n && self.now().ends_with('\n')).await;
        self.now().lines().map(str::to_owned).collect()
    }

    /// The process ids in the first lines, once they are there.
    pub(crate) async fn pids(&self, n: usize) -> Vec<i32> {
        self.lines(n).await.iter().map(|it| it.parse().unwrap()).collect()
    }

    fn now(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

/// Waits until the world is as wanted; the limit of the test ends it.
pub(crate) async fn until(mut wanted: impl FnMut() -> bool) {
    while !wanted() {
        tokio::task::yield_now().await;
    }
}

/// What was kept of standard output.
pub(crate) fn stdout(output: &ShellOutput) -> String {
    assert_eq!(output.stdout.omitted_bytes, 0);
    String::from_utf8(output.stdout.head.clone()).unwrap()
}

/// The state of a process: `R`, `S`, `Z`, or none if there is no such process.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

/// Whether a process runs.
pub(crate) fn runs(pid: i32) -> bool {
    state(pid).is_some_and(|it| !matches!(it, 'Z' | 'X'))
}

/// Whether nothing at all is left of a child of ours, also no zombie.
pub(crate) fn is_reaped(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Fails if one of them runs.
pub(crate) fn assert_none_run(pids: &[i32]) {
    let left: Vec<_> = pids.iter().filter(|it| runs(**it)).collect();
    assert!(left.is_empty(), "{left:?} of {pids:?} run");
}
