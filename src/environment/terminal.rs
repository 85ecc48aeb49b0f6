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

    pub(super) fn refused(reason: impl std::fmt::Display) -> Self {
        Self { text: format!("error: {reason}"), gap: None, status: None, failed: true }
    }
}

/// Where the agent's workspace is, as far as it can see. A backend that cannot mount has it elsewhere, at a path that differs from run
/// to run: that path is translated in both directions, so that no trajectory depends on it. What the agent writes into files is not
/// translated.
const WORKSPACE: &str = "/home/agent";

/// A running terminal. Dropping it kills everything inside.
pub struct Terminal {
    session: Box<dyn Session>,
    /// Time of one call per tool on offer.
    timeouts: BTreeMap<ToolName, Duration>,
    /// Where the sandbox cuts long output: [`Policy::output_bytes`].
    output_bytes: usize,
    notes: String,
}

impl Terminal {
    /// Starts the sandbox with the task's files and the harness's helper scripts.
    ///
    /// # Errors
    /// When the sandbox does not start.
    pub async fn start(sandbox: &dyn Sandbox, policy: &Policy, task: &Task, genome: &Genome) -> Result<Self, EnvironmentError> {
        let session = sandbox.start(policy, &task.body().files, &genome.provisioning).await?;
        let timeouts = genome.tools.iter().map(|(tool, gene)| (*tool, Duration::from_secs(u64::from(gene.timeout_seconds)))).collect();
        Ok(Self { session, timeouts, output_bytes: policy.output_bytes, notes: String::new() })
    }

    /// Absolute path of the workspace as the agent sees it.
    #[must_use]
    pub const fn workspace(&self) -> &'static str {
        WORKSPACE
    }

    /// What the `notes` tool last wrote.
    #[must_use]
    pub fn notes(&self) -> &str {
        &self.notes
    }

    /// Plays one tool call within `remaining`, what is left of the episode's time. Bad arguments are a failed result, not an error, and
    /// so is a shell that cannot be started again over the files that the agent left.
    ///
    /// # Errors
    /// When the sandbox is gone.
    pub async fn call(&mut self, tool: ToolName, arguments: &Value, remaining: Duration) -> Result<ToolResult, EnvironmentError> {
        match self.act(tool, arguments, remaining).await {
            Err(EnvironmentError::Sandbox(error @ SandboxError::Overfull { .. })) => {
                Ok(ToolResult::refused(format_args!("the shell ended and cannot be started again: {error}")))
            }
            result => result,
        }
    }

    async fn act(&mut self, tool: ToolName, arguments: &Value, remaining: Duration) -> Result<ToolResult, EnvironmentError> {
        let Some(own) = self.timeouts.get(&tool).copied() else {
            return Ok(ToolResult::refused(format_args!("the tool `{}` is not offered", tool.as_str())));
        };
        let action = match parse(tool, arguments) {
            Ok(action) => action,
            Err(reason) => return Ok(ToolResult::refused(reason)),
        };
        let time = CallTime { own, remaining };
        let workspace = WORKSPACE;
        Ok(match action {
            Action::Bash { command } => self.run(&command, "", time).await?,
            Action::Python { code } => {
                let code = self.inward(&code);
                self.run(&scripts::python(workspace), &code, time).await?
            }
            Action::ReadFile { path, offset: 1, limit: None } => self.run(&scripts::read_whole(workspace, &path), "", time).await?,
            Action::ReadFile { path, offset, limit } => self.read_lines(workspace, &path, offset, limit, time).await?,
            Action::WriteFile { path, content } => {
                let written = self.run(&scripts::write(workspace, &path), &content, time).await?;
                said(written, || format!("wrote {} bytes to {path}", content.len()))
            }
            Action::EditFile { path, find, replace } => self.edit(workspace, &path, (&find, &replace), time).await?,
            Action::ListFiles { path } => self.run(&scripts::list(workspace, path.as_deref().unwrap_or(".")), "", time).await?,
            Action::Search { pattern, path } => self.run(&scripts::search(workspace, &pattern, path.as_deref()), "", time).await?,
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
        let command = self.inward(command);
        let mut output = self.session.run(&command, stdin, time.own.min(time.remaining)).await?;
        if self.session.workspace() != WORKSPACE {
            output.text = output.text.replace(self.session.workspace(), WORKSPACE);
        }
        Ok(result(output, time, self.output_bytes))
    }

    /// `text` with the path of the workspace as the session has it.
    fn inward(&self, text: &str) -> String {
        text.replace(WORKSPACE, self.session.workspace())
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
        CommandEnd::Killed(reason) => {
            Some(format!("[all processes were killed, over the limit of {reason}; a new shell stands in the workspace]"))
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::environment::strict::{Expected, StrictSandbox};
    use crate::harness::ToolGene;

    const HOUR: Duration = Duration::from_secs(3600);

    async fn terminal(commands: Vec<Expected>) -> Terminal {
        let sandbox = StrictSandbox::default().session(commands, &Snapshot::new());
        let tools = ToolName::ALL.into_iter().filter(|tool| *tool != ToolName::Python).map(|tool| (tool, ToolGene::default())).collect();
        let genome = Genome { tools, ..Genome::default() };
        let task = crate::episode::tests::task();
        Terminal::start(&sandbox, &Policy { output_bytes: 8, ..Policy::default() }, &task, &genome).await.unwrap()
    }

    async fn call(terminal: &mut Terminal, tool: ToolName, arguments: Value) -> ToolResult {
        terminal.call(tool, &arguments, HOUR).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_tells_how_it_ended() {
        let slow = || Expected::new("slow", "", 0).after(Duration::from_secs(40));
        let mut terminal = terminal(vec![
            Expected::new("ok", "out\n", 0),
            Expected::new("bad", "no\n", 2),
            slow(),
            slow(),
            Expected::new("exit", "", 0).ending(CommandEnd::ShellEnded(3)),
            Expected::new("hog", "", 0).ending(CommandEnd::Killed("memory")),
        ])
        .await;
        let bash = |command: &str| json!({ "command": command });
        assert_eq!(call(&mut terminal, ToolName::Bash, bash("ok")).await, ToolResult::done("out\n"));
        let bad = call(&mut terminal, ToolName::Bash, bash("bad")).await;
        assert_eq!((bad.text.as_str(), bad.status.as_deref(), bad.failed), ("no\n", Some("[exit 2]"), true));
        let slow = call(&mut terminal, ToolName::Bash, bash("slow")).await;
        assert_eq!((slow.status.as_deref(), slow.failed), (Some("[timed out after 30 s]"), true));
        let cut_short = terminal.call(ToolName::Bash, &bash("slow"), Duration::from_millis(2500)).await.unwrap();
        assert_eq!(cut_short.status.as_deref(), Some("[timed out: the time of the episode is over]"));
        let ended = call(&mut terminal, ToolName::Bash, bash("exit 3")).await;
        assert!(ended.failed && ended.status.unwrap().contains("exit 3; a new one"));
        assert!(call(&mut terminal, ToolName::Bash, bash("hog")).await.status.unwrap().contains("over the limit of memory"));
        assert!(terminal.finish().await.is_ok());
    }

    #[tokio::test]
    async fn bytes_that_the_sandbox_left_out_are_found_again() {
        let marked = "0123\n[... 90 bytes left out ...]\nwxyz";
        let mut terminal = terminal(vec![Expected::new("a", marked, 0).omitting(90), Expected::new("b", "01234567", 0).omitting(5)]).await;
        let first = call(&mut terminal, ToolName::Bash, json!({"command": "a"})).await;
        assert_eq!((first.text.as_str(), first.gap), ("0123wxyz", Some(Gap { at: 4, bytes: 90 })));
        let second = call(&mut terminal, ToolName::Bash, json!({"command": "b"})).await;
        assert_eq!((second.text.as_str(), second.gap), ("01234567", Some(Gap { at: 4, bytes: 5 })));
    }

    #[tokio::test]
    async fn an_edit_reads_and_writes_back_only_what_came_out_whole() {
        let mut terminal = terminal(vec![
            Expected::new("cat -- './f'", "a b\n", 0),
            Expected::new("tee -- './f'", "", 0).stdin("a c\n"),
            Expected::new("cat -- './f'", "a b\n", 0),
            Expected::new("cat -- './f'", "aaaabbbb", 0).omitting(3),
            Expected::new("cat -- './no'", "error: there is no file no\n", 1),
        ])
        .await;
        let edit = |path: &str, find: &str| json!({ "path": path, "find": find, "replace": "c" });
        assert_eq!(call(&mut terminal, ToolName::EditFile, edit("f", "b")).await, ToolResult::done("edited f"));
        assert!(call(&mut terminal, ToolName::EditFile, edit("f", "zz")).await.text.starts_with("error: `find` does not occur"));
        assert!(call(&mut terminal, ToolName::EditFile, edit("f", "a")).await.text.contains("longer than 8 bytes"));
        let missing = call(&mut terminal, ToolName::EditFile, edit("no", "a")).await;
        assert_eq!((missing.text.as_str(), missing.failed), ("error: there is no file no\n", true));
    }

    #[tokio::test]
    async fn what_needs_no_sandbox_does_not_use_it() {
        let mut terminal = terminal(vec![Expected::new("sed -n '7,$p'", "", 0)]).await;
        let display = call(&mut terminal, ToolName::Screenshot, json!({})).await;
        assert_eq!((display.text.as_str(), display.failed), ("no display: this environment is a terminal", true));
        assert_eq!(call(&mut terminal, ToolName::ComputerUse, json!({"action": 1})).await, display);
        assert!(!call(&mut terminal, ToolName::Notes, json!({"text": "remember"})).await.failed);
        assert_eq!(terminal.notes(), "remember");
        assert!(call(&mut terminal, ToolName::Notes, json!({"txt": "x"})).await.text.starts_with("error: there is no argument `txt`"));
        assert!(call(&mut terminal, ToolName::Python, json!({"code": "1"})).await.text.contains("`python` is not offered"));
        let beyond = call(&mut terminal, ToolName::ReadFile, json!({"path": "f", "offset": 7})).await;
        assert_eq!((beyond.text.as_str(), beyond.failed), ("error: f has fewer than 7 lines", true));
    }
}
