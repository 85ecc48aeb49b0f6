//! What a training run tells while it goes on. One JSON object a line in `metrics.jsonl`.

use serde::{Deserialize, Serialize};

/// Whether training goes on after what it told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// It does.
    Yes,
    /// It saves its state and stops.
    Stop,
}

/// The held-out part, measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Mean negative log-likelihood of a learnt token, in nats.
    pub loss: f64,
    /// Over how many.
    pub tokens: u64,
}

/// Something that happened in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TrainingEvent {
    /// It starts, or goes on.
    Started {
        /// The step it starts at, from 0.
        step: u64,
        /// Steps in all.
        steps: u64,
        /// Weights that train.
        trained_parameters: u64,
        /// All weights.
        parameters: u64,
        /// Rows of an epoch.
        rows: u64,
    },
    /// A step was taken.
    Step {
        /// Its number, from 0.
        step: u64,
        /// Mean negative log-likelihood of a learnt token before the step, in nats.
        loss: f64,
        /// The gradient's norm before it was cut.
        gradient_norm: f64,
        /// The learning rate.
        learning_rate: f64,
        /// Tokens of its rows, padding not counted.
        tokens: u64,
        /// Of these, learnt.
        trained_tokens: u64,
        /// Seconds it took. Differs from run to run; nothing depends on it.
        seconds: f64,
    },
    /// The held-out part was measured.
    Evaluated {
        /// After so many steps.
        step: u64,
        /// The figures.
        #[serde(flatten)]
        held_out: Measured,
        /// Whether it is the best so far.
        best: bool,
    },
    /// The state was saved.
    Saved {
        /// After so many steps.
        step: u64,
    },
}
