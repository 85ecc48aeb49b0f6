//! How an episode ended: scored, or a fault of one boundary.

use serde::{Deserialize, Serialize};

use crate::task::Verdict;

/// How an episode ended. Only `Scored` counts for or against a harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The check decided.
    Scored {
        /// The check's result.
        verdict: Verdict,
        /// What ended the agent's turn.
        ending: Ending,
    },
    /// Something other than the agent failed; the episode says nothing about the harness.
    Faulted {
        /// What failed.
        fault: Fault,
    },
}

impl Outcome {
    /// The score, if there is one.
    #[must_use]
    pub const fn score(&self) -> Option<f64> {
        match self {
            Self::Scored { verdict, .. } => Some(verdict.score),
            Self::Faulted { .. } => None,
        }
    }
}

/// What ended the agent's turn in a scored episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The agent finished.
    Finished,
    /// The step limit.
    StepLimit,
    /// The token limit.
    TokenLimit,
    /// The time limit of the episode.
    TimeLimit,
    /// Malformed replies beyond what the retry policy allows.
    Malformed,
    /// The same error beyond what the retry policy allows.
    ToolErrors,
}

/// The boundary at which something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// The model's endpoint.
    Provider,
    /// The harness itself (a template that does not render, for example).
    Harness,
    /// The sandbox.
    Sandbox,
    /// The environment over the sandbox.
    Environment,
    /// The task's data.
    Task,
    /// The check.
    Check,
}

/// A failure that is not the agent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{boundary:?} fault: {message}")]
pub struct Fault {
    /// Where.
    pub boundary: Boundary,
    /// What, without secrets.
    pub message: String,
}
