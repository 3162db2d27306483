//! Where the exceptions are: the modules in which a rule does not hold, as data.
//!
//! An entry is a module path from the top of the repository; it covers `<entry>.rs` and everything below `<entry>/`.
//! A new entry is a decision of the design: say in the commit why the module needs it.

/// Modules that hold `unsafe` code, each argued at its blocks and tested.
pub(crate) const UNSAFE_MODULES: &[&str] = &[
    "builtin-plugins/llm-openai/tests/cost",
    "bus/examples/dispatch_cost",
    "bus/src/around",
    "bus/src/bus",
    "bus/src/cell",
    "bus/src/contain",
    "bus/src/decision",
    "bus/src/dispatch/observe",
    "bus/src/event",
    "bus/src/frames",
    "bus/src/hook",
    "bus/src/internal",
    "bus/src/library",
    "bus/src/pool",
    "bus/src/service",
    "bus/src/wakers",
    "bus/tests/allocations",
    "bus/tests/leaks",
    "loader/src/library/open",
    "loader/src/library/pages",
    "services/process/src/spawn",
];

/// Macro crates that write `unsafe impl` into what they expand to; they run none themselves.
pub(crate) const UNSAFE_WRITERS: &[&str] = &["bus/macros/src"];

/// Crates whose public items are documented without exception.
pub(crate) const DOCUMENTED_CRATES: &[&str] = &[
    "linn-bus",
    "linn-config",
    "linn-fingerprint",
    "linn-http",
    "linn-loader",
    "linn-process",
    "linn-sdk",
    "linn-services",
    "linn-sources",
];

/// Modules that implement a seam to the operating system, time or chance, or need a barrier of the system.
pub(crate) const SYSTEM_MODULES: &[&str] = &[
    "builtin-plugins/files/src/system",
    "builtin-plugins/llm-replay/src/system",
    "builtin-plugins/providers/src/system",
    "builtin-plugins/script-plugins/src/system",
    "builtin-plugins/session-store/src/system",
    "builtin-plugins/shell/src/system",
    "builtin-plugins/web/src/counts",
    "bus/fingerprint/src",
    "bus/src/frames",
    "bus/src/seams",
    "config/src/system",
    "loader/sources/build",
    "loader/src/library/pages",
    "loader/src/system",
    "protocol-bridge/src/system",
    "services/http/src/network",
    "services/process/src",
    "src/cli/demo",
    "src/cli/plugins/manage",
    "src/cli/run",
    "src/cli/sessions",
    "src/cli/signals",
    "src/main",
];

/// What counts as reaching for the operating system, time or chance: these paths and all below them.
pub(crate) const SYSTEM_PATHS: &[&str] = &[
    "cap_fs_ext",
    "cap_std",
    "fastrand",
    "getrandom",
    "libc",
    "process_wrap",
    "rand",
    "reqwest",
    "rustix",
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "tokio::fs",
    "tokio::net",
    "tokio::process",
    "tokio::signal",
];

/// Paths below [`SYSTEM_PATHS`] that neither read nor change anything outside the program.
pub(crate) const HARMLESS_PATHS: &[&str] =
    &["std::env::consts", "std::process::ExitCode", "std::process::Termination", "std::process::abort"];

/// Calls that ask the machine for the time, however the type was imported.
pub(crate) const CLOCK_CALLS: &[&str] = &["Instant::now", "SystemTime::now"];

/// Packages that own the terminal: the program, and the bridge that speaks the protocol on it.
pub(crate) const STDIO_MODULES: &[&str] = &["src", "protocol-bridge/src"];

/// What may stand at the top of the repository.
pub(crate) const TOP_LEVEL: &[&str] = &[
    ".ci",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "builtin-plugins",
    "bus",
    "clippy.toml",
    "config",
    "deny.toml",
    "docs",
    "examples",
    "loader",
    "protocol-bridge",
    "rustfmt.toml",
    "services",
    "src",
    "tests",
];
