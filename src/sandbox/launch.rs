//! Starting the process of a session, with its standard streams, from a thread that lives as long as the program.
//!
//! "Die with the parent" in the kernel means the parent *thread*. A pool thread ends when it is idle, and would take every sandbox
//! it started with it; one thread that only starts processes does not.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};

use rustix::fs::{Gid, Uid, fchown};
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

/// Starts `command` with fresh streams. `reader` is the user that may open the output by name (`/dev/stdout`), if it is another one.
pub(super) async fn launch(mut command: Command, reader: Option<u32>) -> Result<(Child, Streams), SandboxError> {
    let failed = |source: io::Error| io_error("making the pipes of a sandbox", source);
    let (control_inside, control) = io::pipe().map_err(failed)?;
    let (output, output_inside) = io::pipe().map_err(failed)?;
    let (status, status_inside) = io::pipe().map_err(failed)?;
    if let Some(id) = reader {
        fchown(&output_inside, Some(Uid::from_raw(id)), Some(Gid::from_raw(id))).map_err(|error| failed(error.into()))?;
    }
    let streams = Streams {
        control: pipe::Sender::from_owned_fd(OwnedFd::from(control)).map_err(failed)?,
        output: pipe::Receiver::from_owned_fd(OwnedFd::from(output)).map_err(failed)?,
        status: pipe::Receiver::from_owned_fd(OwnedFd::from(status)).map_err(failed)?,
    };
    command.stdin(control_inside).stdout(output_inside).stderr(status_inside);
    let program = command.get_program().to_string_lossy().into_owned();
    let child = on_the_launcher(command).await.map_err(|source| io_error(format!("starting `{program}`"), source))?;
    Ok((child, streams))
}

/// Closes, in the child at its exec, all descriptors but the standard streams: what this program itself was started with may be open
/// for inheritance. `but` stays open.
#[expect(unsafe_code, reason = "which descriptors a child keeps can be decided only between fork and exec")]
pub(super) fn close_all_but(command: &mut Command, but: Option<File>) {
    let close = move || {
        // SAFETY: a system call on integers.
        let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        match &but {
            Some(file) => Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?),
            None => Ok(()),
        }
    };
    // SAFETY: the closure makes system calls on integers and on a descriptor it owns; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(close);
    }
}

type Request = (Command, tokio::sync::oneshot::Sender<io::Result<Child>>);

async fn on_the_launcher(command: Command) -> io::Result<Child> {
    static LAUNCHER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts sandboxes ended");
    let launcher = match LAUNCHER.get() {
        Some(launcher) => launcher,
        None => {
            let (sender, requests) = mpsc::channel::<Request>();
            std::thread::Builder::new().name("sandbox-launcher".to_owned()).spawn(move || {
                for (mut command, reply) in requests {
                    if let Err(Ok(mut unwanted)) = reply.send(command.spawn()) {
                        // Nobody waits for it any more: it must not be left behind.
                        let _ = unwanted.kill();
                        let _ = unwanted.wait();
                    }
                }
            })?;
            LAUNCHER.get_or_init(|| sender)
        }
    };
    let (reply, answer) = tokio::sync::oneshot::channel();
    launcher.send((command, reply)).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}
