//! The trajectory of one episode.

use serde::{Deserialize, Serialize};

use super::{Message, Outcome, ToolSchema, Usage};
use crate::harness::HarnessId;
use crate::task::TaskId;

/// Which episode and step a request belongs to. It stays on this side: nothing of it is sent to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestTag {
    /// The task, or for requests of operators the zero id.
    pub task: Option<TaskId>,
    /// The episode's seed.
    pub seed: u64,
    /// Number of the request within the episode, from 0, retries of a failed request not counted.
    pub step: u32,
}

/// What happened in an episode, message by message. Holds nothing that depends on the wall clock: see [`Timing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The harness.
    pub harness: HarnessId,
    /// The model.
    pub model: String,
    /// The task.
    pub task: TaskId,
    /// The episode's seed.
    pub seed: u64,
    /// The tools as they were offered.
    pub tools: Vec<ToolSchema>,
    /// All messages in order, as they happened (before any compaction).
    pub messages: Vec<Message>,
    /// Usage per reply, in order.
    pub usage: Vec<Usage>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Trajectory {
    /// Usage of the whole episode.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.usage.iter().fold(Usage::default(), |sum, usage| sum.plus(*usage))
    }

    /// Model replies.
    #[must_use]
    pub fn steps(&self) -> u32 {
        u32::try_from(self.usage.len()).unwrap_or(u32::MAX)
    }
}

/// Where the time of an episode went, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// From start to verdict.
    pub total_ms: u64,
    /// Waiting for the model.
    pub model_ms: u64,
    /// Running tools.
    pub tools_ms: u64,
    /// Starting and ending the sandbox.
    pub sandbox_ms: u64,
    /// Checking.
    pub check_ms: u64,
}
