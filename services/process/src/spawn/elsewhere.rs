//! Starting a process by forking.

use std::io;
use std::process::{Command, Stdio};

use process_wrap::std::{CommandWrap, CommandWrapper, ProcessSession};
use rustix::process::Pid;

use super::Given;
use crate::launch::Launch;

pub(super) fn spawn_at(launch: &Launch, given: Given) -> io::Result<Pid> {
    let stdio = |it: Option<_>| it.map_or_else(Stdio::null, Stdio::from);
    #[expect(clippy::disallowed_methods, reason = "this is what starts processes for the plugins that own them")]
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments).current_dir(&launch.cwd).env_clear();
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(stdio(given.stdin)).stdout(stdio(given.stdout)).stderr(stdio(given.stderr));
    // The wrapper makes the session before the program runs; what it would make of the child is not wanted.
    ProcessSession.pre_spawn(&mut command, &CommandWrap::with_new("", |_| {}))?;
    Ok(Pid::from_child(&command.spawn()?))
}
