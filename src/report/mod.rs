//! Consumers of events.

mod plain;
mod progress;
mod reporter;
mod tally;

pub use plain::PlainReporter;
pub use progress::ProgressReporter;
pub use reporter::{Reporter, SilentReporter};
