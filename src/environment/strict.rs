//! A sandbox for tests that runs nothing: it expects commands in order and answers as its script says. Anything unexpected ends it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::Snapshot;
use crate::sandbox::{CommandEnd, CommandOutput, Policy, Sandbox, SandboxError, Session};

/// One expected command.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// A text the command must hold.
    command: &'static str,
    /// A text the standard input must be.
    stdin: Option<&'static str>,
    delay: Duration,
    output: Result<CommandOutput, &'static str>,
}

impl Expected {
    /// A command that holds `command`, prints `text` and exits with `status`.
    pub(crate) fn new(command: &'static str, text: &str, status: i32) -> Self {
        let output = CommandOutput { text: text.to_owned(), omitted_bytes: 0, end: CommandEnd::Exited(status) };
        Self { command, stdin: None, delay: Duration::ZERO, output: Ok(output) }
    }

    /// A command at which the sandbox dies.
    pub(crate) fn dies(command: &'static str) -> Self {
        Self { output: Err("the machine is gone"), ..Self::new(command, "", 0) }
    }

    pub(crate) fn stdin(self, stdin: &'static str) -> Self {
        Self { stdin: Some(stdin), ..self }
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    pub(crate) fn omitting(mut self, omitted_bytes: u64) -> Self {
        if let Ok(output) = &mut self.output {
            output.omitted_bytes = omitted_bytes;
        }
        self
    }

    pub(crate) fn ending(mut self, end: CommandEnd) -> Self {
        if let Ok(output) = &mut self.output {
            output.end = end;
        }
        self
    }
}

/// A sandbox with a script per session.
#[derive(Default)]
pub(crate) struct StrictSandbox {
    sessions: Mutex<VecDeque<(Vec<Expected>, Snapshot)>>,
    events: Arc<Mutex<Vec<String>>>,
}

impl StrictSandbox {
    /// A sandbox that does not start.
    pub(crate) fn broken() -> Self {
        Self::default()
    }

    /// Adds a session that expects `commands` and leaves `files` behind.
    pub(crate) fn session(self, commands: impl IntoIterator<Item = Expected>, files: &Snapshot) -> Self {
        self.sessions.lock().unwrap().push_back((commands.into_iter().collect(), files.clone()));
        self
    }

    /// What happened: `start`, `run`, `finish`, `dead` (a session was dropped), and `left N` for commands that never came.
    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

struct StrictSession {
    expected: VecDeque<Expected>,
    files: Snapshot,
    events: Arc<Mutex<Vec<String>>>,
}

impl StrictSession {
    fn event(&self, event: impl Into<String>) {
        self.events.lock().unwrap().push(event.into());
    }
}

#[async_trait::async_trait]
impl Sandbox for StrictSandbox {
    fn name(&self) -> &'static str {
        "strict"
    }

    async fn start(&self, _: &Policy, _: &Snapshot, _: &BTreeMap<String, String>) -> Result<Box<dyn Session>, SandboxError> {
        let Some((expected, files)) = self.sessions.lock().unwrap().pop_front() else {
            return Err(SandboxError::Unavailable { backend: "strict", reason: "no session is left".to_owned() });
        };
        let session = StrictSession { expected: expected.into(), files, events: Arc::clone(&self.events) };
        session.event("start");
        Ok(Box::new(session))
    }
}

#[async_trait::async_trait]
impl Session for StrictSession {
    fn workspace(&self) -> &'static str {
        "/home/agent"
    }

    async fn run(&mut self, command: &str, stdin: &str, timeout: Duration) -> Result<CommandOutput, SandboxError> {
        self.event("run");
        let Some(expected) = self.expected.pop_front() else {
            return Err(SandboxError::Ended(format!("unexpected command: {command}")));
        };
        if !command.contains(expected.command) || expected.stdin.is_some_and(|wanted| wanted != stdin) {
            return Err(SandboxError::Ended(format!("expected {expected:?}, got {command} with {stdin:?}")));
        }
        if expected.delay > timeout {
            tokio::time::sleep(timeout).await;
            return Ok(CommandOutput { text: String::new(), omitted_bytes: 0, end: CommandEnd::TimedOut });
        }
        tokio::time::sleep(expected.delay).await;
        expected.output.map_err(|reason| SandboxError::Ended(reason.to_owned()))
    }

    async fn finish(self: Box<Self>) -> Result<Snapshot, SandboxError> {
        self.event("finish");
        Ok(self.files.clone())
    }
}

impl Drop for StrictSession {
    fn drop(&mut self) {
        if !self.expected.is_empty() {
            self.event(format!("left {}", self.expected.len()));
        }
        self.event("dead");
    }
}
