//! The episode loop.

use tokio_util::sync::CancellationToken;

use crate::harness::Harness;
use crate::model::LanguageModel;
use crate::sandbox::{Policy, Sandbox};
use crate::task::Task;
use crate::trajectory::{Timing, Trajectory};

/// What is to be played.
#[derive(Clone, Copy)]
pub struct Episode<'a> {
    /// The harness.
    pub harness: &'a Harness,
    /// The task.
    pub task: &'a Task,
    /// The seed.
    pub seed: u64,
    /// The model.
    pub model: &'a dyn LanguageModel,
    /// Where tools and checks run.
    pub sandbox: &'a dyn Sandbox,
    /// What the sandbox allows.
    pub policy: &'a Policy,
}

/// A played episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// What happened, with the outcome.
    pub trajectory: Trajectory,
    /// Where the time went.
    pub timing: Timing,
    /// Price in millionths of a US dollar.
    pub micro_usd: u64,
    /// Calls that went to shell or files.
    pub shell_calls: u32,
    /// Calls that went to the desktop.
    pub gui_calls: u32,
}

/// Plays an episode to its end. Every failure that is not the agent's is a faulted outcome, never an error or a score.
/// Returns `None` when `cancel` was triggered: the episode then did not happen, and everything it started is dead.
pub async fn play(episode: &Episode<'_>, cancel: &CancellationToken) -> Option<Played> {
    let _ = (episode, cancel);
    None
}
