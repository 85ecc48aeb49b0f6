//! A sandbox in which nothing runs: for benches of everything around it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{CommandEnd, CommandOutput, Policy, Sandbox, SandboxError, Session};
use crate::base::Snapshot;

/// Every command succeeds at once, prints nothing and changes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullSandbox;

struct NullSession {
    files: Snapshot,
}

#[async_trait::async_trait]
impl Sandbox for NullSandbox {
    fn name(&self) -> &'static str {
        "null"
    }

    async fn start(
        &self,
        _policy: &Policy,
        files: &Snapshot,
        _helpers: &BTreeMap<String, String>,
    ) -> Result<Box<dyn Session>, SandboxError> {
        Ok(Box::new(NullSession { files: files.clone() }))
    }
}

#[async_trait::async_trait]
impl Session for NullSession {
    fn workspace(&self) -> &'static str {
        "/home/agent"
    }

    async fn run(&mut self, _command: &str, _stdin: &str, _timeout: Duration) -> Result<CommandOutput, SandboxError> {
        Ok(CommandOutput { text: String::new(), omitted_bytes: 0, end: CommandEnd::Exited(0) })
    }

    async fn finish(self: Box<Self>) -> Result<Snapshot, SandboxError> {
        Ok(self.files)
    }
}
