//! How a harness came to be: operator, difference, hypothesis.

use serde::{Deserialize, Serialize};

use crate::harness::{GeneChange, Genome, HarnessId};

/// The operators there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorName {
    /// Moves a few numbers or enums.
    Perturb,
    /// Adds, drops or exchanges tools.
    Toolswap,
    /// Takes prompt blocks from another harness of the lineage.
    BlockSwap,
    /// A model reads failed episodes and edits.
    Rewrite,
    /// Takes each gene from one of two parents.
    Crossover,
    /// Removes what may not pay.
    Prune,
}

impl OperatorName {
    /// All operators.
    pub const ALL: [Self; 6] = [Self::Perturb, Self::Toolswap, Self::BlockSwap, Self::Rewrite, Self::Crossover, Self::Prune];

    /// The name, as in SQL and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Perturb => "perturb",
            Self::Toolswap => "toolswap",
            Self::BlockSwap => "block_swap",
            Self::Rewrite => "rewrite",
            Self::Crossover => "crossover",
            Self::Prune => "prune",
        }
    }
}

/// A new harness with its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Birth {
    /// Its id.
    pub harness: HarnessId,
    /// Its genes.
    pub genome: Genome,
    /// How it differs from its first parent; empty for a seed.
    pub diff: Vec<GeneChange>,
    /// What the operator expects; none for a seed.
    pub hypothesis: Option<Hypothesis>,
}

/// What the operator expects of an edit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// In one sentence.
    pub text: String,
    /// Which failures it should fix.
    pub fixes: Vec<String>,
    /// What it may break.
    pub risks: Vec<String>,
}

/// How a hypothesis fared: the paired difference child minus parent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JudgedHypothesis {
    /// Mean paired difference of scores.
    pub difference: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs.
    pub pairs: u32,
}
