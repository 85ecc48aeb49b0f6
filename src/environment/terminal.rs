//! A terminal: the tools of a harness over one sandbox session.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::arguments::{Action, parse};
use super::edit::{EditError, edited};
use super::{Gap, scripts};
use crate::base::Snapshot;
use crate::harness::{Genome, ToolName};
use crate::sandbox::{CommandEnd, CommandOutput, Policy, Sandbox, SandboxError, Session};
use crate::task::Task;

/// A failure of the environment itself.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// What a tool call gave, before the observation policy of the harness is applied. Nothing in it depends on the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// What was printed or found. Where the environment itself refuses a call it starts with `error: `.
    pub text: String,
    /// What the sandbox already left out of `text`.
    pub gap: Option<Gap>,
    /// How a command that failed ended, for a line of its own: `[exit 2]`, `[timed out after 30 s]`.
    pub status: Option<String>,
    /// Whether the call failed (non-zero exit, timeout, bad arguments, no such file, no display).
    pub failed: bool,
}

impl ToolResult {
    fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), gap: None, status: None, failed: false }
    }

    fn refused(reason: impl std::fmt::Display) -> Self {
        Self { text: format!("error: {reason}"), gap: None, status: None, failed: true }
    }
}

/// A running terminal. Dropping it kills everything inside.
pub struct Terminal {
    session: Box<dyn Session>,
    /// Time of one call per tool on offer.
    timeouts: BTreeMap<ToolName, Duration>,
    /// Where the sandbox cuts long output: [`Policy::output_bytes`].
    output_bytes: usize,
    notes: String,
    /// Why the sandbox killed everything in the session, once it did. What is left is the workspace.
    killed: Option<&'static str>,
}

impl Terminal {
    /// Starts the sandbox with the task's files and the harness's helper scripts.
    ///
    /// # Errors
    /// When the sandbox does not start.
    pub async fn start(sandbox: &dyn Sandbox, policy: &Policy, task: &Task, genome: &Genome) -> Result<Self, EnvironmentError> {
        let session = sandbox.start(policy, &task.body().files, &genome.provisioning).await?;
        let timeouts = genome.tools.iter().map(|(tool, gene)| (*tool, Duration::from_secs(u64::from(gene.timeout_seconds)))).collect();
        Ok(Self { session, timeouts, output_bytes: policy.output_bytes, notes: String::new(), killed: None })
    }

    /// Absolute path of the workspace as programs inside see it.
    #[must_use]
    pub fn workspace(&self) -> &str {
        self.session.workspace()
    }

    /// What the `notes` tool last wrote.
    #[must_use]
    pub fn notes(&self) -> &str {
        &self.notes
    }

    /// Plays one tool call within `remaining`, what is left of the episode's time. Bad arguments are a failed result, not an error.
    ///
    /// # Errors
    /// When the sandbox is gone.
    pub async fn call(&mut self, tool: ToolName, arguments: &Value, remaining: Duration) -> Result<ToolResult, EnvironmentError> {
        let Some(own) = self.timeouts.get(&tool).copied() else {
            return Ok(ToolResult::refused(format_args!("the tool `{}` is not offered", tool.as_str())));
        };
        let action = match parse(tool, arguments) {
            Ok(action) => action,
            Err(reason) => return Ok(ToolResult::refused(reason)),
        };
        let time = CallTime { own, remaining };
        let workspace = self.session.workspace().to_owned();
        Ok(match action {
            Action::Bash { command } => self.run(&command, "", time).await?,
            Action::Python { code } => self.run(&scripts::python(&workspace), &code, time).await?,
            Action::ReadFile { path, offset: 1, limit: None } => self.run(&scripts::read_whole(&workspace, &path), "", time).await?,
            Action::ReadFile { path, offset, limit } => self.read_lines(&workspace, &path, offset, limit, time).await?,
            Action::WriteFile { path, content } => {
                let written = self.run(&scripts::write(&workspace, &path), &content, time).await?;
                said(written, || format!("wrote {} bytes to {path}", content.len()))
            }
            Action::EditFile { path, find, replace } => self.edit(&workspace, &path, (&find, &replace), time).await?,
            Action::ListFiles { path } => self.run(&scripts::list(&workspace, path.as_deref().unwrap_or(".")), "", time).await?,
            Action::Search { pattern, path } => self.run(&scripts::search(&workspace, &pattern, path.as_deref()), "", time).await?,
            Action::Notes { text } => {
                self.notes = text;
                ToolResult::done(format!("noted {} bytes", self.notes.len()))
            }
            Action::Desktop => {
                ToolResult { text: "no display: this environment is a terminal".to_owned(), gap: None, status: None, failed: true }
            }
            Action::Finish => ToolResult::done("finished"),
        })
    }

    /// Kills everything and reads the workspace.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub async fn finish(self) -> Result<Snapshot, EnvironmentError> {
        Ok(self.session.finish().await?)
    }

    async fn read_lines(
        &mut self,
        workspace: &str,
        path: &str,
        offset: u64,
        limit: Option<u64>,
        time: CallTime,
    ) -> Result<ToolResult, EnvironmentError> {
        let result = self.run(&scripts::read_lines(workspace, path, offset, limit), "", time).await?;
        if !result.failed && result.text.is_empty() && offset > 1 {
            return Ok(ToolResult::refused(format_args!("{path} has fewer than {offset} lines")));
        }
        Ok(result)
    }

    /// Reads, replaces here, and writes back: no interpreter is needed inside, and a file that does not come out whole is refused.
    async fn edit(
        &mut self,
        workspace: &str,
        path: &str,
        (find, replace): (&str, &str),
        time: CallTime,
    ) -> Result<ToolResult, EnvironmentError> {
        let read = self.run(&scripts::read_whole(workspace, path), "", time).await?;
        if read.failed {
            return Ok(read);
        }
        if read.gap.is_some() {
            return Ok(ToolResult::refused(EditError::TooLong { path: path.to_owned(), limit: self.output_bytes }));
        }
        match edited(path, &read.text, find, replace) {
            Ok(text) => {
                let written = self.run(&scripts::write(workspace, path), &text, time).await?;
                Ok(said(written, || format!("edited {path}")))
            }
            Err(reason) => Ok(ToolResult::refused(reason)),
        }
    }

    async fn run(&mut self, command: &str, stdin: &str, time: CallTime) -> Result<ToolResult, EnvironmentError> {
        if let Some(reason) = self.killed {
            return Ok(ToolResult::refused(format_args!("nothing can be run any more: {reason}")));
        }
        let output = self.session.run(command, stdin, time.own.min(time.remaining)).await?;
        if let CommandEnd::Killed(reason) = output.end {
            self.killed = Some(reason);
        }
        Ok(result(output, time, self.output_bytes))
    }
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
struct CallTime {
    /// By the tool's gene.
    own: Duration,
    /// By what is left of the episode.
    remaining: Duration,
}

/// `result` with our own words in place of its text, if it succeeded.
fn said(result: ToolResult, words: impl FnOnce() -> String) -> ToolResult {
    if result.failed { result } else { ToolResult::done(words()) }
}

fn result(output: CommandOutput, time: CallTime, output_bytes: usize) -> ToolResult {
    let status = match output.end {
        CommandEnd::Exited(0) => None,
        CommandEnd::Exited(code) => Some(format!("[exit {code}]")),
        // The remaining time is a matter of the clock and must not be told.
        CommandEnd::TimedOut if time.remaining < time.own => Some("[timed out: the time of the episode is over]".to_owned()),
        CommandEnd::TimedOut => Some(format!("[timed out after {} s]", time.own.as_secs())),
        CommandEnd::ShellEnded(code) => Some(format!("[the shell ended with exit {code}; a new one stands in the workspace]")),
        CommandEnd::Killed(reason) => Some(format!("[everything was killed: {reason}]")),
    };
    let failed = !matches!(output.end, CommandEnd::Exited(0) | CommandEnd::ShellEnded(0));
    let (text, gap) = without_mark(output, output_bytes);
    ToolResult { text, gap, status, failed }
}

/// The text as it was printed and where bytes are missing in it. A sandbox marks the place with a line of its own; that line would stand
/// in the way of the harness's own cut, which counts these bytes with its own.
fn without_mark(output: CommandOutput, output_bytes: usize) -> (String, Option<Gap>) {
    let bytes = output.omitted_bytes;
    if bytes == 0 {
        return (output.text, None);
    }
    let mark = format!("\n[... {bytes} bytes left out ...]\n");
    match output.text.split_once(&mark) {
        Some((head, tail)) => ([head, tail].concat(), Some(Gap { at: head.len(), bytes })),
        None => {
            let at = output.text.floor_char_boundary(output_bytes / 2);
            (output.text, Some(Gap { at, bytes }))
        }
    }
}
