//! What reinforcement tells while it goes on. One JSON object a line in `metrics.jsonl`.

use serde::{Deserialize, Serialize};

/// What was played for a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayFigures {
    /// Groups that were played, replaced ones included.
    pub groups: u64,
    /// Of these, groups that teach nothing.
    pub dead: u64,
    /// Episodes.
    pub rollouts: u64,
    /// Mean reward of those that have one, of all groups: what the student is worth at this moment on these tasks. None where all faulted.
    pub reward: Option<f64>,
    /// Episodes with the full reward.
    pub solved: u64,
    /// Episodes that a limit cut off.
    pub truncated: u64,
    /// Episodes that say nothing about the student.
    pub faulted: u64,
    /// Tokens that were drawn.
    pub drawn_tokens: u64,
    /// Seconds it took. Differs from run to run; nothing depends on it.
    pub play_seconds: f64,
}

/// What was learnt in a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateFigures {
    /// The loss before the last update of the step.
    pub loss: f64,
    /// Samples that were learnt.
    pub samples: u64,
    /// Their tokens that were learnt.
    pub trained_tokens: u64,
    /// Samples left out because they are longer than a row.
    pub overlong: u64,
    /// Share of the learnt tokens whose ratio was cut, over all updates of the step.
    pub clipped: f64,
    /// Mean negative log-likelihood of the learnt tokens when they were drawn: an estimate of the entropy, in nats.
    pub entropy: f64,
    /// Mean distance between the log-probability of a token as training computes it and as it was when drawn, before the first update.
    /// Above a few hundredths, play and training do not compute the same.
    pub mismatch: f64,
    /// The gradient's norm before it was cut, in the last update.
    pub gradient_norm: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// Seconds it took. Differs from run to run; nothing depends on it.
    pub update_seconds: f64,
}

/// Something that happened in reinforcement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RlEvent {
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
    },
    /// A step was taken.
    Step {
        /// Its number, from 0.
        step: u64,
        /// What was played.
        #[serde(flatten)]
        play: PlayFigures,
        /// What was learnt; none where nothing could be, and the weights are as they were.
        update: Option<UpdateFigures>,
    },
    /// The state was saved.
    Saved {
        /// After so many steps.
        step: u64,
    },
}
