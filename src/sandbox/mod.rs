//! Where untrusted programs run: policy as data, and backends.

mod null;
mod policy;
mod session;

pub use null::NullSandbox;
pub use policy::{BackendKind, Policy};
pub use session::{CommandEnd, CommandOutput, Sandbox, SandboxError, Session};
