//! The world an agent sees over a sandbox: acts, tools, observations, and the check after the end.

mod act;
mod arguments;
mod edit;
mod observation;
mod schemas;
mod scripts;
mod terminal;
mod verdict;

pub use act::perform;
pub use observation::{CallFailure, Gap, cut, elided, observe, told_failure};
pub use schemas::tool_schemas;
pub use terminal::{EnvironmentError, Terminal, ToolResult};
pub use verdict::{check, forfeit};

#[cfg(test)]
pub(crate) mod strict;
