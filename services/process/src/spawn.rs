//! Starting a process in a session of its own.
//!
//! On Linux it is started by `posix_spawn`, which borrows the memory of the harness until the program runs. A fork would copy
//! the tables of that memory, which takes milliseconds of every start where the harness is large. Elsewhere that call knows
//! no sessions, and the process is forked.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
mod elsewhere;

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use crate::launch::{Launch, Stream};

#[cfg(target_os = "linux")]
use linux::spawn_at;

#[cfg(not(target_os = "linux"))]
use elsewhere::spawn_at;

/// The ends of its pipes that are ours, where there are pipes.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

/// The ends that the process gets; nothing where there is none.
#[derive(Debug, Default)]
struct Given {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

/// Starts a process that leads a session.
pub(crate) fn spawn(launch: &Launch) -> io::Result<(Pid, Ends)> {
    let (mut ends, mut given) = (Ends::default(), Given::default());
    if launch.stdin == Stream::Pipe {
        let (theirs, ours) = io::pipe()?;
        (ends.stdin, given.stdin) = (Some(ours.into()), Some(theirs.into()));
    }
    if launch.outputs == Stream::Pipe {
        for (end, given) in [(&mut ends.stdout, &mut given.stdout), (&mut ends.stderr, &mut given.stderr)] {
            let (ours, theirs) = io::pipe()?;
            (*end, *given) = (Some(ours.into()), Some(theirs.into()));
        }
    }
    Ok((spawn_at(launch, given)?, ends))
}
