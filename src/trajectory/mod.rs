//! What happened in an episode: messages, tool calls, usage, outcome.

mod message;
mod outcome;
mod record;
mod redaction;

pub use message::{ContentPart, Message, Role, ToolCall, ToolSchema, Usage};
pub use outcome::{Boundary, Ending, Fault, Outcome};
pub use record::{RequestTag, Timing, Trajectory};
pub use redaction::{REDACTED, redact, redact_trajectory};
