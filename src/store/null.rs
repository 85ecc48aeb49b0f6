//! A journal and a log that keep nothing: for tests and benches of everything around them.

use crate::evaluation::{EpisodeKey, EpisodeLog, EpisodeScore, LogError};
use crate::evolution::{Journal, JournalError, StepRecord};
use crate::task::Split;
use crate::trajectory::{Timing, Trajectory};

/// A journal that forgets every step.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullJournal;

impl Journal for NullJournal {
    fn commit(&mut self, _record: &StepRecord) -> Result<(), JournalError> {
        Ok(())
    }
}

/// A log that forgets every episode.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullEpisodeLog;

#[async_trait::async_trait]
impl EpisodeLog for NullEpisodeLog {
    async fn find(&self, _key: &EpisodeKey) -> Result<Option<EpisodeScore>, LogError> {
        Ok(None)
    }

    async fn trajectory(&self, _key: &EpisodeKey) -> Result<Option<Trajectory>, LogError> {
        Ok(None)
    }

    async fn record(
        &self,
        _key: &EpisodeKey,
        _split: Split,
        _attempt: u32,
        _trajectory: &Trajectory,
        _timing: Timing,
        _score: Option<&EpisodeScore>,
    ) -> Result<(), LogError> {
        Ok(())
    }
}
