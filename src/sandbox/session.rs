//! What a backend offers: sessions of one persistent shell over one workspace.

use std::time::Duration;

use crate::base::Snapshot;

use super::Policy;

/// A sandbox failure. A fault, never a score, but for [`Self::Overfull`].
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The backend cannot work on this machine.
    #[error("the {backend} sandbox is not available: {reason}")]
    Unavailable {
        /// Which backend.
        backend: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// The session ended although nobody ended it.
    #[error("the sandbox ended: {0}")]
    Ended(String),
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The workspace holds more files than may be taken out of it. This is the doing of what ran inside, not of the machine.
    #[error("the workspace holds more than {entries} files, folders and links")]
    Overfull {
        /// How many there may be.
        entries: usize,
    },
}

/// A failed system call, with what was being done.
pub(super) fn io_error(doing: impl Into<String>, source: impl Into<std::io::Error>) -> SandboxError {
    SandboxError::Io { doing: doing.into(), source: source.into() }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// With this exit status (128 + signal for a signal).
    Exited(i32),
    /// It was killed after its time; the shell goes on.
    TimedOut,
    /// The shell itself ended (the command was `exit`, for example); a new one was started in the workspace.
    ShellEnded(i32),
    /// The session was over one of its limits and everything in it was killed.
    Killed(&'static str),
}

/// What a command printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Standard output and standard error as they came, capped by [`Policy::output_bytes`]; invalid UTF-8 replaced.
    pub text: String,
    /// Bytes left out between head and tail.
    pub omitted_bytes: u64,
    /// How it ended.
    pub end: CommandEnd,
}

/// A kind of sandbox.
#[async_trait::async_trait]
pub trait Sandbox: Send + Sync {
    /// Its name, as in configuration.
    fn name(&self) -> &'static str;

    /// Starts a session whose workspace holds `files`, with `helpers` (name to text) executable on `PATH`.
    ///
    /// # Errors
    /// When the backend is not available or the machine refuses.
    async fn start(
        &self,
        policy: &Policy,
        files: &Snapshot,
        helpers: &std::collections::BTreeMap<String, String>,
    ) -> Result<Box<dyn Session>, SandboxError>;
}

/// One persistent shell in a sandbox. Dropping it kills everything inside.
#[async_trait::async_trait]
pub trait Session: Send {
    /// Absolute path of the workspace as programs inside see it.
    fn workspace(&self) -> &str;

    /// Runs `command` in the shell, with `stdin` on its standard input. State of the shell (directory, variables) stays, also after a timeout.
    ///
    /// # Errors
    /// When the session is gone.
    async fn run(&mut self, command: &str, stdin: &str, timeout: Duration) -> Result<CommandOutput, SandboxError>;

    /// Kills every process of the session, then reads its workspace.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    async fn finish(self: Box<Self>) -> Result<Snapshot, SandboxError>;
}
