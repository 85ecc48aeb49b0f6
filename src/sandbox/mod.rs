//! Where untrusted programs run: policy as data, and backends.

mod policy;
mod session;

mod capture;
mod filter;
mod ground;
mod launch;
mod limits;
mod processes;
mod workspace;

mod cage;
mod live;
mod shell;

mod bubblewrap;
mod detect;
mod landlock;
mod null;

pub use bubblewrap::Bubblewrap;
pub use detect::{BackendReport, Finding, OpenedSandbox, open, probe};
pub use landlock::{Landlock, NOT_COVERED};
pub use null::NullSandbox;
pub use policy::{BackendKind, Policy};
pub use session::{CommandEnd, CommandOutput, Sandbox, SandboxError, Session};
