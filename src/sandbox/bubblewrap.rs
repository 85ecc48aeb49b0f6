//! The `bubblewrap` backend: namespaces through the `bwrap` program (0.8 or newer).
//!
//! What is covered:
//! - files: programs see `/usr`, an `/etc` of ours, their workspace `/home/agent`, `/tmp`, `/dev` with the harmless devices, and
//!   nothing else of the machine; all but workspace, `/tmp` and `/dev/shm` is read-only, and those three are sized memory file systems;
//! - network: an empty namespace with a loopback of its own; sockets of the host, abstract ones too, are out of reach;
//! - processes: a pid namespace of their own, so none of the host can be seen, signalled or traced; the end of its first process is the end
//!   of all, whatever they did (`setsid`, double forks, fork bombs), and is waited for;
//! - rights: never root (dropped to uid 65534 before anything else when this program is root), no set-user-id, no capabilities, no further user
//!   namespaces, refused system calls (`filter.rs`);
//! - amounts: processes and threads, file size, open files, memory (summed over the processes every 25 to 100 ms), disk, files, output, wall time;
//! - the environment, the command line and the open files of this program.
//!
//! What is not covered:
//! - processor time beside the wall time, and disk or memory bandwidth;
//! - memory of kernel buffers (pipes, sockets): bounded only by the number of processes and open files;
//! - a burst of memory between two looks of the guard;
//! - flaws of the kernel itself: the kernel is shared;
//! - names in `/usr` are those of this machine, so a task may find other programs on another one.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cage::{Cage, DiskBound, DiskUse, mib};
use super::ground::{Ground, SessionFolder};
use super::launch::{Process, Program};
use super::live::{Files, Jail, LiveSession, Started};
use super::session::io_error;
use super::shell::first_file;
use super::workspace::Owner;
use super::{Policy, Sandbox, SandboxError, Session, filter, limits, processes};
use crate::base::Snapshot;

pub(super) const NAME: &str = "bubblewrap";
const WORKSPACE: &str = "/home/agent";
const SESSION: &str = "/run/session";

/// The user that this program becomes before it makes namespaces, when it is root.
const NOBODY: u32 = 65534;

/// Where `bwrap` may lie. Not the caller's `PATH`: it decides what confines untrusted programs.
const PLACES: [&str; 4] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// Namespaces through `bwrap`.
#[derive(Debug)]
pub struct Bubblewrap {
    ground: Arc<Ground>,
    program: PathBuf,
    filter: PathBuf,
}

/// The `bwrap` program of this machine, if it has one.
pub(super) fn program() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

impl Bubblewrap {
    /// Prepares the backend; nothing is started.
    ///
    /// # Errors
    /// When `bwrap` is missing or the folder for temporary files cannot be used.
    pub fn new() -> Result<Self, SandboxError> {
        let program = program().ok_or_else(|| SandboxError::Unavailable {
            backend: NAME,
            reason: "there is no `bwrap` program; install the package `bubblewrap`, or set the backend to `landlock`".to_owned(),
        })?;
        let ground = Arc::new(Ground::new()?);
        let steps = filter::inside_namespaces().map_err(|error| unavailable(error.to_string()))?;
        let filter = ground.write("filter", &filter::bytes(&steps))?;
        Ok(Self { ground, program, filter })
    }
}

fn unavailable(reason: String) -> SandboxError {
    SandboxError::Unavailable { backend: NAME, reason }
}

#[async_trait::async_trait]
impl Sandbox for Bubblewrap {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn start(&self, policy: &Policy, files: &Snapshot, helpers: &BTreeMap<String, String>) -> Result<Box<dyn Session>, SandboxError> {
        let owner = if rustix::process::geteuid().is_root() { Owner::Id(NOBODY) } else { Owner::Caller };
        let folder = self.ground.session(helpers)?;
        let jail = Namespaces {
            folder,
            policy: policy.clone(),
            owner,
            program: self.program.clone(),
            filter: self.filter.clone(),
            ground: Arc::clone(&self.ground),
        };
        Ok(Box::new(LiveSession::start(Box::new(jail), policy, files).await?))
    }
}

/// The namespaces of one session, to be made as often as its shell is started.
struct Namespaces {
    // Before the ground it stands on.
    folder: SessionFolder,
    policy: Policy,
    owner: Owner,
    program: PathBuf,
    filter: PathBuf,
    ground: Arc<Ground>,
}

impl Namespaces {
    fn arguments(&self, filter: &File, first: &str) -> Vec<std::ffi::OsString> {
        let size = mib(self.policy.disk_mib).to_string();
        let filter = filter.as_raw_fd().to_string();
        let ours = |path: PathBuf| path.into_os_string();
        let mut arguments: Vec<std::ffi::OsString> = vec!["bwrap".into()];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(std::ffi::OsString::from));
        add(&[
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--die-with-parent",
            "--new-session",
            "--uid",
            "1000",
            "--gid",
            "1000",
        ]);
        add(&["--hostname", "sandbox", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin"]);
        add(&["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"]);
        add(&["--size", "16777216", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
        add(&["--size", &size, "--perms", "1777", "--tmpfs", "/tmp", "--size", &size, "--tmpfs", WORKSPACE, "--chdir", WORKSPACE]);
        add(&["--seccomp", &filter, "--ro-bind"]);
        arguments.extend([ours(self.ground.etc()), "/etc".into()]);
        arguments.extend(["--ro-bind".into(), ours(self.folder.path().to_owned()), SESSION.into()]);
        let first = format!("/etc/sandbox/{first}");
        let shell = ["--remount-ro", "/", "--", "/etc/sandbox/bash", "--noediting", "--rcfile", &first, "-i", "+m"];
        arguments.extend(shell.map(std::ffi::OsString::from));
        arguments
    }
}

/// The environment of every program inside, and of `bwrap`, whose own can be read from inside.
pub(super) fn environment(helpers: &str, home: &str, scratch: &str) -> [(&'static str, String); 11] {
    [
        ("PATH", format!("{helpers}:/usr/local/bin:/usr/bin:/bin")),
        ("HOME", home.to_owned()),
        ("USER", "agent".to_owned()),
        ("LOGNAME", "agent".to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("TZ", "UTC".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("TMPDIR", scratch.to_owned()),
        ("PYTHONHASHSEED", "0".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ]
}

impl Jail for Namespaces {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> Result<Program, SandboxError> {
        let filter = File::open(&self.filter).map_err(|source| io_error("opening the system call filter", source))?;
        let first = self.ground.first(&first_file(&limits::command(&self.policy, u64::from(self.policy.processes))))?;
        Ok(Program {
            path: self.program.clone(),
            arguments: self.arguments(&filter, &first),
            environment: environment(&format!("{SESSION}/helpers"), WORKSPACE, "/tmp").into(),
            folder: PathBuf::from("/"),
            user: self.owner.other(),
            kept: Some(filter),
            confinement: None,
        })
    }

    fn enclose(&self, shell: Started) -> Result<Arc<dyn Cage>, SandboxError> {
        let missing = || SandboxError::Ended("it ended as soon as it had started".to_owned());
        let init = processes::only_child(shell.id()).ok_or_else(missing)?;
        let pid = Pid::from_raw(init).ok_or_else(missing)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| io_error("taking hold of a sandbox", error))?;
        let inside = processes::only_child(init).ok_or_else(missing)?;
        let open = |path: &str| {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::open(format!("/proc/{inside}/root{path}"), flags, Mode::empty())
                .map_err(|error| io_error(format!("opening {path} of a sandbox"), error))
        };
        let (workspace, scratch) = (open(WORKSPACE)?, open("/tmp")?);
        let bwrap = Mutex::new(shell.take().ok_or_else(missing)?);
        let mounts = rustix::fs::open(format!("/proc/{inside}/ns/mnt"), OFlags::CLOEXEC, Mode::empty()).ok();
        Ok(Arc::new(Namespace { bwrap, handle, init, shell: inside, workspace, scratch, _mounts: mounts }))
    }

    fn owner(&self) -> Owner {
        self.owner
    }

    fn folder(&self) -> (&SessionFolder, &str) {
        (&self.folder, SESSION)
    }

    fn workspace(&self) -> &str {
        WORKSPACE
    }

    fn files(&self) -> Files {
        Files::Carried
    }
}

/// The pid namespace of one shell.
struct Namespace {
    bwrap: Mutex<Process>,
    /// Its first process: whatever happens to it happens to all.
    handle: OwnedFd,
    init: i32,
    shell: i32,
    workspace: OwnedFd,
    scratch: OwnedFd,
    /// Keeps the mounts until this is dropped: else the end of the last process waits until they are taken down, which costs time only.
    _mounts: Option<OwnedFd>,
}

impl Namespace {
    fn bwrap(&self) -> std::sync::MutexGuard<'_, Process> {
        self.bwrap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.kill();
        let mut bwrap = self.bwrap();
        // It ends by itself now, with the status of the shell; only one that does not is killed.
        for _ in 0..500 {
            if bwrap.try_wait().is_some() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        bwrap.kill();
        bwrap.wait();
    }
}

impl Cage for Namespace {
    fn members(&self) -> Vec<i32> {
        processes::with_descendants(vec![self.init])
    }

    fn disk_bound(&self) -> DiskBound {
        DiskBound::Machine
    }

    fn shell(&self) -> i32 {
        self.shell
    }

    fn ended(&self) -> Option<i32> {
        self.bwrap().try_wait()
    }

    fn kill(&self) {
        // The first process can be waited for only after every other one in its namespace is gone.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
        let gone = poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&limit));
        if !matches!(gone, Ok(1..)) {
            tracing::error!(init = self.init, "the processes of a sandbox do not end");
        }
    }

    fn workspace(&self) -> BorrowedFd<'_> {
        self.workspace.as_fd()
    }

    fn scratch(&self) -> BorrowedFd<'_> {
        self.scratch.as_fd()
    }

    fn disk(&self) -> DiskUse {
        let one = |folder: &OwnedFd| {
            rustix::fs::fstatvfs(folder).map_or_else(
                |_| DiskUse::default(),
                |fs| DiskUse {
                    bytes: fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_frsize),
                    files: fs.f_files.saturating_sub(fs.f_ffree),
                },
            )
        };
        let (workspace, scratch) = (one(&self.workspace), one(&self.scratch));
        DiskUse { bytes: workspace.bytes + scratch.bytes, files: workspace.files + scratch.files }
    }
}
