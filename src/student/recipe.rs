//! What a training run does, as data.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::VocabularySize;
use super::data::DataConfig;
use super::network::{AdapterConfig, Checkpointing};
use super::optimizer::{AdamWConfig, Decays, Schedule};
use crate::task::SkillName;

/// Supervised fine-tuning of a student on verified episodes.
#[derive(Debug, Clone, PartialEq)]
pub struct SftRecipe {
    /// Names the run.
    pub name: String,
    /// The root of all that is drawn.
    pub seed: u64,
    /// What training starts from.
    pub base: Base,
    /// Where the episodes come from.
    pub sources: Vec<Source>,
    /// Which of the episodes are learnt, and under which instruction.
    pub selection: EpisodeSelection,
    /// How samples are made of them.
    pub data: DataConfig,
    /// How samples are put together.
    pub rows: Rows,
    /// How long it trains.
    pub length: Length,
    /// How weights move.
    pub optimisation: Optimisation,
    /// Low-rank adapters; none trains every weight.
    pub adapters: Option<AdapterConfig>,
    /// What is kept for the backward pass.
    pub checkpointing: Checkpointing,
    /// When the held-out part is measured.
    pub evaluation: EvaluationPlan,
    /// When the state is saved.
    pub saving: SavingPlan,
}

/// What training starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// A small network with random weights and a vocabulary trained on the episodes themselves.
    Nano {
        /// Tokens of the vocabulary.
        vocabulary: VocabularySize,
    },
    /// A folder in Hugging Face's layout, or a GGUF file.
    Path(PathBuf),
}

/// Where episodes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The solved episodes of a run's elites.
    Run(PathBuf),
    /// What `export --format openai-jsonl` wrote.
    Export(PathBuf),
}

/// Which episodes are learnt, and under which instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpisodeSelection {
    /// Skills that are kept for an evaluation: none of their episodes is learnt.
    pub without_skills: BTreeSet<SkillName>,
    /// Whose instruction stands before an episode.
    pub instructions: Instructions,
}

/// Whose instruction stands before an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Instructions {
    /// Its own.
    #[default]
    Own,
    /// That of another task of the same job type, drawn from the seed: the control which shows what a student learns without any
    /// connection between instruction and work.
    Shuffled,
}

/// How samples are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Tokens of a row; samples are packed into rows, each seeing itself only.
    pub length: usize,
    /// Rows of a step.
    pub per_step: usize,
    /// Rows that go through the network at a time; the rest of a step's are accumulated.
    pub per_pass: usize,
}

/// How long training goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// So often over the data.
    Epochs(u64),
    /// So many steps.
    Steps(u64),
}

/// How weights move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimisation {
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Share of the steps over which it rises from zero.
    pub warmup: f64,
    /// Share of it that is left at the end of the cosine.
    pub floor: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// The norm that a step's gradient is cut to.
    pub clip: f64,
}

impl Default for Optimisation {
    fn default() -> Self {
        Self { learning_rate: 3e-4, warmup: 0.05, floor: 0.1, weight_decay: 0.1, beta1: 0.9, beta2: 0.95, clip: 1.0 }
    }
}

impl Optimisation {
    /// The optimiser's constants.
    pub(in crate::student) fn adamw(&self) -> AdamWConfig {
        let Self { beta1, beta2, weight_decay, .. } = *self;
        AdamWConfig { beta1, beta2, epsilon: 1e-8, weight_decay, decays: Decays::Matrices }
    }

    /// The learning rates of `steps` steps.
    pub(in crate::student) fn schedule(&self, steps: u64) -> Schedule {
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the steps")]
        let warmup = (self.warmup * steps as f64).round() as u64;
        Schedule { peak: self.learning_rate, warmup, total: steps, floor: self.floor }
    }
}

/// When the held-out part is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluationPlan {
    /// Steps between two measurements; the last step is always measured.
    pub every: u64,
    /// Measurements without a new best after which training stops; none never stops it.
    pub patience: Option<u64>,
}

impl Default for EvaluationPlan {
    fn default() -> Self {
        Self { every: 50, patience: None }
    }
}

/// When the state is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavingPlan {
    /// Steps between two checkpoints; the last step is always saved.
    pub every: u64,
    /// Checkpoints that are kept, the newest.
    pub keep: usize,
}

impl Default for SavingPlan {
    fn default() -> Self {
        Self { every: 100, keep: 2 }
    }
}
