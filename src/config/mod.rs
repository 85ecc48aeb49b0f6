//! Experiment files to validated values.

mod experiment;
mod teacher;
mod written;

pub use experiment::{ConfigError, Experiment, SandboxChoice, Seed, TaskCheck, load, parse};
pub use teacher::Teacher;
