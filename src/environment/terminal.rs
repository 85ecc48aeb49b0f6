//! A terminal: the tools of a harness over one sandbox session.

use crate::base::Snapshot;
use crate::harness::{Genome, ToolName};
use crate::sandbox::{Policy, Sandbox, SandboxError, Session};
use crate::task::Task;
use crate::trajectory::ToolSchema;

/// A failure of the environment itself.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// What a tool call gave, before the observation policy of the harness is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// What the model may see.
    pub text: String,
    /// Whether the call failed (non-zero exit, timeout, bad arguments, no such file, no display).
    pub failed: bool,
}

/// A running terminal.
pub struct Terminal {
    session: Box<dyn Session>,
}

/// The tools a harness offers, in the order of [`ToolName::ALL`], with its own descriptions where it has them.
#[must_use]
pub fn tool_schemas(genome: &Genome) -> Vec<ToolSchema> {
    let _ = genome;
    Vec::new()
}

impl Terminal {
    /// Starts the sandbox with the task's files and the harness's helper scripts.
    ///
    /// # Errors
    /// When the sandbox does not start.
    pub async fn start(sandbox: &dyn Sandbox, policy: &Policy, task: &Task, genome: &Genome) -> Result<Self, EnvironmentError> {
        let session = sandbox.start(policy, &task.body().files, &genome.provisioning).await?;
        Ok(Self { session })
    }

    /// Plays one tool call. Bad arguments are a failed result, not an error.
    ///
    /// # Errors
    /// When the sandbox is gone.
    pub async fn call(&mut self, tool: ToolName, arguments: &serde_json::Value) -> Result<ToolResult, EnvironmentError> {
        let _ = (tool, arguments);
        Ok(ToolResult { text: String::new(), failed: false })
    }

    /// Kills everything and reads the workspace.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub async fn finish(self) -> Result<Snapshot, EnvironmentError> {
        Ok(self.session.finish().await?)
    }
}
