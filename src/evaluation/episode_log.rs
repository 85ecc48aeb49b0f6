//! Where episodes are kept. The store implements it; nothing here knows SQLite.

use crate::harness::HarnessId;
use crate::task::{Split, TaskId};
use crate::trajectory::{Timing, Trajectory};

use super::EpisodeScore;

/// What makes an episode the same episode. The model is fixed per log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpisodeKey {
    /// The harness.
    pub harness: HarnessId,
    /// The task.
    pub task: TaskId,
    /// The episode's seed.
    pub seed: u64,
    /// [`crate::model::ModelId::fingerprint`].
    pub model: String,
}

/// The log could not be read or written. The run stops: an episode that cannot be kept must not be paid for twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the episode log failed: {0}")]
pub struct LogError(pub String);

/// A record of played episodes, shared by all workers.
#[async_trait::async_trait]
pub trait EpisodeLog: Send + Sync {
    /// The scored episode under `key`, if it was played before.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn find(&self, key: &EpisodeKey) -> Result<Option<EpisodeScore>, LogError>;

    /// The trajectory of the scored episode under `key`, if it was played before.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn trajectory(&self, key: &EpisodeKey) -> Result<Option<Trajectory>, LogError>;

    /// Keeps one attempt at an episode, scored or faulted, durably against the death of this process. `score` is present when
    /// it was scored; `attempt` counts from 0.
    ///
    /// # Errors
    /// When it cannot be written.
    async fn record(
        &self,
        key: &EpisodeKey,
        split: Split,
        attempt: u32,
        trajectory: &Trajectory,
        timing: Timing,
        score: Option<&EpisodeScore>,
    ) -> Result<(), LogError>;
}
