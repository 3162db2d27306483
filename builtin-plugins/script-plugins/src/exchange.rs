//! One question to a script: JSON in, text out, within its limits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linn_bus::{Context, Fault, Ids, SeededIds};
use linn_services::secrets::secrets_of;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::Setting;
use crate::system::{NotRan, Run, Watched, is_in_path, run, working_folder};

/// How much a script is told, and how much it may tell on each output.
pub(crate) const LIMIT_BYTES: usize = 1024 * 1024;

/// What scripts find in their environment, as far as the harness has it.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "USER",
    "ENGRAPHIS_DB_PATH",
    "ENGRAPHIS_EMBED_MODEL",
    "ENGRAPHIS_EMBED_DIM",
    "ENGRAPHIS_EXTRACTOR",
    "ENGRAPHIS_WORKSPACES",
    "PYTHONPATH",
];

/// The variable with the providers of the harness, and their keys.
const PROVIDERS: &str = "UMANS_PROVIDERS";

/// The variable that names the shell for shell scripts.
const SHELL: &str = "CATALYST_CODE_SHELL";

/// A question to a script.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// What the script is, for the message that the input is too large.
    pub(crate) label: &'static str,
    pub(crate) script: PathBuf,
    pub(crate) input: Value,
    pub(crate) timeout: Duration,
    /// Variables that are passed on beside those of every script.
    pub(crate) environment: Vec<String>,
    pub(crate) signal: CancellationToken,
}

/// Why a script gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What it was to be told is too large; it was not run.
    TooLarge(&'static str),
    /// It could not be started, or wrote too much.
    Wait(String),
    TimedOut(Duration),
    /// It ended otherwise than with 0.
    Exited {
        status: String,
        /// What it exited with, if no signal ended it.
        code: Option<i32>,
        stderr: String,
    },
    /// It wrote nothing.
    Empty,
    /// Whoever asked does not want to know any more.
    Cancelled,
    /// Its folder is not what was trusted any more; it was not run.
    Changed,
    /// Its plugin went meanwhile.
    Gone,
}

impl Failure {
    /// In words; `who` is the script, such as `hook 'pre_bash'`.
    pub(crate) fn text(&self, who: &str) -> String {
        match self {
            Self::TooLarge(label) => format!("{label} input exceeds the {LIMIT_BYTES} byte limit"),
            Self::Wait(detail) => format!("{who} wait error: {detail}"),
            Self::TimedOut(timeout) => format!("{who} timed out after {}ms", timeout.as_millis()),
            Self::Exited { status, stderr, .. } => format!("{who} exited with {status}: {stderr}"),
            Self::Empty => format!("{who} returned empty stdout"),
            Self::Cancelled => format!("{who} was aborted"),
            Self::Changed => {
                format!(
                    "{who} was not run: the files of its plugin changed since they were trusted; reload and decide anew"
                )
            }
            Self::Gone => format!("{who} was not run: its plugin is gone"),
        }
    }
}

/// Asks scripts.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) ctx: Context,
    pub(crate) setting: Arc<Setting>,
    runtime: Handle,
    has_python3: bool,
    /// What stands in the environment of everything that is started here.
    mark: String,
    n_runs: AtomicU64,
    /// Ends all of it should the harness be killed.
    watched: Arc<Watched>,
}

impl Scripts {
    pub(crate) fn new(ctx: &Context, setting: Arc<Setting>) -> Result<Self, Fault> {
        let runtime = Handle::try_current().map_err(|_| {
            let what = "scripts run on a tokio runtime with I/O enabled, and this plugin starts outside of one";
            Fault::msg(what).with_code("NO_RUNTIME")
        })?;
        // Not the ids of the context: a run that is played again may go beside the one it plays, and must not end its
        // scripts.
        let chance = SeededIds::from_entropy();
        let watched = Arc::<Watched>::default();
        let ending = watched.clone();
        ctx.effect("watch over scripts", |fx| fx.defer_async(async move { ending.end().await }))?;
        let path = setting.environment.get(std::ffi::OsStr::new("PATH"));
        Ok(Self {
            ctx: ctx.clone(),
            runtime,
            has_python3: is_in_path(path, "python3"),
            setting,
            mark: format!("{:016x}{:016x}-", chance.next_u64(), chance.next_u64()),
            n_runs: AtomicU64::new(0),
            watched,
        })
    }

    /// Time of day, in whole seconds since 1970 UTC.
    pub(crate) fn now(&self) -> u64 {
        self.ctx.clock().now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Asks a script and gives what it wrote, without blanks around it. Its whole run, from start to last byte, is within
    /// its timeout, and nothing it started is left when this returns.
    ///
    /// Dropping the future kills the script and all it started.
    pub(crate) async fn ask(&self, question: Question, folder: &Path) -> Result<String, Failure> {
        let mut input = question.input;
        let (cwd, is_own) = working_folder(&[self.setting.workspace().unwrap_or(folder), folder]);
        if !is_own && let Some(input) = input.as_object_mut() {
            input.insert("cwd".to_owned(), cwd.display().to_string().into());
        }
        let stdin = input.to_string().into_bytes();
        if stdin.len() > LIMIT_BYTES {
            return Err(Failure::TooLarge(question.label));
        }
        let (program, arguments) = self.command(&question.script);
        let n = self.n_runs.fetch_add(1, Ordering::Relaxed);
        let call = Run {
            program,
            arguments,
            cwd,
            environment: self.environment(&question.environment).into_iter().collect(),
            stdin,
            timeout: question.timeout,
            limit_bytes: LIMIT_BYTES,
            signal: question.signal,
            mark: format!("{}{n}.", self.mark),
        };
        if let Err(error) = self.watched.begin(&self.runtime, &self.mark) {
            // Scripts run all the same, and every end but a sudden one is as it was.
            self.ctx.logger().warn(format_args!(
                "what scripts start would outlive a harness that is killed: the watch does not start: {error}"
            ));
        }
        let ran = run(self.ctx.clock(), &self.runtime, call).await.map_err(|why| match why {
            NotRan::Start(why) => {
                Failure::Wait(format!("failed to spawn script \"{}\": {why}", question.script.display()))
            }
            NotRan::TimedOut => Failure::TimedOut(question.timeout),
            NotRan::TooMuch(which) => Failure::Wait(format!("plugin {which} exceeds the {LIMIT_BYTES} byte limit")),
            NotRan::Cancelled => Failure::Cancelled,
        })?;
        let is_good = ran.status.is_some_and(|it| it.success());
        if !is_good {
            let status = ran.status.map_or("an unknown status".to_owned(), |it| it.to_string());
            let code = ran.status.and_then(|it| it.code());
            let stderr = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            return Err(Failure::Exited { status, code, stderr });
        }
        let text = String::from_utf8_lossy(&ran.stdout);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).trim();
        if text.is_empty() { Err(Failure::Empty) } else { Ok(text.to_owned()) }
    }

    fn environment(&self, more: &[String]) -> BTreeMap<OsString, OsString> {
        let secrets = secrets_of(&self.ctx);
        let value_of = |name: &str| self.setting.environment.get(std::ffi::OsStr::new(name)).cloned();
        let passed_on = PASSED_ON.iter().filter_map(|name| Some((OsString::from(name), value_of(name)?)));
        // What a manifest asks for by name, as long as nothing secret stands in it.
        let asked_for = more.iter().filter(|name| *name != PROVIDERS).filter_map(|name| {
            let value = value_of(name).filter(|it| !secrets.is_in(&it.to_string_lossy()))?;
            Some((OsString::from(name), value))
        });
        let found = passed_on.chain(asked_for);
        let mut environment: BTreeMap<OsString, OsString> = found.collect();
        // What Python would write beside the scripts would change what was trusted.
        environment.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
        environment
    }

    /// The environment of the harness without secrets, for what it starts for the human.
    pub(crate) fn open_environment(&self) -> BTreeMap<OsString, OsString> {
        let secrets = secrets_of(&self.ctx);
        let all = self.setting.environment.iter();
        let open = all.filter(|(name, value)| *name != PROVIDERS && !secrets.is_in(&value.to_string_lossy()));
        open.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What runs a script, by its extension.
    fn command(&self, script: &Path) -> (PathBuf, Vec<PathBuf>) {
        let extension = script.extension().map(|it| it.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match extension.as_str() {
            "sh" | "bash" => {
                let shell = self.setting.variable(SHELL).filter(|it| !it.is_empty()).unwrap_or("bash");
                (shell.into(), vec![script.to_owned()])
            }
            "py" => {
                let python = if self.has_python3 { "python3" } else { "python" };
                (python.into(), vec![script.to_owned()])
            }
            "ps1" => {
                let options = ["-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File"];
                ("pwsh".into(), options.iter().map(PathBuf::from).chain([script.to_owned()]).collect())
            }
            _ => (script.to_owned(), Vec::new()),
        }
    }
}
