//! What keeps the processes of one session together, and the guard that ends them when they take too much.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Policy, SandboxError, processes};

/// All processes of one session.
pub(super) trait Cage: Send + Sync {
    /// Those that run now, the shell among them.
    fn members(&self) -> Vec<i32>;

    /// The shell, as this machine counts processes.
    fn shell(&self) -> i32;

    /// The exit status of the shell, once it has ended. It stays a zombie until [`Self::kill`].
    fn ended(&self) -> Option<i32>;

    /// Kills every process and returns when none is left. Calling it again does nothing.
    fn kill(&self);

    /// Whether the machine itself bounds what the session may write, so that only memory has to be watched closely.
    fn disk_bound(&self) -> DiskBound;

    /// The workspace, open. It stays readable after the end.
    fn workspace(&self) -> BorrowedFd<'_>;

    /// The folder for temporary files, open. It stays readable after the end.
    fn scratch(&self) -> BorrowedFd<'_>;

    /// Bytes and files that the session holds on its disk.
    fn disk(&self) -> DiskUse;
}

/// What a session holds on its disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiskUse {
    /// Bytes, as the file system counts blocks.
    pub(super) bytes: u64,
    /// Files, folders and links.
    pub(super) files: u64,
}

/// The most files that a session may hold at a time. They cost memory of the kernel, whatever their size.
pub(super) const MOST_FILES: u64 = 100_000;

/// Who keeps the disk of a session within its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskBound {
    /// The file systems are sized.
    Machine,
    /// The guard, by looking.
    Guard,
}

/// The shortest and the longest time between two looks of the guard.
const LOOK: Duration = Duration::from_millis(25);
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// Bytes of memory that a session is assumed to take in a second at most: a process writes about 2 GiB.
const GREED: u64 = 8 << 30;

/// The limit that was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breach {
    Memory,
    Processes,
    Disk,
    Files,
    Time,
}

impl Breach {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::Time => "time",
        }
    }
}

/// A thread that watches a cage and kills all in it on a breach, also while nobody waits for a command.
pub(super) struct Guard {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    breach: OnceLock<Breach>,
}

impl Guard {
    /// Watches `cage` until it is stopped, or `deadline` passes.
    pub(super) fn watch(cage: Arc<dyn Cage>, policy: &Policy, deadline: Instant) -> Result<Self, SandboxError> {
        let state = Arc::new(State::default());
        let seen = Arc::clone(&state);
        let policy = policy.clone();
        let work = move || {
            let mut wait = LOOK;
            loop {
                // First the wait: most sessions of a check are over before it ends.
                thread::park_timeout(wait);
                if seen.stopped.load(Ordering::Acquire) {
                    return;
                }
                let start = Instant::now();
                let headroom = match look(cage.as_ref(), &policy, deadline) {
                    Ok(headroom) => headroom,
                    Err(breach) => {
                        let _ = seen.breach.set(breach);
                        cage.kill();
                        return;
                    }
                };
                // On a machine where looking is slow it happens less often: at most a tenth of one processor goes into it.
                wait = rest(cage.disk_bound(), headroom).max(9 * start.elapsed());
            }
        };
        let thread = thread::Builder::new()
            .name("sandbox-guard".to_owned())
            .spawn(work)
            .map_err(|source| super::session::io_error("starting the guard of a sandbox", source))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// The limit that was passed, if one was.
    pub(super) fn breach(&self) -> Option<Breach> {
        self.state.breach.get().copied()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// How long the guard may look away: not longer than it takes to fill what is left of the memory.
fn rest(disk: DiskBound, headroom: u64) -> Duration {
    match disk {
        DiskBound::Guard => LOOK,
        DiskBound::Machine => Duration::from_micros(headroom.saturating_mul(1_000_000) / GREED).clamp(LOOK, LONGEST_LOOK),
    }
}

/// The memory that is left to the session, or the limit it passed.
fn look(cage: &dyn Cage, policy: &Policy, deadline: Instant) -> Result<u64, Breach> {
    if Instant::now() >= deadline {
        return Err(Breach::Time);
    }
    let members = cage.members();
    let limit = mib(policy.memory_mib);
    let memory = processes::memory(&members, limit);
    if memory > limit {
        return Err(Breach::Memory);
    }
    // The machine's own limit refuses the process before this is reached; this is for machines where it does not count.
    if processes::threads(&members) > u64::from(policy.processes) + 8 {
        return Err(Breach::Processes);
    }
    let disk = cage.disk();
    if disk.files > MOST_FILES {
        return Err(Breach::Files);
    }
    // Workspace and scratch folder may each hold `disk_mib`.
    if disk.bytes > 2 * mib(policy.disk_mib) + mib(1) { Err(Breach::Disk) } else { Ok(limit - memory) }
}

/// Mebibytes in bytes.
pub(super) const fn mib(mebibytes: u64) -> u64 {
    mebibytes.saturating_mul(1 << 20)
}
