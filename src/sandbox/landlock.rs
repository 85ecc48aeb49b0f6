//! The `landlock` backend: Landlock, seccomp and process limits, set by this program on a bash of the machine. No other program is needed.
//!
//! What is covered:
//! - files: programs read and run what lies under `/usr` and a few files of `/etc`, and change only a workspace and a folder for temporary
//!   files of their own;
//! - network: no sockets at all, but connected pairs inside one program;
//! - processes: those of the host cannot be signalled or traced, nor can their memory, environment or open files be read; all processes of a
//!   session stay in one process group, and one signal ends them at once;
//! - rights: a user of its own for each live session when this program is root; no set-user-id; refused system calls (`filter.rs`);
//! - amounts: as in the bubblewrap backend, but the disk is watched every 25 ms instead of being sized.
//!
//! What is not covered (also as data in [`NOT_COVERED`]):
//! - the names and arguments of the host's processes can be read in `/proc`, and the existence, size and times of its files can be asked for;
//! - there is no network inside the sandbox either: a task cannot serve and fetch on its own loopback;
//! - `/tmp` itself is not writable (`TMPDIR` is), and the workspace's path differs from session to session;
//! - `setsid` and job control have no effect, and the group that `timeout` ends is the whole session but its shell;
//! - disk use between two looks of the guard, and deleted files that the shell itself keeps open;
//! - without root: programs run as the user of this program and may change modes and times of that user's files (not their content), and the
//!   process limit counts that user's processes together, so it is loose and the guard ends a session that goes over it;
//! - when this program is killed by SIGKILL, programs in the background of a session live on until they end by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
    path_beneath_rules,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use seccompiler::BpfProgram;

use super::bubblewrap::environment;
use super::cage::{Cage, DiskBound, DiskUse};
use super::ground::{Ground, SessionFolder};
use super::launch::{Confinement, Process, Program};
use super::live::{Files, Jail, LiveSession, Started};
use super::session::io_error;
use super::shell::first_file;
use super::workspace::{self, Owner};
use super::{Policy, Sandbox, SandboxError, Session, filter, limits, processes};
use crate::base::Snapshot;

pub(super) const NAME: &str = "landlock";

/// What this backend does not keep apart, a line each, for `doctor` and for the tests of both backends.
pub const NOT_COVERED: [&str; 6] = [
    "names and arguments of host processes are visible in /proc",
    "existence, size and times of host files are visible",
    "no loopback network inside",
    "/tmp is not writable; TMPDIR is",
    "without root: modes and times of the user's own files can be changed",
    "background programs live on if the harness is killed by SIGKILL",
];

/// Read and run.
const PROGRAMS: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// Read.
const READ: [&str; 18] = [
    "/proc",
    "/dev/urandom",
    "/dev/random",
    "/etc/alternatives",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/services",
    "/etc/timezone",
];
/// Read and write.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// The newest rules we know; the kernel enforces those it has.
const RULES: ABI = ABI::V6;

/// The number of the newest Landlock interface that this kernel enforces in full, up to [`RULES`]; 0 for none.
pub(super) fn interface() -> u32 {
    let whole = |abi: ABI| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(abi))?;
        let ruleset = if abi >= ABI::V4 { ruleset.handle_access(AccessNet::from_all(abi))? } else { ruleset };
        let ruleset = if abi >= ABI::V6 { ruleset.scope(Scope::from_all(abi))? } else { ruleset };
        ruleset.create().map(drop)
    };
    let known = [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];
    known.into_iter().find(|(_, abi)| whole(*abi).is_ok()).map_or(0, |(number, _)| number)
}

/// Landlock and seccomp in this process.
#[derive(Debug)]
pub struct Landlock {
    ground: Arc<Ground>,
    filters: Arc<Vec<BpfProgram>>,
}

impl Landlock {
    /// Prepares the backend; nothing is started.
    ///
    /// # Errors
    /// When the kernel lacks what would make it a sandbox, or the folder for temporary files cannot be used.
    pub fn new() -> Result<Self, SandboxError> {
        let (has, needs) = (interface(), if rustix::process::geteuid().is_root() { 3 } else { 6 });
        if has < needs {
            let reason = format!(
                "this kernel has Landlock interface {has} (0: none) and {needs} is needed; use Linux 6.12 or newer with `landlock` among its security modules, \
                 or install the package `bubblewrap`"
            );
            return Err(SandboxError::Unavailable { backend: NAME, reason });
        }
        let filters =
            filter::without_namespaces().map_err(|error| SandboxError::Unavailable { backend: NAME, reason: error.to_string() })?;
        Ok(Self { ground: Arc::new(Ground::new()?), filters: Arc::new(filters) })
    }
}

#[async_trait::async_trait]
impl Sandbox for Landlock {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn start(&self, policy: &Policy, files: &Snapshot, helpers: &BTreeMap<String, String>) -> Result<Box<dyn Session>, SandboxError> {
        let folder = self.ground.session(helpers)?;
        let user = Lease::take()?;
        let own = |name: &str| own_folder(&folder.path().join(name), user.as_ref().map(|lease| lease.0));
        let (workspace, scratch) = (own("agent")?, own("tmp")?);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let jail = Rules {
            seen_as: text(folder.path()),
            home: text(&workspace),
            workspace,
            scratch,
            folder,
            policy: policy.clone(),
            shell: self.ground.shell(),
            filters: Arc::clone(&self.filters),
            user,
            ground: Arc::clone(&self.ground),
        };
        Ok(Box::new(LiveSession::start(Box::new(jail), policy, files).await?))
    }
}

fn own_folder(path: &Path, user: Option<u32>) -> Result<PathBuf, SandboxError> {
    let make = || {
        std::fs::DirBuilder::new().mode(0o700).create(path)?;
        chown(path, user, user)
    };
    make().map_err(|source| io_error(format!("making {}", path.display()), source))?;
    Ok(path.to_owned())
}

/// A user id that no other live session has, of this program or another one.
#[derive(Debug)]
struct Lease(u32);

static TAKEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

impl Lease {
    /// One, if this program is root. The ids lie above all that accounts use, 256 for each process id of a harness.
    fn take() -> Result<Option<Self>, SandboxError> {
        const FIRST: u32 = 1 << 30;
        const EACH: u32 = 256;
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let base = FIRST + (std::process::id() % (1 << 22)) * EACH;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (base..base + EACH).find(|id| !taken.contains(id));
        let id = free.ok_or_else(|| SandboxError::Unavailable { backend: NAME, reason: format!("{EACH} sessions run already") })?;
        if !std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_mapped(&map, id)) {
            let reason = format!("this container has no user id {id}; run as another user than root, or use the bubblewrap backend");
            return Err(SandboxError::Unavailable { backend: NAME, reason });
        }
        taken.insert(id);
        Ok(Some(Self(id)))
    }
}

/// Whether a user namespace with this map (lines of first id, id outside, count) has the id.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        matches!((numbers.next(), numbers.nth(1)), (Some(first), Some(count)) if (first..first + count).contains(&u64::from(id)))
    })
}

impl Drop for Lease {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// The rules of one session.
struct Rules {
    // Removed before the user id is free again: its files must be gone.
    folder: SessionFolder,
    user: Option<Lease>,
    seen_as: String,
    home: String,
    workspace: PathBuf,
    scratch: PathBuf,
    policy: Policy,
    shell: PathBuf,
    filters: Arc<Vec<BpfProgram>>,
    ground: Arc<Ground>,
}

impl Rules {
    fn ruleset(&self) -> Result<RulesetCreated, ::landlock::RulesetError> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let write = AccessFs::from_all(RULES) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
        Ruleset::default()
            .handle_access(AccessFs::from_all(RULES))?
            .handle_access(AccessNet::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?
            .add_rules(path_beneath_rules(PROGRAMS, read | AccessFs::Execute))?
            // To run a program the kernel asks for the right to read it, too. That the shell cannot be read is a matter of its mode.
            .add_rules(path_beneath_rules([&self.shell], read | AccessFs::Execute))?
            .add_rules(path_beneath_rules([self.folder.path()], read | AccessFs::Execute))?
            .add_rules(path_beneath_rules(READ, read))?
            .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules([&self.workspace, &self.scratch], write))
    }
}

impl Rules {
    fn limits(&self) -> String {
        let own = u64::from(self.policy.processes);
        // Without a user of its own the limit counts all that this user runs, other sessions too: room for them is left.
        let most = match self.user {
            Some(_) => own,
            None => (processes::threads_of_user(rustix::process::getuid().as_raw()) + 8 * own).next_multiple_of(64),
        };
        limits::command(&self.policy, most)
    }
}

impl Jail for Rules {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> Result<Program, SandboxError> {
        // Programs of this very user (there is no other without root) may have changed it.
        let shielded = std::fs::set_permissions(self.shell.join("bash"), std::fs::Permissions::from_mode(0o111));
        shielded.map_err(|source| io_error("shielding the shell", source))?;
        let ruleset = self.ruleset().map_err(|error| SandboxError::Unavailable { backend: NAME, reason: error.to_string() })?;
        // None where the kernel has no rules at all: never a session without them.
        let rules: Option<OwnedFd> = ruleset.into();
        let rules =
            rules.ok_or_else(|| SandboxError::Unavailable { backend: NAME, reason: "the kernel made no Landlock rules".to_owned() })?;
        let first = self.shell.join(self.ground.first(&first_file(&self.limits()))?);
        let mut arguments: Vec<OsString> = ["bash", "--noediting", "--rcfile"].map(OsString::from).into();
        arguments.extend([first.into(), "-i".into(), "+m".into()]);
        let helpers = self.folder.path().join("helpers");
        Ok(Program {
            path: self.shell.join("bash"),
            arguments,
            environment: environment(&helpers.to_string_lossy(), &self.home, &self.scratch.to_string_lossy()).into(),
            folder: self.workspace.clone(),
            user: self.user.as_ref().map(|lease| lease.0),
            kept: None,
            confinement: Some(Confinement { rules, filters: Arc::clone(&self.filters) }),
        })
    }

    fn enclose(&self, shell: Started) -> Result<Arc<dyn Cage>, SandboxError> {
        let group = shell.id();
        let open = |path: &Path| {
            rustix::fs::open(path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| io_error(format!("opening {}", path.display()), error))
        };
        let (workspace, scratch) = (open(&self.workspace)?, open(&self.scratch)?);
        let missing = || SandboxError::Ended("it ended as soon as it had started".to_owned());
        let leader = Mutex::new(shell.take().ok_or_else(missing)?);
        Ok(Arc::new(Group { leader, group, workspace, scratch }))
    }

    fn owner(&self) -> Owner {
        self.user.as_ref().map_or(Owner::Caller, |lease| Owner::Id(lease.0))
    }

    fn folder(&self) -> (&SessionFolder, &str) {
        (&self.folder, &self.seen_as)
    }

    fn workspace(&self) -> &str {
        &self.home
    }

    fn files(&self) -> Files {
        Files::Stay
    }
}

/// The process group of one shell.
struct Group {
    leader: Mutex<Process>,
    group: i32,
    workspace: OwnedFd,
    scratch: OwnedFd,
}

impl Cage for Group {
    fn members(&self) -> Vec<i32> {
        processes::group_members(self.group)
    }

    fn disk_bound(&self) -> DiskBound {
        DiskBound::Guard
    }

    fn shell(&self) -> i32 {
        self.group
    }

    fn ended(&self) -> Option<i32> {
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        // The leader stays a zombie, because its id is the group's: nobody else can get it while we need it.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let pid = Pid::from_raw(self.group)?;
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) => None,
            Ok(Some(status)) => status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)),
            // It was waited for already.
            Err(_) => leader.try_wait(),
        }
    }

    fn kill(&self) {
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(waitable(self.group), Some(true)) {
            return;
        }
        let Some(group) = Pid::from_raw(self.group) else { return };
        let start = Instant::now();
        loop {
            let _ = kill_process_group(group, Signal::KILL);
            if processes::group_members(self.group).is_empty() {
                break;
            }
            if start.elapsed() > Duration::from_secs(30) {
                tracing::error!(group = self.group, "the processes of a sandbox do not end");
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        leader.wait();
    }

    fn workspace(&self) -> BorrowedFd<'_> {
        self.workspace.as_fd()
    }

    fn scratch(&self) -> BorrowedFd<'_> {
        self.scratch.as_fd()
    }

    fn disk(&self) -> DiskUse {
        let mut found = DiskUse { bytes: processes::deleted_bytes(&self.members()), files: 0 };
        for folder in [&self.workspace, &self.scratch] {
            workspace::measure(folder.as_fd(), &mut found);
        }
        found
    }
}

/// Whether the leader of the group still is a child of ours that nobody has waited for.
fn waitable(group: i32) -> Option<bool> {
    let pid = Pid::from_raw(group)?;
    Some(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG).is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_mapped;

    #[test]
    fn only_ids_of_the_map_are_there() {
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        assert!(is_mapped(rootless, 0) && is_mapped(rootless, 65_536));
        assert!(!is_mapped(rootless, 65_537) && !is_mapped("", 0));
        assert!(is_mapped("0 0 4294967295", 1 << 30));
    }
}
