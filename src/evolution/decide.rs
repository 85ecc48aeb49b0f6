//! Deciding steps: which job type, which operator, which parents, what may be spent.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::draft::{Draft, RewriteBrief, Track, Work};
use super::operators::{self, Offspring};
use super::search::{Phase, Search};
use super::{Birth, OperatorName, Refusal, StepPlan};
use crate::archive::{Holder, Niche};
use crate::base::Amount;
use crate::evaluation::{Attempts, EpisodeScore, worst_episode};
use crate::harness::{Harness, HarnessId};
use crate::task::{JobType, Split};

/// Failed episodes a rewriting model reads.
const FAILURES_SHOWN: usize = 4;
/// Most tokens one rewrite may use, request and reply together.
pub const REWRITE_TOKENS: u64 = 40_000;
/// Confirmations per job type for which budget is kept back.
const CONFIRMATIONS_KEPT: u64 = 2;

impl Search {
    /// Decides as many steps as window and budget allow. Runs after every commit, so that step `i` always sees the state after
    /// the same commit.
    pub(super) fn decide(&mut self) {
        while self.open_steps() < self.settings.window && self.decide_one() {}
        if self.settled() && self.phase == Phase::Searching && self.seeds_done() {
            // Nothing is open and nothing could be opened: the search's share is spent.
            self.phase = Phase::Closing;
            while self.open_steps() < self.settings.window && self.decide_one() {}
        }
        if self.settled() && self.phase == Phase::Closing {
            self.phase = Phase::Done;
        }
    }

    fn seeds_done(&self) -> bool {
        self.committed >= u64::try_from(self.space.seeds.len()).unwrap_or(u64::MAX)
    }

    fn decide_one(&mut self) -> bool {
        let seeds = u64::try_from(self.space.seeds.len()).unwrap_or(u64::MAX);
        if self.phase == Phase::Done || (self.next >= self.settings.max_steps && self.phase == Phase::Searching && self.next >= seeds) {
            return false;
        }
        if self.next < seeds {
            return self.decide_seed();
        }
        if !self.seeds_done() {
            return false;
        }
        match self.phase {
            Phase::Searching => match self.due_confirmation() {
                Some((niche, harness)) => self.decide_confirmation(niche, harness),
                None => self.decide_child(),
            },
            Phase::Closing => match self.next_unconfirmed() {
                Some((niche, harness)) => self.decide_confirmation(niche, harness),
                None => false,
            },
            Phase::Done => false,
        }
    }

    fn worst(&self, harness: &Harness) -> Amount {
        worst_episode(harness, self.space.worst_price, Attempts(self.space.attempts))
    }

    /// Most the evaluation of seed number `index` can cost.
    pub(super) fn seed_cost(&self, index: usize) -> Amount {
        let episodes = u64::from(self.settings.full_episodes()) * self.job_type_count();
        self.space.seeds.get(index).map_or_else(Amount::default, |(_, harness)| self.worst(harness).times(episodes))
    }

    fn decide_seed(&mut self) -> bool {
        let Some((template, harness)) = usize::try_from(self.next).ok().and_then(|index| self.space.seeds.get(index)).cloned() else {
            return false;
        };
        let job_types = self.space.job_types.clone();
        let reserve = self.seed_cost(usize::try_from(self.next).unwrap_or(usize::MAX));
        if self.ledger.reserve(reserve).is_err() {
            return false;
        }
        let full = usize::try_from(self.settings.full_episodes()).unwrap_or(usize::MAX);
        let tracks = job_types
            .iter()
            .map(|job_type| {
                let mut track = self.search_track(job_type, Vec::new());
                track.stages = vec![full];
                track
            })
            .collect();
        let birth = Birth { harness: harness.id(), genome: harness.genome().clone(), diff: Vec::new(), hypothesis: None };
        let plan = StepPlan::Seed { harness: harness.id(), template };
        let work = Work::Evaluate { harness, birth: Some(Box::new(birth)), tracks };
        self.open(Draft { step: self.next, plan, work }, reserve);
        true
    }

    /// The best holder of a job type, once it has stood long enough without being confirmed.
    fn due_confirmation(&self) -> Option<(Niche, HarnessId)> {
        self.space.job_types.iter().find_map(|job_type| {
            let (niche, cell) = self
                .archive
                .cells()
                .filter(|(niche, _)| niche.job_type == *job_type)
                .max_by(|a, b| a.1.holder.mean.total_cmp(&b.1.holder.mean))?;
            let stood = self.committed.saturating_sub(cell.holder.since) >= self.settings.confirm_after;
            (stood && self.is_unconfirmed(niche, &cell.holder)).then(|| (niche.clone(), cell.holder.harness))
        })
    }

    /// The unconfirmed holder with the highest mean, for the end of the search.
    fn next_unconfirmed(&self) -> Option<(Niche, HarnessId)> {
        self.archive
            .cells()
            .filter(|(niche, cell)| self.is_unconfirmed(niche, &cell.holder))
            .max_by(|a, b| a.1.holder.mean.total_cmp(&b.1.holder.mean))
            .map(|(niche, cell)| (niche.clone(), cell.holder.harness))
    }

    fn is_unconfirmed(&self, niche: &Niche, holder: &Holder) -> bool {
        let member = self.population.get(holder.harness);
        let confirmed = member.is_some_and(|member| !member.scores(&niche.job_type, Split::Validate).is_empty());
        holder.mean > 0.0
            && !confirmed
            && !self.confirming.iter().any(|(open, id)| *id == holder.harness && open.job_type == niche.job_type)
    }

    fn decide_confirmation(&mut self, niche: Niche, id: HarnessId) -> bool {
        let Some(harness) = self.population.get(id).map(|member| member.harness.clone()) else { return false };
        let reserve = self.worst(&harness).times(u64::from(self.settings.confirm_episodes));
        if self.ledger.reserve(reserve).is_err() {
            return false;
        }
        let track = self.confirm_track(&niche.job_type);
        self.confirming.insert((niche.clone(), id));
        let plan = StepPlan::Confirm { harness: id, niche };
        self.open(Draft { step: self.next, plan, work: Work::Evaluate { harness, birth: None, tracks: vec![track] } }, reserve);
        true
    }

    fn decide_child(&mut self) -> bool {
        let node = self.root.child("step").index(self.next);
        let mut rng = node.child("plan").rng();
        let job_type = self.choose_job_type();
        let Some(parent) = self.choose_parent(&job_type, &mut rng) else { return false };
        let Some(member) = self.population.get(parent) else { return false };
        let harness = member.harness.clone();
        let rival = member.scores(&job_type, Split::Search).to_vec();
        let operator = self.choose_operator(&mut rng);
        let mate = if operator == OperatorName::Crossover { self.choose_mate(parent, &mut rng) } else { None };
        let episodes = u64::from(self.settings.full_episodes());
        // A child may have other limits than its parent: the larger of both is reserved, and a child beyond is refused.
        let per_episode = self.worst(&harness);
        let overhead = if operator == OperatorName::Rewrite { self.rewrite_cost() } else { Amount::default() };
        let kept = per_episode.times(u64::from(self.settings.confirm_episodes)).times(CONFIRMATIONS_KEPT * self.job_type_count());
        let most = per_episode.times(2 * episodes).plus(overhead);
        let reserve = Amount { episodes, ..most };
        if self.ledger.spent().plus(self.ledger.reserved()).plus(reserve).plus(kept).exceeds(&self.ledger.limit()).is_some() {
            return false;
        }
        if self.ledger.reserve(reserve).is_err() {
            return false;
        }
        let mut parents = vec![parent];
        parents.extend(mate);
        let track = self.search_track(&job_type, rival);
        let work = if operator == OperatorName::Rewrite {
            self.draft_rewrite(harness, &job_type, track, node.child("rewrite").value() >> 1)
        } else {
            let mate = mate.and_then(|id| self.population.get(id)).map(|member| member.harness.clone());
            let offspring = operators::make(operator, &harness, mate.as_deref(), &self.space.library, &mut node.child("make").rng());
            self.draft_child(&harness, offspring, track)
        };
        self.open(Draft { step: self.next, plan: StepPlan::Child { operator, parents, job_type }, work }, reserve);
        true
    }

    fn job_type_count(&self) -> u64 {
        u64::try_from(self.space.job_types.len()).unwrap_or(u64::MAX)
    }

    /// Most one rewrite can cost.
    fn rewrite_cost(&self) -> Amount {
        let micro_usd = (u128::from(REWRITE_TOKENS) * u128::from(self.space.worst_price)).div_ceil(1_000_000);
        Amount { episodes: 0, tokens: REWRITE_TOKENS, micro_usd: u64::try_from(micro_usd).unwrap_or(u64::MAX) }
    }

    fn draft_child(&mut self, parent: &Harness, offspring: Result<Offspring, Refusal>, track: Track) -> Work {
        let birth = offspring.and_then(|offspring| operators::birth(parent, offspring));
        match birth {
            Ok((birth, child)) if self.within_reserve(parent, &child) => self.known_child(birth, child, track),
            Ok(_) => Work::Refuse(Refusal::Invalid { reason: "the child's token limit is more than twice its parent's".to_owned() }),
            Err(refusal) => Work::Refuse(refusal),
        }
    }

    fn within_reserve(&self, parent: &Harness, child: &Harness) -> bool {
        child.genome().limits.tokens <= parent.genome().limits.tokens.saturating_mul(2)
    }

    fn draft_rewrite(&self, parent: Arc<Harness>, job_type: &JobType, track: Track, seed: u64) -> Work {
        let failures: Vec<_> =
            track.rival.iter().filter(|score| !score.passed()).map(|score| (score.task, score.seed)).take(FAILURES_SHOWN).collect();
        if failures.is_empty() {
            return Work::Refuse(Refusal::Invalid { reason: "the parent has no failed episode to learn from".to_owned() });
        }
        let failed_edits = self.failed_edits.get(job_type).map_or_else(Vec::new, |edits| edits.iter().cloned().collect());
        let token_limit = parent.genome().limits.tokens.saturating_mul(2);
        let brief = RewriteBrief { parent, job_type: job_type.clone(), failures, failed_edits, seed, token_limit };
        Work::Rewrite { brief: Box::new(brief), track }
    }

    /// Job types take turns.
    fn choose_job_type(&self) -> JobType {
        let turn = usize::try_from(self.next % self.job_type_count()).unwrap_or(0);
        self.space.job_types[turn].clone()
    }

    fn choose_operator(&self, rng: &mut ChaCha8Rng) -> OperatorName {
        let total: u32 = self.settings.operators.values().sum();
        let mut draw = rng.random_range(0..total.max(1));
        for (operator, weight) in &self.settings.operators {
            if draw < *weight {
                return *operator;
            }
            draw -= weight;
        }
        OperatorName::Perturb
    }

    /// Mostly the best holder of the job type, else any of them: rank `r` of `n` is drawn with a weight that halves per rank.
    fn choose_parent(&self, job_type: &JobType, rng: &mut ChaCha8Rng) -> Option<HarnessId> {
        let mut holders: Vec<&Holder> = self.archive.holders(job_type).collect();
        holders.sort_by(|a, b| b.mean.total_cmp(&a.mean).then(a.harness.cmp(&b.harness)));
        let last = holders.len().checked_sub(1)?;
        let mut rank = 0;
        while rank < last && rng.random_range(0..2) == 1 {
            rank += 1;
        }
        Some(holders[rank].harness)
    }

    /// A holder of any job type other than `parent`.
    fn choose_mate(&self, parent: HarnessId, rng: &mut ChaCha8Rng) -> Option<HarnessId> {
        let mut mates: Vec<HarnessId> = self.archive.cells().map(|(_, cell)| cell.holder.harness).filter(|id| *id != parent).collect();
        mates.sort_unstable();
        mates.dedup();
        (!mates.is_empty()).then(|| mates[rng.random_range(0..mates.len())])
    }
}

impl Search {
    /// A track over the first `episodes` pairings of a job type's search split.
    pub(super) fn search_track(&self, job_type: &JobType, rival: Vec<EpisodeScore>) -> Track {
        let count = |episodes: u32| usize::try_from(episodes).unwrap_or(usize::MAX);
        let pairings =
            self.schedules.get(job_type).map_or_else(Vec::new, |schedule| schedule.pairs(0, count(self.settings.full_episodes())));
        let stages = self.settings.stages.iter().map(|episodes| count(*episodes)).collect();
        Track { job_type: job_type.clone(), split: Split::Search, pairings, stages, rival }
    }

    /// A track over the pairings of a confirmation.
    pub(super) fn confirm_track(&self, job_type: &JobType) -> Track {
        let count = usize::try_from(self.settings.confirm_episodes).unwrap_or(usize::MAX);
        let pairings = self.validation.get(job_type).map_or_else(Vec::new, |schedule| schedule.pairs(0, count));
        Track { job_type: job_type.clone(), split: Split::Validate, pairings, stages: vec![count], rival: Vec::new() }
    }

    /// Drafts a refusal or a child that is known already.
    pub(super) fn known_child(&mut self, birth: Birth, harness: Harness, track: Track) -> Work {
        let id = harness.id();
        if self.population.get(id).is_some() || !self.unborn.insert(id) {
            return Work::Refuse(Refusal::Duplicate { harness: id });
        }
        Work::Evaluate { harness: Arc::new(harness), birth: Some(Box::new(birth)), tracks: vec![track] }
    }
}
