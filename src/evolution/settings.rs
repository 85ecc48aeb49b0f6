//! What a search is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::OperatorName;
use crate::archive::BinEdges;
use crate::base::Amount;

/// Settings of a search. The same settings, tasks and replies give the same lineage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchSettings {
    /// Root of the seed tree.
    pub seed: u64,
    /// How many steps may be open at a time: step `i` is decided from the state after step `i - window`. Part of the
    /// experiment, because it changes decisions; the number of workers does not.
    pub window: u64,
    /// Episodes of an evaluation after each of its stages, ascending. After each but the last a child that is behind its
    /// parent on the same pairs is given up.
    pub stages: Vec<u32>,
    /// Episodes of a confirmation.
    pub confirm_episodes: u32,
    /// Steps a holder must have stood before it is confirmed.
    pub confirm_after: u64,
    /// Confidence of intervals and of the contest for a title, above 0.5 and below 1.
    pub confidence: f64,
    /// Relative weight of each operator.
    pub operators: BTreeMap<OperatorName, u32>,
    /// Bins of the archive.
    pub edges: BinEdges,
    /// What the search may spend, confirmations included.
    pub limit: Amount,
    /// Steps after which the search stops.
    pub max_steps: u64,
}

impl SearchSettings {
    /// Checks every setting against its range.
    ///
    /// # Errors
    /// Names the setting as it stands in an experiment file, and what is right.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        if self.window == 0 {
            return wrong("`search.window` must be at least 1");
        }
        if self.stages.is_empty() || self.stages[0] == 0 || self.stages.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong("`search.stages` must be a list of ascending numbers of episodes, for example [4, 10, 20]");
        }
        if self.confirm_episodes == 0 {
            return wrong("`search.confirm_episodes` must be at least 1");
        }
        if !(self.confidence > 0.5 && self.confidence < 1.0) {
            return wrong("`search.confidence` must be above 0.5 and below 1");
        }
        if self.operators.values().all(|weight| *weight == 0) {
            return wrong("`search.operators` needs at least one operator with a weight above 0");
        }
        Ok(())
    }

    /// Episodes of a complete evaluation.
    #[must_use]
    pub fn full_episodes(&self) -> u32 {
        self.stages.last().copied().unwrap_or(0)
    }
}

impl Default for SearchSettings {
    fn default() -> Self {
        let operators = [
            (OperatorName::Perturb, 3),
            (OperatorName::Toolswap, 2),
            (OperatorName::BlockSwap, 3),
            (OperatorName::Rewrite, 4),
            (OperatorName::Crossover, 3),
            (OperatorName::Prune, 1),
        ];
        Self {
            seed: 0,
            window: 16,
            stages: vec![4, 10, 20],
            confirm_episodes: 30,
            confirm_after: 24,
            confidence: 0.95,
            operators: operators.into_iter().collect(),
            edges: BinEdges::default(),
            limit: Amount { episodes: 1000, ..Amount::UNLIMITED },
            max_steps: u64::MAX,
        }
    }
}
