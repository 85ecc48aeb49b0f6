//! What `/proc` says about the processes of a session. Every answer is a moment's view; callers repeat or bound.

use std::fs;

/// The children of `pid`, of all its threads.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for task in tasks.flatten() {
        if let Ok(text) = fs::read_to_string(task.path().join("children")) {
            found.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
        }
    }
    found
}

/// The first child of a process with a single thread, if it has one.
pub(super) fn only_child(pid: i32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.split_whitespace().next()?.parse().ok()
}

/// `roots` and everything below them. Bounded, because a fork bomb may grow while it is walked.
pub(super) fn with_descendants(roots: Vec<i32>) -> Vec<i32> {
    const MOST: usize = 1 << 16;
    let mut found = roots;
    let mut next = 0;
    while next < found.len() && found.len() < MOST {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// A line of `/proc/PID/stat`, as far as it is needed.
struct Stat {
    state: char,
    group: i32,
    threads: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name may hold spaces and brackets: the fields start after the last bracket.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let threads = fields.nth(14)?.parse().ok()?;
    Some(Stat { state, group, threads })
}

impl Stat {
    /// Whether it still runs: a zombie or a dead entry executes nothing.
    fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Every process id there is.
fn all() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes of the group that still run.
pub(super) fn group_members(group: i32) -> Vec<i32> {
    all().filter(|&pid| stat(pid).is_some_and(|stat| stat.group == group && stat.runs())).collect()
}

/// Threads of these processes together.
pub(super) fn threads(pids: &[i32]) -> u64 {
    pids.iter().filter_map(|&pid| stat(pid)).filter(Stat::runs).map(|stat| stat.threads).sum()
}

/// Threads of all processes that this user may see running under `uid`.
pub(super) fn threads_of_user(uid: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    all()
        .filter(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == uid))
        .filter_map(stat)
        .map(|stat| stat.threads)
        .sum()
}

/// Bytes these processes hold: resident pages, and where those are more than `limit`, shared pages counted once.
pub(super) fn memory(pids: &[i32], limit: u64) -> u64 {
    let resident = pids.iter().map(|&pid| resident(pid)).sum();
    if resident <= limit {
        return resident;
    }
    pids.iter().map(|&pid| proportional(pid).unwrap_or_else(|| self::resident(pid))).sum()
}

fn resident(pid: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).ok().and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

fn proportional(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Bytes of deleted files that these processes keep open: they are in no folder, but on the disk.
pub(super) fn deleted_bytes(pids: &[i32]) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let open = |pid: &i32| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    pids.iter()
        .flat_map(open)
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(|meta| meta.is_file() && meta.nlink() == 0)
        .map(|meta| meta.blocks() * 512)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_in_its_own_group_and_holds_memory() {
        let me = i32::try_from(std::process::id()).unwrap();
        let stat = stat(me).unwrap();
        assert!(stat.runs());
        assert!(group_members(stat.group).contains(&me));
        assert!(threads(&[me]) >= 1);
        // A test binary holds at least 100 KiB and less than 16 GiB.
        assert!((100 << 10..16_u64 << 30).contains(&memory(&[me], 0)));
    }

    #[test]
    fn a_child_is_found_below_its_parent_and_a_zombie_does_not_run() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(with_descendants(vec![i32::try_from(std::process::id()).unwrap()]).contains(&pid));
        child.kill().unwrap();
        while stat(pid).unwrap().runs() {
            std::thread::yield_now();
        }
        assert_eq!(threads(&[pid]), 0);
        child.wait().unwrap();
    }
}
