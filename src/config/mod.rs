//! Experiment files to validated values.

mod experiment;
mod teacher;
#[cfg(feature = "student")]
mod training;
mod written;

pub use experiment::{ConfigError, Experiment, SandboxChoice, Seed, TaskCheck, load, parse};
pub use teacher::Teacher;
#[cfg(feature = "student")]
pub use training::{load_training, parse_training};
