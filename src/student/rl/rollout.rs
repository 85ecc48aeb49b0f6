//! Episodes that the student played, token in and token out.

use std::path::PathBuf;

use crate::task::TaskId;

/// An episode as the student saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// The seed of the episode.
    pub seed: u64,
    /// Its requests and replies, in order.
    pub turns: Vec<Turn>,
    /// How it ended.
    pub end: RolloutEnd,
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RolloutEnd {
    /// It was scored, and the agent had ended it or failed for good.
    Scored {
        /// From 0 to 1.
        reward: f64,
    },
    /// It was scored where a limit of steps, tokens or time had cut it off.
    Truncated {
        /// From 0 to 1.
        reward: f64,
    },
    /// It says nothing about the student.
    Faulted,
}

impl RolloutEnd {
    /// The reward, if there is one.
    #[must_use]
    pub const fn reward(self) -> Option<f64> {
        match self {
            Self::Scored { reward } | Self::Truncated { reward } => Some(reward),
            Self::Faulted => None,
        }
    }
}

/// One request and its reply, as token ids. Nothing is ever encoded again: what was sampled is what is learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The request, as it was read.
    pub prompt: Vec<u32>,
    /// The reply, with the token that ended it.
    pub reply: Vec<u32>,
    /// Of each token of the reply the natural logarithm of its probability when it was drawn.
    pub logprobs: Vec<f64>,
}

/// Episodes of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The task.
    pub task: TaskId,
    /// The members, each with a seed of its own.
    pub rollouts: Vec<Rollout>,
}

impl Group {
    /// Rewards of the members that have one.
    #[must_use]
    pub fn rewards(&self) -> Vec<f64> {
        self.rollouts.iter().filter_map(|rollout| rollout.end.reward()).collect()
    }
}

/// Whoever plays: the engine's own episodes, with the student as it is at that moment.
pub trait Rollouts {
    /// Names what is played, the student apart: tasks and harness. State of another run is refused by it.
    fn identity(&self) -> String;

    /// Plays `count` groups of `size` members for `step`. Groups `from` to `from + count` of a step are the same whenever they are asked
    /// for, as long as the student's weights are.
    ///
    /// # Errors
    /// [`RolloutError::Stopped`] when told to stop, else what keeps episodes from being played at all.
    fn play(&mut self, step: u64, from: usize, count: usize, size: usize) -> Result<Vec<Group>, RolloutError>;
}

/// Episodes that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The user stopped them.
    #[error("stopped while episodes were played")]
    Stopped,
    /// The episodes of a step cannot be kept.
    #[error("{}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}
