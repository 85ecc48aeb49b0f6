//! Training runs: supervised fine-tuning, its state on disk, and what it tells of itself.

mod checkpoint;
mod error;
mod event;
mod plan;
mod sft;

pub use checkpoint::{Checkpoints, TrainingState};
pub use error::TrainingError;
pub use event::{Continue, Measured, TrainingEvent};
pub use plan::TrainingPlan;
pub use sft::{EndReason, SftEnd, sft};

#[cfg(test)]
mod tests;
