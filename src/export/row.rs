//! What every format is made from.

use std::path::PathBuf;

use crate::harness::HarnessId;
use crate::task::{JobType, SkillName, Split};
use crate::trajectory::{Outcome, Trajectory};

/// One episode with its provenance.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What happened.
    pub trajectory: Trajectory,
    /// The kind of work.
    pub job_type: JobType,
    /// The ability.
    pub skill: SkillName,
    /// The split of the task.
    pub split: Split,
    /// The way from a seed to the harness.
    pub path: Vec<PathStep>,
    /// Whether the model is a simulation.
    pub simulated: bool,
    /// What the task's licence asks of whoever uses the data.
    pub licence: Option<String>,
}

/// One harness on the way from a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStep {
    /// The harness.
    pub harness: HarnessId,
    /// The operator that made it, or `seed`.
    pub made_by: String,
}

/// What an export holds and what it left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines written.
    pub written: usize,
    /// Episodes that say the same as another, word for word.
    pub duplicates: usize,
    /// Episodes that were not solved.
    pub unsolved: usize,
    /// Episodes of sealed tasks.
    pub sealed: usize,
}

/// An export that was not written. What stood at the path before still stands there.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A value has no JSON form.
    #[error("an episode cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The file cannot be written.
    #[error("{path} cannot be written: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Whether a row may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fitness {
    /// Solved, and of a split that may be trained on.
    Fit,
    /// The check was not passed, or nothing was decided.
    Unsolved,
    /// Of a sealed task.
    Sealed,
}

impl Row {
    pub(super) fn fitness(&self) -> Fitness {
        match (&self.trajectory.outcome, self.split) {
            (_, Split::Sealed) => Fitness::Sealed,
            (Outcome::Scored { verdict, .. }, Split::Search | Split::Validate) if verdict.passed() => Fitness::Fit,
            (Outcome::Scored { .. } | Outcome::Faulted { .. }, Split::Search | Split::Validate) => Fitness::Unsolved,
        }
    }
}
