//! Processes that are no children of the harness, but of what it started.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal};

/// A process, told from a later one of the same id by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pid: i32,
    started: u64,
}

/// How what a leader started is known.
#[derive(Debug)]
pub struct Marks<'a> {
    /// The leader of its session, while it is not reaped.
    pub leader: Option<Pid>,
    /// What stands in its environment.
    pub cookie: &'a str,
    /// Processes that were found before.
    pub known: &'a BTreeSet<Process>,
    /// Where it is looked for.
    pub reach: Reach,
}

/// Among which processes a family is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Among all.
    All,
    /// Among those whose ids were given out after that of the leader, which has to be there. Ids are given out in turn, so
    /// this is right for a leader that has not lived for a whole round of them, and it costs next to nothing.
    Later,
}

#[cfg(target_os = "linux")]
pub use linux::{family, group_of, session_of};

#[cfg(target_os = "linux")]
use linux::send;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    use super::{Marks, Process, Reach};

    /// Up to how many ids are asked for one by one, before the table is read for them.
    const FEW: i32 = 64;

    /// How often is looked again because something was started meanwhile.
    const N_LOOKS: usize = 4;

    /// One line of the table of processes.
    struct Row {
        process: Process,
        parent: i32,
        group: i32,
        session: i32,
        is_dead: bool,
    }

    type Table = BTreeMap<i32, Row>;

    /// The living processes with these marks and all their descendants, without the leader.
    pub fn family(marks: &Marks<'_>) -> BTreeSet<Process> {
        match (marks.leader, marks.reach) {
            (Some(leader), Reach::Later) => later_family(leader.as_raw_pid(), marks),
            _ => family_in(&table(), marks),
        }
    }

    /// The family among those that came after the leader. What looks dead may have started another one before it died, so
    /// what was started during a look is looked at too.
    fn later_family(leader: i32, marks: &Marks<'_>) -> BTreeSet<Process> {
        let mut from = leader;
        for _ in 0..N_LOOKS {
            let last = last_pid();
            if last == Some(from) {
                break;
            }
            let found = family_in(&table_between(from, last), marks);
            match last {
                Some(last) if found.is_empty() => from = last,
                _ => return found,
            }
        }
        BTreeSet::new()
    }

    fn family_in(rows: &Table, marks: &Marks<'_>) -> BTreeSet<Process> {
        let leader = marks.leader.map(Pid::as_raw_pid);
        let started = leader.and_then(|it| rows.get(&it)).map_or(0, |it| it.process.started);
        let mut found: BTreeMap<i32, Process> = BTreeMap::new();
        for (pid, row) in rows {
            let is_led = leader.is_some_and(|it| [row.group, row.session, row.parent].contains(&it));
            let is_one = is_led
                || marks.known.contains(&row.process)
                || (row.process.started >= started && has_in_environment(*pid, marks.cookie));
            if is_one {
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
        let not_these = [Some(getpid().as_raw_pid()), leader];
        let is_wanted = |it: &Process| !not_these.contains(&Some(it.pid)) && !rows[&it.pid].is_dead;
        found.into_values().filter(is_wanted).collect()
    }

    /// The living processes of a group.
    pub fn group_of(leader: Pid) -> BTreeSet<Process> {
        let is_one = |row: &Row| row.group == leader.as_raw_pid() && !row.is_dead;
        table().into_values().filter(is_one).map(|it| it.process).collect()
    }

    /// The living processes of a session, and of the group of the same id.
    pub fn session_of(leader: Pid) -> BTreeSet<Process> {
        let id = leader.as_raw_pid();
        let is_one = |row: &Row| (row.session == id || row.group == id) && !row.is_dead;
        table().into_values().filter(is_one).map(|it| it.process).collect()
    }

    /// Sends a signal to exactly this process; nothing if it is gone.
    pub(super) fn send(process: Process, signal: Signal) {
        // The handle is opened first: if the process it names started then, it is the one.
        let Some(pid) = Pid::from_raw(process.pid) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if row(process.pid).is_some_and(|it| it.process == process) {
            // It may have exited meanwhile, or run as another user now; both are no errors of the caller.
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    fn pids() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
    }

    fn rows(pids: impl Iterator<Item = i32>) -> Table {
        pids.filter_map(|pid| Some((pid, row(pid)?))).collect()
    }

    fn table() -> Table {
        rows(pids())
    }

    /// The processes with ids that were given out after the one, up to the last.
    fn table_between(from: i32, last: Option<i32>) -> Table {
        match last {
            Some(last) if last >= from && last - from <= FEW => rows(from + 1..=last),
            Some(last) if last >= from => rows(pids().filter(|it| *it > from && *it <= last)),
            // Behind the highest id they begin anew.
            Some(last) => rows(pids().filter(|it| *it > from || *it <= last)),
            None => rows(pids().filter(|it| *it != from)),
        }
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

    fn has_in_environment(pid: i32, cookie: &str) -> bool {
        // What belongs to somebody else cannot be read, and is not ours.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(cookie.len()).any(|it| it == cookie.as_bytes())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_signal_meets_no_later_process_of_the_same_id() {
            let own = row(getpid().as_raw_pid()).expect("this process is there").process;
            // If it met this process, the test would be over.
            send(Process { started: own.started + 1, ..own }, Signal::KILL);
        }

        #[test]
        fn the_last_id_is_told() {
            assert!(last_pid().expect("the system tells it") > 0);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{family, group_of, session_of};

#[cfg(not(target_os = "linux"))]
use elsewhere::send;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::collections::BTreeSet;

    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

    use super::{Marks, Process};

    /// The groups, each as one process, while anybody is in them.
    pub fn family(marks: &Marks<'_>) -> BTreeSet<Process> {
        let leader = marks.leader.map(|it| Process { pid: it.as_raw_pid(), started: 0 });
        let is_there = |it: &Process| Pid::from_raw(it.pid).is_some_and(|it| test_kill_process_group(it).is_ok());
        marks.known.iter().copied().chain(leader).filter(is_there).collect()
    }

    /// The group, as one process.
    pub fn group_of(leader: Pid) -> BTreeSet<Process> {
        session_of(leader)
    }

    /// The group, as one process.
    pub fn session_of(leader: Pid) -> BTreeSet<Process> {
        BTreeSet::from([Process { pid: leader.as_raw_pid(), started: 0 }])
    }

    /// Sends a signal to the group.
    pub(super) fn send(process: Process, signal: Signal) {
        // A group that is gone is no error of the caller.
        let _ = Pid::from_raw(process.pid).map(|it| kill_process_group(it, signal));
    }
}

/// Sends a signal to all of them.
pub fn send_all(processes: &BTreeSet<Process>, signal: Signal) {
    processes.iter().for_each(|it| send(*it, signal));
}
