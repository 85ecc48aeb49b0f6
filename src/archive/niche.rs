//! Niches: job type × behaviour bin, with fixed bin edges.

use serde::{Deserialize, Serialize};

use crate::task::JobType;

/// One cell of the archive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Niche {
    /// The kind of work.
    pub job_type: JobType,
    /// Bin of the mean number of steps, from 0.
    pub steps_bin: u8,
    /// Bin of the mean number of tokens, from 0.
    pub tokens_bin: u8,
}

impl std::fmt::Display for Niche {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/s{}t{}", self.job_type, self.steps_bin, self.tokens_bin)
    }
}

/// How a harness behaves on one job type, as means over episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Model replies per episode.
    pub steps: f64,
    /// Tokens per episode.
    pub tokens: f64,
}

/// The edges between bins: bin `i` holds values below edge `i` and not below edge `i - 1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BinEdges {
    /// Edges of the mean number of steps, ascending.
    pub steps: Vec<f64>,
    /// Edges of the mean number of tokens, ascending.
    pub tokens: Vec<f64>,
}

impl Default for BinEdges {
    fn default() -> Self {
        Self { steps: vec![6.0, 12.0], tokens: vec![8_000.0, 24_000.0] }
    }
}

impl BinEdges {
    /// The niche of `behaviour` in `job_type`.
    #[must_use]
    pub fn niche(&self, job_type: &JobType, behaviour: Behaviour) -> Niche {
        let bin = |edges: &[f64], value: f64| u8::try_from(edges.iter().filter(|edge| value >= **edge).count()).unwrap_or(u8::MAX);
        Niche { job_type: job_type.clone(), steps_bin: bin(&self.steps, behaviour.steps), tokens_bin: bin(&self.tokens, behaviour.tokens) }
    }
}
