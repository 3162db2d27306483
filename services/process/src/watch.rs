//! What outlives the harness to end what the harness started.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::launch::{Launch, Stream};
use crate::leader::Leader;

/// What the watch runs, with the mark as its argument. It reads until somebody says that all is over, or until nobody is
/// left who could: then it kills what carries the mark, until it has twice seen nothing. Once is not enough: what is about to
/// run another program shows no environment for a moment.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r word && exit 0
looks=0 empty=0
while [ "$looks" -lt 50 ] && [ "$empty" -lt 2 ]; do
  found=$(grep -lsF -e "$1" /proc/[0-9]*/environ)
  if [ -z "$found" ]; then
    empty=$((empty + 1))
  else
    empty=0
    for it in $found; do
      it=${it#/proc/}
      kill -KILL "${it%/environ}" 2>/dev/null
    done
  fi
  looks=$((looks + 1))
  [ "$looks" -lt 5 ] || sleep 0.1
done
"#;

/// A small process that ends what carries a mark in its environment as soon as this process is gone, however it went: no
/// code of a process that is killed runs any more. Dropping the watch is the same to it.
///
/// It finds what can be read in `/proc`; where that is not there, it ends nothing. What cleared its environment and what
/// runs as another user is not found.
#[derive(Debug)]
pub struct Watch {
    process: Leader,
    /// Nobody else holds it, so it is closed with this process.
    lifeline: File,
}

impl Watch {
    /// Begins to watch. A tokio runtime with I/O has to be entered.
    ///
    /// # Errors
    ///
    /// There is no shell, or it cannot be started.
    pub fn start(mark: &str) -> io::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut process = Leader::start(&Launch {
            program: "sh".into(),
            arguments: ["-c", SCRIPT, "linn-watch", mark].map(Into::into).to_vec(),
            cwd: PathBuf::from("/"),
            environment: vec![("PATH".into(), path)],
            stdin: Stream::Pipe,
            outputs: Stream::Null,
        })?;
        let lifeline = process.stdin().ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok(Self { process, lifeline: lifeline.into() })
    }

    /// Ends the watch, and nothing else.
    pub async fn end(mut self) {
        // A watch that is gone already hears of nothing, and that is all right.
        drop(self.lifeline.write_all(b"over\n"));
        self.process.exited().await;
        self.process.reap();
    }
}
