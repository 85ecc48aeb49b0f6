//! What the search needs to know of an episode.

use serde::{Deserialize, Serialize};

use crate::task::TaskId;

/// A scored episode, without its trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpisodeScore {
    /// The task.
    pub task: TaskId,
    /// The episode's seed.
    pub seed: u64,
    /// In `[0, 1]`; 1 is solved.
    pub score: f64,
    /// Model replies.
    pub steps: u32,
    /// Prompt and completion tokens of the scored attempt.
    pub tokens: u64,
    /// Price of those tokens in millionths of a US dollar.
    pub micro_usd: u64,
    /// Tokens of faulted attempts before it: paid for, but no property of the harness.
    #[serde(default)]
    pub lost_tokens: u64,
    /// Price of those.
    #[serde(default)]
    pub lost_micro_usd: u64,
    /// Calls that went to shell or files.
    pub shell_calls: u32,
    /// Calls that went to the desktop.
    pub gui_calls: u32,
}

impl EpisodeScore {
    /// Whether the task was solved.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.score >= 1.0
    }
}
