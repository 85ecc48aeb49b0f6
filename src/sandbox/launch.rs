//! Starting the process of a session, with its standard streams, from a thread that lives as long as the program.
//!
//! "Die with the parent" in the kernel means the parent *thread*. A pool thread ends when it is idle, and would take every sandbox
//! it started with it; one thread that only starts processes does not.
//!
//! The child shares this program's memory until it becomes another program, as with `vfork` and `posix_spawn`. A plain fork copies the
//! page tables of all that this program holds: milliseconds for each session, and far more beside the weights of a local model. Neither
//! `Command` nor `posix_spawn` can drop root, restrict and filter on that way, so the steps between clone and exec are here.

use std::ffi::{CString, OsStr, OsString, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};

use rustix::fs::{Gid, Uid, fchown};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use seccompiler::BpfProgram;
use tokio::net::unix::pipe;

use super::SandboxError;
use super::session::io_error;

/// Our ends of a shell's streams.
#[derive(Debug)]
pub(super) struct Streams {
    /// Its standard input: what it is told to do.
    pub(super) control: pipe::Sender,
    /// Its standard output, and that of all it starts.
    pub(super) output: pipe::Receiver,
    /// Its standard error at the start, later a descriptor that only the shell has: when a command ended, and how.
    pub(super) status: pipe::Receiver,
}

/// A program to be started, in a process group of its own, with no descriptor but the standard streams.
#[derive(Debug)]
pub(super) struct Program {
    /// Where it lies.
    pub(super) path: PathBuf,
    /// Its arguments, the name it is called by first.
    pub(super) arguments: Vec<OsString>,
    /// Its whole environment.
    pub(super) environment: Vec<(&'static str, String)>,
    /// The folder it starts in.
    pub(super) folder: PathBuf,
    /// The user and group it becomes, of the same number, with no other groups; this process must be root.
    pub(super) user: Option<u32>,
    /// Stays open under its number.
    pub(super) kept: Option<File>,
    /// What it is held by, where namespaces do not.
    pub(super) confinement: Option<Confinement>,
}

/// Landlock rules and system call filters, taken on by the process itself. It dies with the thread that started it.
#[derive(Debug)]
pub(super) struct Confinement {
    /// The rules.
    pub(super) rules: OwnedFd,
    /// The filters, in the order in which they are applied.
    pub(super) filters: Arc<Vec<BpfProgram>>,
}

/// A child of this program. It stays a zombie until it is waited for.
#[derive(Debug)]
pub(super) struct Process {
    pid: i32,
    handle: OwnedFd,
    status: Option<i32>,
}

impl Process {
    /// Its process id.
    pub(super) const fn id(&self) -> i32 {
        self.pid
    }

    /// Its status as a shell shows it (128 and the signal, where a signal ended it), once it has ended.
    pub(super) fn try_wait(&mut self) -> Option<i32> {
        self.wait_with(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for its end.
    pub(super) fn wait(&mut self) {
        let _ = self.wait_with(WaitIdOptions::EXITED);
    }

    fn wait_with(&mut self, options: WaitIdOptions) -> Option<i32> {
        use std::os::fd::AsFd;
        if self.status.is_none() {
            let ended = rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(self.handle.as_fd()), options)).ok()??;
            self.status = ended.exit_status().or_else(|| ended.terminating_signal().map(|signal| 128 + signal));
        }
        self.status
    }

    /// Kills it alone.
    pub(super) fn kill(&self) {
        // It may have ended by itself.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Kills its process group.
    pub(super) fn kill_group(&self) {
        if let Some(group) = Pid::from_raw(self.pid) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts `program` with fresh streams.
pub(super) async fn launch(program: Program) -> Result<(Process, Streams), SandboxError> {
    let failed = |source: io::Error| io_error("making the pipes of a sandbox", source);
    let (control_inside, control) = io::pipe().map_err(failed)?;
    let (output, output_inside) = io::pipe().map_err(failed)?;
    let (status, status_inside) = io::pipe().map_err(failed)?;
    if let Some(id) = program.user {
        // It may open its output by name (`/dev/stdout`).
        fchown(&output_inside, Some(Uid::from_raw(id)), Some(Gid::from_raw(id))).map_err(|error| failed(error.into()))?;
    }
    let streams = Streams {
        control: pipe::Sender::from_owned_fd(OwnedFd::from(control)).map_err(failed)?,
        output: pipe::Receiver::from_owned_fd(OwnedFd::from(output)).map_err(failed)?,
        status: pipe::Receiver::from_owned_fd(OwnedFd::from(status)).map_err(failed)?,
    };
    let inside = [OwnedFd::from(control_inside), OwnedFd::from(output_inside), OwnedFd::from(status_inside)];
    let name = program.path.display().to_string();
    let process = on_the_launcher(program, inside).await.map_err(|source| io_error(format!("starting `{name}`"), source))?;
    Ok((process, streams))
}

type Request = (Program, [OwnedFd; 3], tokio::sync::oneshot::Sender<io::Result<Process>>);

async fn on_the_launcher(program: Program, streams: [OwnedFd; 3]) -> io::Result<Process> {
    static LAUNCHER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts sandboxes ended");
    let launcher = match LAUNCHER.get() {
        Some(launcher) => launcher,
        None => {
            let (sender, requests) = mpsc::channel::<Request>();
            std::thread::Builder::new().name("sandbox-launcher".to_owned()).spawn(move || {
                for (program, streams, reply) in requests {
                    if let Err(Ok(mut unwanted)) = reply.send(start(&program, &streams)) {
                        // Nobody waits for it any more: it must not be left behind.
                        unwanted.kill();
                        unwanted.wait();
                    }
                }
            })?;
            LAUNCHER.get_or_init(|| sender)
        }
    };
    let (reply, answer) = tokio::sync::oneshot::channel();
    launcher.send((program, streams, reply)).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

/// All that the child needs, laid out before it exists: it allocates nothing.
struct Plan<'a> {
    path: CString,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    folder: CString,
    user: Option<u32>,
    streams: [RawFd; 3],
    kept: Option<RawFd>,
    confinement: Option<(RawFd, &'a [BpfProgram])>,
    parent: libc::pid_t,
    /// Written by the child when a step fails.
    error: c_int,
}

fn text(bytes: &OsStr) -> io::Result<CString> {
    CString::new(bytes.as_bytes()).map_err(|_| io::Error::other("a zero byte in an argument of a sandbox"))
}

fn start(program: &Program, streams: &[OwnedFd; 3]) -> io::Result<Process> {
    let arguments = program.arguments.iter().map(|argument| text(argument)).collect::<io::Result<Vec<_>>>()?;
    let pairs = program.environment.iter().map(|(key, value)| text(OsStr::new(&format!("{key}={value}"))));
    let environment = pairs.collect::<io::Result<Vec<_>>>()?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let confinement = program.confinement.as_ref();
    let mut plan = Plan {
        path: text(program.path.as_os_str())?,
        arguments: pointers(&arguments),
        environment: pointers(&environment),
        folder: text(program.folder.as_os_str())?,
        user: program.user,
        streams: [0, 1, 2].map(|number: usize| streams[number].as_raw_fd()),
        kept: program.kept.as_ref().map(AsRawFd::as_raw_fd),
        confinement: confinement.map(|held| (held.rules.as_raw_fd(), held.filters.as_slice())),
        parent: rustix::process::Pid::as_raw(Some(rustix::process::getpid())),
        error: 0,
    };
    let mut process = clone(&mut plan)?;
    if plan.error == 0 {
        return Ok(process);
    }
    process.wait();
    Err(io::Error::from_raw_os_error(plan.error))
}

/// How many signals the kernel has.
const SIGNALS: usize = 64;
/// Bytes of stack for the child, which only makes system calls.
const STACK: usize = 64 * 1024;

#[expect(unsafe_code, reason = "no safe interface starts a process in shared memory")]
fn clone(plan: &mut Plan<'_>) -> io::Result<Process> {
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let mut handle: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the kernel holds this thread until the child has its own memory (exec) or is gone, so plan, stack and all they point to
    // outlive its use of them, and nothing but the child touches them meanwhile. The stack grows down from its aligned end. All signals
    // are blocked in both, so that no handler of this program runs in the child; the old mask is put back afterwards.
    let (pid, error) = unsafe {
        let dumpable = libc::prctl(libc::PR_GET_DUMPABLE);
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut old);
        let top = stack.as_mut_ptr().add(stack.len()).cast::<c_void>();
        let pid = libc::clone(child, top, flags, std::ptr::from_mut(plan).cast::<c_void>(), &raw mut handle);
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        // A change of user in the child takes it from the memory that both shared.
        libc::prctl(libc::PR_SET_DUMPABLE, dumpable);
        (pid, error)
    };
    if pid < 0 {
        return Err(error);
    }
    // SAFETY: the kernel has just opened it for us, and nobody else knows it.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    Ok(Process { pid, handle, status: None })
}

/// What the child does until it is another program. Only system calls, none through a wrapper that would act on the whole program (the
/// C library's `setuid` does).
#[expect(unsafe_code, reason = "see `clone`")]
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: the pointer comes from `clone`, which waits; nothing else refers to the plan meanwhile.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    // SAFETY: system calls on integers and on pointers into the plan.
    unsafe {
        if prepare(plan).is_some() {
            libc::execve(plan.path.as_ptr(), plan.arguments.as_ptr(), plan.environment.as_ptr());
        }
        // Never zero, which would mean that it runs.
        plan.error = (*libc::__errno_location()).max(1);
        libc::_exit(127)
    }
}

/// `None` when a step failed; `errno` says why.
#[expect(unsafe_code, reason = "see `clone`")]
unsafe fn prepare(plan: &Plan<'_>) -> Option<()> {
    let done = |result: libc::c_long| (result >= 0).then_some(());
    // SAFETY: as in `child`.
    unsafe {
        // What this program ignores (SIGPIPE, and what it was itself started with), a new one would inherit. Zeros stand for the default
        // in the kernel's own structure, which the C library's interface does not offer for every signal. Two cannot be changed.
        let default = [0_u64; 4];
        for signal in 1..=SIGNALS {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, std::ptr::null_mut::<c_void>(), SIGNALS / 8);
        }
        done(libc::syscall(libc::SYS_setpgid, 0, 0))?;
        for (number, stream) in (0..).zip(plan.streams) {
            done(libc::dup2(stream, number).into())?;
        }
        if let Some(id) = plan.user {
            done(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
            done(libc::syscall(libc::SYS_setresgid, id, id, id))?;
            done(libc::syscall(libc::SYS_setresuid, id, id, id))?;
        }
        done(libc::chdir(plan.folder.as_ptr()).into())?;
        // What this program itself was started with may be open for inheritance.
        done(libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC))?;
        if let Some(kept) = plan.kept {
            done(libc::fcntl(kept, libc::F_SETFD, 0).into())?;
        }
        if let Some((rules, filters)) = plan.confinement {
            confine(plan.parent, rules, filters)?;
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        done(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()).into())
    }
}

#[expect(unsafe_code, reason = "see `clone`")]
unsafe fn confine(parent: libc::pid_t, rules: RawFd, filters: &[BpfProgram]) -> Option<()> {
    let done = |result: libc::c_long| (result >= 0).then_some(());
    // SAFETY: as in `child`; the layout of a filter program is the kernel's.
    unsafe {
        // After the change of user, which takes it back.
        done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
        if libc::getppid() != parent {
            *libc::__errno_location() = libc::ESRCH;
            return None;
        }
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        done(libc::syscall(libc::SYS_landlock_restrict_self, rules, 0))?;
        for filter in filters {
            let length = u16::try_from(filter.len()).ok()?;
            let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut().cast() };
            done(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program))?;
        }
    }
    Some(())
}
