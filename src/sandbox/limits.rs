//! Limits of the kernel on each process of a session. The shell sets them on itself before it runs anything; all it starts inherits them and
//! can only lower them. (Setting them from outside needs a capability that root in a container often lacks.)

use rustix::process::{Resource, getrlimit};

use super::Policy;
use super::cage::mib;

/// Open files of one process.
const FILES: u64 = 512;

/// The command that sets the limits of `policy`; `processes` is the number its user may have.
///
/// The data limit is loose (twice the memory of the whole session), because programs reserve more than they touch: what they touch is
/// the guard's business. It bounds what one process can grab between two looks of the guard.
pub(super) fn command(policy: &Policy, processes: u64) -> String {
    let kib = |bytes: u64| bytes / 1024;
    let limits = [
        ("c", Resource::Core, 1024, 0),
        ("n", Resource::Nofile, 1, FILES),
        ("u", Resource::Nproc, 1, processes),
        ("f", Resource::Fsize, 1024, kib(mib(policy.disk_mib))),
        ("d", Resource::Data, 1024, kib(2 * mib(policy.memory_mib))),
        ("l", Resource::Memlock, 1024, kib(mib(8))),
    ];
    let parts = limits.map(|(letter, resource, unit, most)| {
        // Never above what this process itself may have: that would be refused.
        let most = getrlimit(resource).maximum.map_or(most, |own| most.min(own / unit));
        format!("ulimit -{letter} {most}")
    });
    parts.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_takes_every_limit_and_cannot_raise_it() {
        let policy = Policy { disk_mib: 3, memory_mib: 700, ..Policy::default() };
        let program =
            format!("{} && ulimit -Hc; ulimit -Hn; ulimit -Hf; ulimit -Hd; ulimit -n 513 2>/dev/null || echo kept", command(&policy, 4000));
        let output = std::process::Command::new("bash").args(["-c", &program]).output().unwrap();
        // 3 MiB and 1,400 MiB in KiB.
        let expected = "0\n512\n3072\n1433600\n";
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(expected), "{text}");
    }
}
