//! What the plugins of this crate are configured with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// How commands run, and what the model's tool for them does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ShellConfig {
    /// The folder that commands run in if they name none; by default that of the harness.
    pub workspace: Option<PathBuf>,
    /// The program that runs lines, called with `-c` and the line; by default `bash` where it is installed, else `sh`.
    pub shell: Option<String>,
    /// How long a command that is ended has to clean up, from SIGTERM to SIGKILL.
    pub grace_ms: u64,
    /// How long the output of a command that exited is waited for, while something it started holds it open.
    pub drain_ms: u64,
    /// What commands find in their environment.
    pub environment: EnvironmentConfig,
    /// The tool.
    pub bash: BashConfig,
}

/// What commands find in their environment: that of the harness without its secrets, with what is set here on top.
///
/// Patterns are names in which `*` stands for anything; case does not count.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct EnvironmentConfig {
    /// Variables to set, on top of everything.
    pub set: BTreeMap<String, String>,
    /// Names of secrets beside those that are known by their pattern.
    pub secret: Vec<String>,
    /// Names that look like secrets and are to reach commands all the same.
    pub keep: Vec<String>,
}

/// What the tool `bash` does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BashConfig {
    /// How long a command may take if the model names no limit.
    pub timeout_s: u64,
    /// How long a command may take at most.
    pub max_timeout_s: u64,
    /// How many bytes of output the model sees at most.
    pub limit_bytes: usize,
    /// Commands that contain one of these do not run.
    pub deny: Vec<String>,
    /// Commands that match one of these regular expressions do not run.
    pub deny_regex: Vec<String>,
    /// When a human is asked about `sudo`.
    pub sudo: SudoPrompt,
    /// Below which folder output is kept that is longer than the limit; by default that for temporary files. What was kept
    /// goes with the plugin.
    pub output_folder: Option<PathBuf>,
    /// How many bytes of one output are kept there.
    pub output_limit_bytes: u64,
    /// How many outputs are kept there; the oldest go first.
    pub n_outputs: usize,
}

/// When a human is asked about `sudo`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SudoPrompt {
    /// Before each command that uses it.
    #[default]
    Always,
    /// When `sudo` says that it needs a password.
    WhenNeeded,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            workspace: None,
            shell: None,
            grace_ms: 500,
            drain_ms: 300,
            environment: EnvironmentConfig::default(),
            bash: BashConfig::default(),
        }
    }
}

impl Default for BashConfig {
    /// The figures of the wire protocol, version 2: 3.2, 3.5 and 7.1.
    fn default() -> Self {
        let deny = ["rm -rf /", "rm -rf ~", "mkfs", "dd if=/dev/zero of=/dev/sd", ":(){:|:&};:"];
        Self {
            timeout_s: 30,
            max_timeout_s: 600,
            limit_bytes: 32 * 1024,
            deny: deny.map(str::to_owned).to_vec(),
            deny_regex: Vec::new(),
            sudo: SudoPrompt::default(),
            output_folder: None,
            output_limit_bytes: 64 * 1024 * 1024,
            n_outputs: 16,
        }
    }
}
