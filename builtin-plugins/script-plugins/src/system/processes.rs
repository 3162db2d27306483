//! What a script started and left behind.

use rustix::process::{Pid, Signal};

/// A process, told from a later one of the same id by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pid: i32,
    started: u64,
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{family, send};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    use super::Process;

    /// One line of the table of processes.
    struct Row {
        process: Process,
        parent: i32,
        group: i32,
        session: i32,
        is_dead: bool,
    }

    /// The living processes that a script started: those in its session or group, those that carry its mark in their
    /// environment, and all that descend from these or from the script. The script itself is not among them.
    ///
    /// It has to be called before the script is reaped: process ids are given out in turn, so what it started has one
    /// between its own and the last one given out, and nothing else is looked at.
    pub(crate) fn family(leader: Pid, mark: &str) -> Vec<Process> {
        let leader = leader.as_raw_pid();
        let rows = table(leader);
        let mut found: BTreeMap<i32, Process> = BTreeMap::new();
        for (pid, row) in &rows {
            let is_led = row.group == leader || row.session == leader || row.parent == leader;
            if is_led || has_in_environment(*pid, mark) {
                found.insert(*pid, row.process);
            }
        }
        loop {
            let is_child = |row: &&Row| found.contains_key(&row.parent) && !found.contains_key(&row.process.pid);
            let children: Vec<Process> = rows.values().filter(is_child).map(|it| it.process).collect();
            if children.is_empty() {
                break;
            }
            found.extend(children.into_iter().map(|it| (it.pid, it)));
        }
        let own = getpid().as_raw_pid();
        found.into_values().filter(|it| it.pid != own && !rows[&it.pid].is_dead).collect()
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

    /// The processes with ids that were given out after that of the leader.
    fn table(leader: i32) -> BTreeMap<i32, Row> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
        let last = last_pid();
        // Behind the highest id they begin anew.
        let is_later = |pid: &i32| match last {
            Some(last) if last >= leader => *pid > leader && *pid <= last,
            Some(last) => *pid > leader || *pid <= last,
            None => *pid != leader,
        };
        let pids = entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<i32>().ok()).filter(is_later);
        pids.filter_map(|pid| Some((pid, row(pid)?))).collect()
    }

    /// The id given out last: the last field of `/proc/loadavg`, see proc_loadavg(5).
    fn last_pid() -> Option<i32> {
        fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
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

    fn has_in_environment(pid: i32, mark: &str) -> bool {
        // What belongs to somebody else cannot be read, and is not ours.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|it| it == mark.as_bytes())
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{family, send};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

    use super::Process;

    /// The group, as one process, while anybody is in it.
    pub(crate) fn family(leader: Pid, _: &str) -> Vec<Process> {
        let is_there = test_kill_process_group(leader).is_ok();
        is_there.then(|| Process { pid: leader.as_raw_pid(), started: 0 }).into_iter().collect()
    }

    /// Sends a signal to the group.
    pub(crate) fn send(process: Process, signal: Signal) {
        // A group that is gone is no error of the caller.
        let _ = Pid::from_raw(process.pid).map(|it| kill_process_group(it, signal));
    }
}

/// Kills all that a script started.
pub(crate) fn kill_family(leader: Pid, mark: &str) -> usize {
    let family = family(leader, mark);
    family.iter().for_each(|it| send(*it, Signal::KILL));
    family.len()
}
