//! The check: decided where the agent cannot reach.

use crate::base::Snapshot;
use crate::sandbox::{Sandbox, SandboxError};
use crate::task::{Task, Verdict};

/// Decides the task from the workspace that was left after every process of the agent was dead. Command probes run in a fresh
/// session over a copy of it.
///
/// # Errors
/// When a fresh sandbox cannot be started or dies: the verdict is then unknown, not 0.
pub async fn check(task: &Task, workspace: &Snapshot, sandbox: &dyn Sandbox) -> Result<Verdict, SandboxError> {
    let _ = (task, workspace, sandbox);
    Err(SandboxError::Unavailable { backend: "check", reason: "not built".to_owned() })
}
