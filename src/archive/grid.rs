//! The archive: a grid of niches, each with a holder (best so far on the search split) and an elite (confirmed on the validate
//! split). After MAP-Elites (Mouret and Clune 2015, arXiv:1504.04909), with the title kept apart from the place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BinEdges, Niche};
use crate::harness::HarnessId;
use crate::task::JobType;

/// Who stands in a niche during the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The harness.
    pub harness: HarnessId,
    /// Mean score on the search split.
    pub mean: f64,
    /// Over how many episodes.
    pub episodes: u32,
    /// The step that put it there.
    pub since: u64,
}

/// A harness confirmed on the validate split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Elite {
    /// The harness.
    pub harness: HarnessId,
    /// Solved share on the validate split.
    pub rate: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Over how many episodes.
    pub episodes: u32,
    /// Mean model replies per episode.
    pub mean_steps: f64,
    /// Mean tokens per episode.
    pub mean_tokens: f64,
    /// Mean price per episode, millionths of a US dollar.
    pub mean_micro_usd: f64,
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Who stands there.
    pub holder: Holder,
    /// Who bears the title, if anybody was confirmed.
    pub elite: Option<Elite>,
}

/// What came of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// The niche was empty.
    New,
    /// The holder was replaced.
    Improved {
        /// Who stood there.
        previous: HarnessId,
    },
    /// The holder stays.
    Rejected,
}

/// Whether a candidate is better than the holder of its niche, decided by whoever has the paired scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contest {
    /// It is.
    Better,
    /// It is not, or nobody can tell.
    NotBetter,
}

/// Quality-diversity figures of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct QdStatistics {
    /// Niches with a holder.
    pub filled: usize,
    /// Niches there are.
    pub niches: usize,
    /// Sum of the holders' mean scores.
    pub qd_score: f64,
    /// Niches with an elite.
    pub confirmed: usize,
}

/// All niches of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    job_types: Vec<JobType>,
    edges: BinEdges,
    cells: BTreeMap<Niche, Cell>,
}

impl Archive {
    /// An empty archive.
    #[must_use]
    pub fn new(job_types: Vec<JobType>, edges: BinEdges) -> Self {
        Self { job_types, edges, cells: BTreeMap::new() }
    }

    /// The bin edges.
    #[must_use]
    pub const fn edges(&self) -> &BinEdges {
        &self.edges
    }

    /// The cell of a niche.
    #[must_use]
    pub fn cell(&self, niche: &Niche) -> Option<&Cell> {
        self.cells.get(niche)
    }

    /// All filled cells, by niche.
    pub fn cells(&self) -> impl Iterator<Item = (&Niche, &Cell)> {
        self.cells.iter()
    }

    /// The holders of one job type, by niche.
    pub fn holders<'a>(&'a self, job_type: &'a JobType) -> impl Iterator<Item = &'a Holder> {
        self.cells.iter().filter(move |(niche, _)| niche.job_type == *job_type).map(|(_, cell)| &cell.holder)
    }

    /// Offers `candidate` to `niche`. An empty niche takes it; a held one only if `contest` says so. Nothing else ever removes
    /// a holder.
    pub fn offer(&mut self, niche: &Niche, candidate: Holder, contest: Contest) -> Offer {
        match self.cells.get_mut(niche) {
            None => {
                self.cells.insert(niche.clone(), Cell { holder: candidate, elite: None });
                Offer::New
            }
            Some(cell) if cell.holder.harness == candidate.harness => {
                // More episodes of the same harness: a better estimate, not a new holder.
                cell.holder = Holder { since: cell.holder.since, ..candidate };
                Offer::Rejected
            }
            Some(cell) if contest == Contest::Better => {
                let previous = cell.holder.harness;
                cell.holder = candidate;
                Offer::Improved { previous }
            }
            Some(_) => Offer::Rejected,
        }
    }

    /// Gives `niche` to `elite`. Returns whether there was such a niche.
    pub fn crown(&mut self, niche: &Niche, elite: Elite) -> bool {
        self.cells.get_mut(niche).map(|cell| cell.elite = Some(elite)).is_some()
    }

    /// The elite of a job type: the confirmed harness with the highest lower bound; of equals the cheaper, then the lower niche.
    #[must_use]
    pub fn elite_of(&self, job_type: &JobType) -> Option<(&Niche, &Elite)> {
        let mut best: Option<(&Niche, &Elite)> = None;
        for (niche, cell) in &self.cells {
            let Some(elite) = cell.elite.as_ref().filter(|_| niche.job_type == *job_type) else { continue };
            let wins =
                best.is_none_or(|(_, held)| elite.low.total_cmp(&held.low).then(held.mean_tokens.total_cmp(&elite.mean_tokens)).is_gt());
            if wins {
                best = Some((niche, elite));
            }
        }
        best
    }

    /// The elites of a job type that no other elite of it beats in rate, tokens and steps at once.
    #[must_use]
    pub fn front(&self, job_type: &JobType) -> Vec<(&Niche, &Elite)> {
        let elites: Vec<(&Niche, &Elite)> = self
            .cells
            .iter()
            .filter(|(niche, _)| niche.job_type == *job_type)
            .filter_map(|(niche, cell)| cell.elite.as_ref().map(|elite| (niche, elite)))
            .collect();
        elites.iter().filter(|(_, one)| !elites.iter().any(|(_, other)| dominates(other, one))).copied().collect()
    }

    /// Coverage and QD score.
    #[must_use]
    pub fn statistics(&self) -> QdStatistics {
        QdStatistics {
            filled: self.cells.len(),
            niches: self.job_types.len() * (self.edges.steps.len() + 1) * (self.edges.tokens.len() + 1),
            qd_score: self.cells.values().map(|cell| cell.holder.mean).sum(),
            confirmed: self.cells.values().filter(|cell| cell.elite.is_some()).count(),
        }
    }
}

fn dominates(a: &Elite, b: &Elite) -> bool {
    let no_worse = a.rate >= b.rate && a.mean_tokens <= b.mean_tokens && a.mean_steps <= b.mean_steps;
    no_worse && (a.rate > b.rate || a.mean_tokens < b.mean_tokens || a.mean_steps < b.mean_steps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::archive::Behaviour;

    fn harness(n: u64) -> HarnessId {
        HarnessId::from_hash(&blake3::hash(&n.to_le_bytes()))
    }

    fn job(name: &str) -> JobType {
        JobType::new(name).unwrap()
    }

    fn holder(n: u64, mean: f64) -> Holder {
        Holder { harness: harness(n), mean, episodes: 8, since: n }
    }

    fn elite(n: u64, rate: f64, tokens: f64, steps: f64) -> Elite {
        Elite {
            harness: harness(n),
            rate,
            low: rate - 0.1,
            high: rate + 0.1,
            episodes: 20,
            mean_steps: steps,
            mean_tokens: tokens,
            mean_micro_usd: 0.0,
        }
    }

    #[test]
    fn bins_follow_the_edges() {
        let edges = BinEdges { steps: vec![5.0, 10.0], tokens: vec![100.0] };
        let niche = |steps, tokens| edges.niche(&job("shell"), Behaviour { steps, tokens });
        assert_eq!((niche(4.9, 99.0).steps_bin, niche(4.9, 99.0).tokens_bin), (0, 0));
        assert_eq!((niche(5.0, 100.0).steps_bin, niche(5.0, 100.0).tokens_bin), (1, 1));
        assert_eq!(niche(1e9, 0.0).steps_bin, 2);
    }

    #[test]
    fn the_front_holds_what_nothing_beats() {
        let edges = BinEdges::default();
        let mut archive = Archive::new(vec![job("shell")], edges);
        for (n, (rate, tokens, steps)) in [(0.9, 100.0, 9.0), (0.8, 50.0, 5.0), (0.7, 60.0, 6.0)].into_iter().enumerate() {
            let niche = Niche { job_type: job("shell"), steps_bin: u8::try_from(n).unwrap(), tokens_bin: 0 };
            archive.offer(&niche, holder(n as u64, rate), Contest::NotBetter);
            archive.crown(&niche, elite(n as u64, rate, tokens, steps));
        }
        let front: Vec<f64> = archive.front(&job("shell")).iter().map(|(_, elite)| elite.rate).collect();
        assert_eq!(front, [0.9, 0.8]);
        assert_eq!(archive.elite_of(&job("shell")).unwrap().1.harness, harness(0));
    }

    proptest! {
        #[test]
        fn only_a_better_candidate_for_the_same_niche_removes_a_holder(
            offers in prop::collection::vec((0_u8..3, 0_u64..20, 0.0_f64..1.0, any::<bool>()), 1..60)
        ) {
            let mut archive = Archive::new(vec![job("shell")], BinEdges { steps: vec![1.0, 2.0], tokens: vec![] });
            let mut expected: BTreeMap<u8, HarnessId> = BTreeMap::new();
            for (bin, n, mean, better) in offers {
                let niche = Niche { job_type: job("shell"), steps_bin: bin, tokens_bin: 0 };
                let contest = if better { Contest::Better } else { Contest::NotBetter };
                archive.offer(&niche, holder(n, mean), contest);
                if better || !expected.contains_key(&bin) {
                    expected.insert(bin, harness(n));
                }
                let held: BTreeMap<u8, HarnessId> = archive.cells().map(|(niche, cell)| (niche.steps_bin, cell.holder.harness)).collect();
                prop_assert_eq!(&held, &expected);
                let statistics = archive.statistics();
                prop_assert_eq!(statistics.filled, expected.len());
                prop_assert_eq!(statistics.niches, 3);
                let sum: f64 = archive.holders(&job("shell")).map(|holder| holder.mean).sum();
                prop_assert!((statistics.qd_score - sum).abs() < 1e-12);
            }
        }
    }
}
