//! Consumers of events.

mod jsonl;
mod plain;
mod progress;
mod reporter;
mod tally;

pub use jsonl::JsonlReporter;
pub use plain::PlainReporter;
pub use progress::ProgressReporter;
pub use reporter::{BothReporters, Reporter, SilentReporter};
