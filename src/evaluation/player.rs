//! What plays an episode. The real player stands here; benches and the ask/tell interface bring others.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::episode::{Episode, Played, play};
use crate::harness::Harness;
use crate::model::LanguageModel;
use crate::sandbox::{Policy, Sandbox};
use crate::task::Task;

/// Plays episodes of one model.
#[async_trait::async_trait]
pub trait EpisodePlayer: Send + Sync {
    /// What the model is memoised under.
    fn fingerprint(&self) -> &str;

    /// Most a million tokens can cost, in millionths of a US dollar: what a reservation assumes.
    fn worst_price(&self) -> u64;

    /// Plays one episode; `None` when `cancel` was triggered.
    async fn play(&self, harness: &Harness, task: &Task, seed: u64, cancel: &CancellationToken) -> Option<Played>;
}

/// Plays episodes with a language model in a sandbox.
pub struct ModelPlayer {
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// Where tools and checks run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What the sandbox allows.
    pub policy: Policy,
}

#[async_trait::async_trait]
impl EpisodePlayer for ModelPlayer {
    fn fingerprint(&self) -> &str {
        &self.model.id().fingerprint
    }

    fn worst_price(&self) -> u64 {
        self.model.price().into_iter().max().unwrap_or(0)
    }

    async fn play(&self, harness: &Harness, task: &Task, seed: u64, cancel: &CancellationToken) -> Option<Played> {
        let episode = Episode { harness, task, seed, model: self.model.as_ref(), sandbox: self.sandbox.as_ref(), policy: &self.policy };
        play(&episode, cancel).await
    }
}
