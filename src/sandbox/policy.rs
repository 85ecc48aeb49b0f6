//! What a sandbox allows, as data.

use serde::{Deserialize, Serialize};

/// What a sandbox allows. There is no network in any sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Processes and threads at a time.
    pub processes: u32,
    /// Memory of all processes together, in MiB.
    pub memory_mib: u64,
    /// Bytes the workspace and `/tmp` may each hold, in MiB.
    pub disk_mib: u64,
    /// Bytes of output kept from one command: half from its start, half from its end.
    pub output_bytes: usize,
    /// Wall time of the whole session in seconds.
    pub seconds: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { processes: 128, memory_mib: 1024, disk_mib: 64, output_bytes: 256 * 1024, seconds: 600 }
    }
}

/// The backends there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Namespaces through the `bwrap` program.
    Bubblewrap,
    /// Landlock and seccomp in this process; no external program.
    Landlock,
}
