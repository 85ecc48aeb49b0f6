//! System calls that are refused inside a sandbox, as seccomp programs.
//!
//! Everything else is allowed: file access, memory and processes are bounded by other means, and a list of what is allowed
//! would break programs that agents use. A call of another architecture (32-bit) kills its process.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused in every sandbox. Each group with why.
const REFUSED: &[i64] = &[
    // Reaching into other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Large parts of the kernel that no task needs.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_open_by_handle_at,
    // Other namespaces and mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Memory that belongs to no process, so that no sum over processes sees it.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_msgget,
];

const CLONE_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// A filter that could not be built.
#[derive(Debug, thiserror::Error)]
#[error("the system call filter cannot be built for this machine: {0}")]
pub(super) struct FilterError(String);

impl From<seccompiler::BackendError> for FilterError {
    fn from(error: seccompiler::BackendError) -> Self {
        Self(error.to_string())
    }
}

/// What is refused where namespaces keep processes together.
pub(super) fn inside_namespaces() -> Result<BpfProgram, FilterError> {
    let mut refused = every(REFUSED);
    // Other families (vsock, for one) do not end at a network namespace.
    let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other: Result<Vec<_>, FilterError> =
        known.into_iter().map(|family| argument(0, SeccompCmpOp::Ne, family.unsigned_abs().into())).collect();
    refused.insert(libc::SYS_socket, vec![SeccompRule::new(other?)?]);
    refusals(refused)
}

fn argument(index: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, FilterError> {
    Ok(SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)?)
}

/// The programs for a sandbox without namespaces, to be applied in this order.
///
/// No sockets but connected pairs, so that neither the network nor a service of the host can be reached; no way out of the process
/// group, so that one signal ends everything. Leaving the group looks like a success, because programs treat a failure as fatal.
pub(super) fn without_namespaces() -> Result<Vec<BpfProgram>, FilterError> {
    let mut refused = every(REFUSED);
    refused.extend(every(&[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4]));
    let only = |condition| SeccompRule::new(vec![condition]);
    // A datagram socket of a pair could still be addressed to a service of the host.
    refused.insert(
        libc::SYS_socketpair,
        vec![
            only(argument(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?)?,
            only(argument(1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_DGRAM as u64)?)?,
        ],
    );
    let spaces: Result<Vec<_>, FilterError> = (0..64)
        .map(|bit| 1_u64 << bit)
        .filter(|flag| CLONE_NAMESPACES & flag != 0)
        .map(|flag| Ok(only(argument(0, SeccompCmpOp::MaskedEq(flag), flag)?)?))
        .collect();
    refused.insert(libc::SYS_clone, spaces?);
    // A process that hides from its own user could not be accounted for.
    refused.insert(libc::SYS_prctl, vec![only(argument(0, SeccompCmpOp::Eq, libc::PR_SET_DUMPABLE as u64)?)?]);
    Ok(vec![
        // The flags of clone3 lie in memory, where no filter sees them: libc falls back to clone.
        program(every(&[libc::SYS_clone3]), libc::ENOSYS)?,
        program(every(&[libc::SYS_setsid, libc::SYS_setpgid]), 0)?,
        refusals(refused)?,
    ])
}

fn every(calls: &[i64]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

/// The program that refuses these calls, and every call under a number of the x32 interface, which passes for the same architecture.
///
/// One comparison for all of x32, not one a call: the kernel runs a program once for every call there is when it installs it, so that
/// its length is paid for by the start of each sandbox.
fn refusals(rules: Rules) -> Result<BpfProgram, FilterError> {
    let mut program = program(rules, libc::EPERM)?;
    if cfg!(target_arch = "x86_64") {
        let step = |code: u32, jf: u8, k: u32| sock_filter { code: code as u16, jt: 0, jf, k };
        let refuse = u32::from(SeccompAction::Errno(libc::EPERM.unsigned_abs()));
        program.splice(
            0..0,
            [
                // The number of the call comes first in what a program sees.
                step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
                step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
                step(libc::BPF_RET | libc::BPF_K, 0, refuse),
            ],
        );
    }
    Ok(program)
}

/// The first number of the x32 interface.
const X32: u32 = 0x4000_0000;

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, FilterError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, action, arch)?;
    Ok(BpfProgram::try_from(filter)?)
}

/// The program as the kernel reads it, for `bwrap --seccomp`.
pub(super) fn bytes(program: &BpfProgram) -> Vec<u8> {
    program
        .iter()
        .flat_map(|step| {
            let mut bytes = step.code.to_ne_bytes().to_vec();
            bytes.extend([step.jt, step.jf]);
            bytes.extend(step.k.to_ne_bytes());
            bytes
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_fit_the_kernel_and_have_eight_bytes_a_step() {
        let program = inside_namespaces().unwrap();
        assert!(program.len() < 4096);
        assert_eq!(bytes(&program).len(), program.len() * 8);
        assert_eq!(without_namespaces().unwrap().len(), 3);
    }
}
