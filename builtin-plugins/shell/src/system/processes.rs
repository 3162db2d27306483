//! Processes that are no children of the harness.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal};

/// A process, told from a later one of the same id by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pid: i32,
    started: u64,
}

/// How what a command started is known.
#[derive(Debug)]
pub(crate) struct Marks<'a> {
    /// The leader of its session, while it is not reaped.
    pub(crate) leader: Option<Pid>,
    /// What stands in its environment.
    pub(crate) cookie: &'a str,
    /// Processes that were found before.
    pub(crate) known: &'a BTreeSet<Process>,
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{family, group_of, send, session_of};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    use super::{Marks, Process};

    /// One line of the table of processes.
    struct Row {
        process: Process,
        parent: i32,
        group: i32,
        session: i32,
        is_dead: bool,
    }

    /// All living processes with these marks and all their descendants, without the leader.
    pub(crate) fn family(marks: &Marks<'_>) -> BTreeSet<Process> {
        let rows = table();
        let leader = marks.leader.and_then(|it| rows.get(&it.as_raw_pid()));
        let started = leader.map_or(0, |it| it.process.started);
        let mut found: BTreeMap<i32, Process> = BTreeMap::new();
        for (pid, row) in &rows {
            let is_led = leader.is_some_and(|it| [row.group, row.session].contains(&it.process.pid));
            let is_one = is_led
                || marks.known.contains(&row.process)
                || (row.process.started >= started && has_in_environment(*pid, marks.cookie));
            if is_one {
                found.insert(*pid, row.process);
            }
        }
        found.extend(leader.map(|it| (it.process.pid, it.process)));
        loop {
            let is_child = |row: &&Row| found.contains_key(&row.parent) && !found.contains_key(&row.process.pid);
            let children: Vec<Process> = rows.values().filter(is_child).map(|it| it.process).collect();
            if children.is_empty() {
                break;
            }
            found.extend(children.into_iter().map(|it| (it.pid, it)));
        }
        let not_these = [Some(getpid()), marks.leader].map(|it| it.map(Pid::as_raw_pid));
        let is_wanted = |it: &Process| !not_these.contains(&Some(it.pid)) && !rows[&it.pid].is_dead;
        found.into_values().filter(is_wanted).collect()
    }

    /// The living processes of a group.
    pub(crate) fn group_of(leader: Pid) -> BTreeSet<Process> {
        let is_one = |row: &Row| row.group == leader.as_raw_pid() && !row.is_dead;
        table().into_values().filter(is_one).map(|it| it.process).collect()
    }

    /// The living processes of a session, and of the group of the same id.
    pub(crate) fn session_of(leader: Pid) -> BTreeSet<Process> {
        let id = leader.as_raw_pid();
        let is_one = |row: &Row| (row.session == id || row.group == id) && !row.is_dead;
        table().into_values().filter(is_one).map(|it| it.process).collect()
    }

    /// Sends a signal to exactly this process; nothing if it is gone.
    pub(crate) fn send(process: Process, signal: Signal) {
        // The handle is opened first: if the process it names started then, it is the one.
        let Some(pid) = Pid::from_raw(process.pid) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if row(process.pid).is_some_and(|it| it.process == process) {
            // It may have exited meanwhile, or run as another user now; both are no errors of the caller.
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    fn table() -> BTreeMap<i32, Row> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
        let pids = entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| Some((pid, row(pid)?))).collect()
    }

    /// Reads `/proc/<pid>/stat`, see proc_pid_stat(5): fields 3 to 6 are state, parent, group and session, field 22 is when
    /// it started.
    fn row(pid: i32) -> Option<Row> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may hold anything.
        let behind_name = stat.iter().rposition(|it| *it == b')')? + 1;
        let fields: Vec<&str> = std::str::from_utf8(&stat[behind_name..]).ok()?.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let started = fields.get(19)?.parse().ok()?;
        Some(Row {
            process: Process { pid, started },
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        })
    }

    fn has_in_environment(pid: i32, cookie: &str) -> bool {
        // What belongs to somebody else cannot be read, and is not ours.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(cookie.len()).any(|it| it == cookie.as_bytes())
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{family, group_of, send, session_of};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::collections::BTreeSet;

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::{Marks, Process};

    /// Nothing: the group is told as a whole.
    pub(crate) fn family(_: &Marks<'_>) -> BTreeSet<Process> {
        BTreeSet::new()
    }

    /// Nothing: the group is told as a whole.
    pub(crate) fn group_of(_: Pid) -> BTreeSet<Process> {
        BTreeSet::new()
    }

    /// The group, as one process.
    pub(crate) fn session_of(leader: Pid) -> BTreeSet<Process> {
        BTreeSet::from([Process { pid: leader.as_raw_pid(), started: 0 }])
    }

    /// Sends a signal to the group.
    pub(crate) fn send(process: Process, signal: Signal) {
        // A group that is gone is no error of the caller.
        let _ = Pid::from_raw(process.pid).map(|it| kill_process_group(it, signal));
    }
}

/// Sends a signal to all of them.
pub(crate) fn send_all(processes: &BTreeSet<Process>, signal: Signal) {
    processes.iter().for_each(|it| send(*it, signal));
}
