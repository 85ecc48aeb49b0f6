//! Limits of the kernel on each process of a session. They are set on the shell from outside, before it runs anything, and inherited.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::cage::mib;
use super::session::io_error;
use super::{Policy, SandboxError};

/// Open files of one process.
const FILES: u64 = 512;

/// Sets the limits of `policy` on the process `shell`; `processes` is the number its user may have.
///
/// The data limit is loose (twice the memory of the whole session), because programs reserve more than they touch: what they touch is
/// the guard's business. It bounds what one process can grab between two looks of the guard.
pub(super) fn set(shell: i32, policy: &Policy, processes: u64) -> Result<(), SandboxError> {
    let pid = Pid::from_raw(shell);
    let limits = [
        (Resource::Core, 0),
        (Resource::Nofile, FILES),
        (Resource::Nproc, processes),
        (Resource::Fsize, mib(policy.disk_mib)),
        (Resource::Data, 2 * mib(policy.memory_mib)),
        (Resource::Memlock, mib(8)),
    ];
    for (resource, most) in limits {
        // Never above what this process itself may have.
        let own = rustix::process::getrlimit(resource).maximum;
        let most = Some(own.map_or(most, |own| own.min(most)));
        prlimit(pid, resource, Rlimit { current: most, maximum: most })
            .map_err(|error| io_error(format!("limiting {resource:?} of a sandbox"), error))?;
    }
    Ok(())
}
