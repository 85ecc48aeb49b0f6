//! Every harness the search knows, with its scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::archive::Behaviour;
use crate::evaluation::{EpisodeScore, Interval, paired_difference};
use crate::harness::{Harness, HarnessId};
use crate::task::{JobType, Split};

/// One harness with its scores.
#[derive(Debug, Clone)]
pub struct Member {
    /// The harness.
    pub harness: Arc<Harness>,
    /// Its first parent.
    pub parent: Option<HarnessId>,
    /// Scores on the search split, by job type, in schedule order.
    search: BTreeMap<JobType, Vec<EpisodeScore>>,
    /// Scores on the validate split.
    validate: BTreeMap<JobType, Vec<EpisodeScore>>,
}

/// Every harness the search knows.
#[derive(Debug, Clone, Default)]
pub struct Population {
    members: BTreeMap<HarnessId, Member>,
}

impl Member {
    /// Scores on `split` for `job_type`, in schedule order.
    #[must_use]
    pub fn scores(&self, job_type: &JobType, split: Split) -> &[EpisodeScore] {
        let map = match split {
            Split::Search => &self.search,
            Split::Validate => &self.validate,
            // The search never holds sealed scores.
            Split::Sealed => return &[],
        };
        map.get(job_type).map_or(&[], Vec::as_slice)
    }
}

impl Population {
    /// Adds a harness; one that is there already stays as it is. Returns whether it was new.
    pub fn add(&mut self, harness: Arc<Harness>, parent: Option<HarnessId>) -> bool {
        let id = harness.id();
        if self.members.contains_key(&id) {
            return false;
        }
        self.members.insert(id, Member { harness, parent, search: BTreeMap::new(), validate: BTreeMap::new() });
        true
    }

    /// The member `id`.
    #[must_use]
    pub fn get(&self, id: HarnessId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Keeps the scores of an evaluation: a longer evaluation replaces a shorter one, as the shorter is its prefix.
    pub fn keep(&mut self, id: HarnessId, job_type: &JobType, split: Split, scores: &[EpisodeScore]) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let map = match split {
            Split::Search => &mut member.search,
            Split::Validate => &mut member.validate,
            Split::Sealed => return,
        };
        let held = map.entry(job_type.clone()).or_default();
        if scores.len() > held.len() {
            *held = scores.to_vec();
        }
    }

    /// The paired difference `a - b` over the pairs both have, at `confidence`.
    #[must_use]
    pub fn difference(&self, a: HarnessId, b: HarnessId, job_type: &JobType, split: Split, confidence: f64) -> (Interval, u32) {
        let scores = |id| self.get(id).map_or(&[][..], |member| member.scores(job_type, split));
        let differences = pair(scores(a), scores(b));
        (paired_difference(&differences, confidence), u32::try_from(differences.len()).unwrap_or(u32::MAX))
    }
}

/// Differences `a - b` over the pairs (task, seed) both have, in the order of `a`.
#[must_use]
pub fn pair(a: &[EpisodeScore], b: &[EpisodeScore]) -> Vec<f64> {
    let rival: BTreeMap<_, f64> = b.iter().map(|score| ((score.task, score.seed), score.score)).collect();
    a.iter().filter_map(|score| rival.get(&(score.task, score.seed)).map(|other| score.score - other)).collect()
}

/// Means over episodes: score, and how the harness behaves.
#[must_use]
pub fn summarise(scores: &[EpisodeScore]) -> Option<(f64, Behaviour)> {
    let n = f64::from(u32::try_from(scores.len()).ok().filter(|n| *n > 0)?);
    let mean = |value: &dyn Fn(&EpisodeScore) -> f64| scores.iter().map(value).sum::<f64>() / n;
    #[expect(clippy::cast_precision_loss, reason = "token counts of an episode are far below 2^53")]
    let tokens = mean(&|score| score.tokens as f64);
    Some((mean(&|score| score.score), Behaviour { steps: mean(&|score| f64::from(score.steps)), tokens }))
}
