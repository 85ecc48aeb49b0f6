//! What reporters are told. A closed set: every reporter handles every event.

use serde::{Deserialize, Serialize};

use super::record::{Effect, StepPlan};
use crate::base::Amount;
use crate::harness::HarnessId;
use crate::task::{JobType, Split, TaskId};
use crate::trajectory::Fault;

/// How an attempt at an episode ended. In the event it is a key of its own: `"score": 0.5` or `"fault": {...}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// With this score.
    Score(f64),
    /// With a fault, which is no score.
    Fault(Fault),
}

impl From<Result<f64, Fault>> for AttemptEnd {
    fn from(result: Result<f64, Fault>) -> Self {
        match result {
            Ok(score) => Self::Score(score),
            Err(fault) => Self::Fault(fault),
        }
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run starts or goes on.
    Started {
        /// Steps that were committed before.
        resumed_steps: u64,
        /// The budget.
        limit: Amount,
        /// What was spent before.
        spent: Amount,
        /// The kinds of work.
        job_types: Vec<JobType>,
        /// Whether the model is a simulation.
        simulated: bool,
    },
    /// An attempt at an episode ended.
    EpisodeDone {
        /// The harness.
        harness: HarnessId,
        /// The kind of work.
        job_type: JobType,
        /// The split.
        split: Split,
        /// The task.
        task: TaskId,
        /// How it ended.
        #[serde(flatten)]
        result: AttemptEnd,
    },
    /// A step was committed.
    StepCommitted {
        /// Its number.
        step: u64,
        /// What it set out to do.
        plan: StepPlan,
        /// Whether it was refused.
        refused: Option<String>,
        /// What it changed.
        effects: Vec<Effect>,
        /// What the run has spent.
        spent: Amount,
    },
    /// A phase after the search began (final validation, baseline).
    Phase {
        /// Its name.
        name: String,
        /// Episodes it will play.
        episodes: u64,
    },
    /// The run stops.
    Stopped {
        /// Why.
        reason: String,
    },
}
