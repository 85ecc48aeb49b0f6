//! Experiment files to validated values.

mod experiment;
#[cfg(feature = "student")]
mod reinforcement;
mod teacher;
#[cfg(feature = "student")]
mod training;
mod written;

pub use experiment::{ConfigError, Experiment, SandboxChoice, Seed, TaskCheck, load, parse};
#[cfg(feature = "student")]
pub use reinforcement::{Reinforcement, load_reinforcement, parse_reinforcement};
pub use teacher::Teacher;
#[cfg(feature = "student")]
pub use training::{load_training, parse_training};
