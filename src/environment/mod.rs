//! The world an agent sees over a sandbox: acts, tools, observations, and the check after the end.

mod act;
mod terminal;
mod verdict;

pub use act::perform;
pub use terminal::{EnvironmentError, Terminal, ToolResult, tool_schemas};
pub use verdict::check;
