//! The search as a pure state machine: [`Search::ask`] gives decided steps, [`Search::tell`] takes their results in any order
//! and commits them in the order of the steps. Step `i` is decided right after the commit of step `i - window`, so decisions
//! depend on the experiment and the results alone, never on who was faster.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::draft::Draft;
use super::population::{Population, summarise};
use super::{Birth, Effect, Evaluation, JudgedHypothesis, Refusal, SearchSettings, StepPlan, StepRecord, StepResult};
use crate::archive::{Archive, Contest, Elite, Holder, Niche, Offer};
use crate::base::{Amount, Ledger, SeedTree};
use crate::evaluation::{EpisodeScore, Schedule, wilson};
use crate::harness::{BlockLibrary, Harness, HarnessId};
use crate::task::{JobType, Split, SplitTasks, TaskId};

/// What the search looks for and where.
#[derive(Debug, Clone)]
pub struct SearchSpace {
    /// Seed harnesses with the names of their templates.
    pub seeds: Vec<(String, Arc<Harness>)>,
    /// The kinds of work, in the order of the experiment.
    pub job_types: Vec<JobType>,
    /// The tasks.
    pub tasks: SplitTasks,
    /// What block swaps and repairs draw from.
    pub library: Arc<BlockLibrary>,
    /// Most a million tokens cost, in millionths of a US dollar.
    pub worst_price: u64,
    /// How often a faulted episode is tried.
    pub attempts: u32,
}

/// Where the search stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Children are made.
    Searching,
    /// What is open is finished, then holders are confirmed.
    Closing,
    /// Everything is committed.
    Done,
}

/// A result that does not belong to the search it was told to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Nobody asked for this step, or it was told twice.
    #[error("step {0} is not open")]
    NotOpen(u64),
    /// A recorded step differs from what this search decides: another experiment, version or set of tasks.
    #[error(
        "step {step} of the journal was `{recorded}`, but this experiment decides `{decided}`: the run was made with other settings, tasks or another version"
    )]
    Diverged {
        /// Which step.
        step: u64,
        /// What the journal says.
        recorded: String,
        /// What the search decided.
        decided: String,
    },
    /// A settings or task problem.
    #[error("{0}")]
    Setup(String),
}

#[derive(Debug, Clone)]
struct OpenStep {
    plan: StepPlan,
    reserved: Amount,
}

/// The search.
pub struct Search {
    pub(super) settings: SearchSettings,
    pub(super) space: SearchSpace,
    pub(super) root: SeedTree,
    pub(super) schedules: BTreeMap<JobType, Schedule>,
    pub(super) validation: BTreeMap<JobType, Schedule>,
    pub(super) population: Population,
    pub(super) archive: Archive,
    pub(super) ledger: Ledger,
    pub(super) phase: Phase,
    pub(super) next: u64,
    pub(super) committed: u64,
    // Edits that did not help, newest last, by job type: what a rewriting model is told.
    pub(super) failed_edits: BTreeMap<JobType, VecDeque<String>>,
    // Children decided but not committed: a second proposal of one of them is a duplicate.
    pub(super) unborn: BTreeSet<HarnessId>,
    // Holders whose confirmation is open.
    pub(super) confirming: BTreeSet<(Niche, HarnessId)>,
    open: BTreeMap<u64, OpenStep>,
    arrived: BTreeMap<u64, StepResult>,
    ready: VecDeque<Draft>,
    // Episodes that were paid for: a second step that needs one gets it free.
    charged: BTreeSet<(HarnessId, TaskId, u64)>,
    // Episodes that were paid for, by job type.
    episodes: BTreeMap<JobType, u64>,
}

impl Search {
    /// A search with nothing played.
    ///
    /// # Errors
    /// When there is no seed, no job type, a job type without search or validate tasks, or a setting out of range.
    pub fn new(settings: SearchSettings, space: SearchSpace) -> Result<Self, SearchError> {
        settings.check().map_err(SearchError::Setup)?;
        if space.seeds.is_empty() || space.job_types.is_empty() {
            return Err(SearchError::Setup("the search needs at least one seed harness and one job type".to_owned()));
        }
        let root = SeedTree::new(settings.seed);
        let seeds = root.child("schedule");
        let mut schedules = BTreeMap::new();
        let mut validation = BTreeMap::new();
        for job_type in &space.job_types {
            let search = Schedule::search(job_type, &space.tasks.search, &seeds);
            let validate = Schedule::validate(job_type, &space.tasks.validate, &seeds);
            if search.tasks() == 0 || validate.tasks() == 0 {
                return Err(SearchError::Setup(format!(
                    "job type `{job_type}` has {} search and {} validate tasks; both need at least one: add tasks",
                    search.tasks(),
                    validate.tasks()
                )));
            }
            schedules.insert(job_type.clone(), search);
            validation.insert(job_type.clone(), validate);
        }
        let archive = Archive::new(space.job_types.clone(), settings.edges.clone());
        let ledger = Ledger::new(settings.limit);
        let mut search = Self {
            settings,
            space,
            root,
            schedules,
            validation,
            population: Population::default(),
            archive,
            ledger,
            phase: Phase::Searching,
            next: 0,
            committed: 0,
            failed_edits: BTreeMap::new(),
            unborn: BTreeSet::new(),
            confirming: BTreeSet::new(),
            open: BTreeMap::new(),
            arrived: BTreeMap::new(),
            ready: VecDeque::new(),
            charged: BTreeSet::new(),
            episodes: BTreeMap::new(),
        };
        search.decide();
        if search.ready.is_empty() {
            let wanted = search.seed_cost(0);
            return Err(SearchError::Setup(format!(
                "the search's share of the budget ({}) does not cover the evaluation of the first seed at its worst ({}): raise `budget`, \
                 lower `search.stages` or the template's `limits.tokens`, or turn `report.baseline` off",
                amount(search.ledger.limit()),
                amount(wanted)
            )));
        }
        Ok(search)
    }

    /// The next decided step, if one may start now.
    pub fn ask(&mut self) -> Option<Draft> {
        self.ready.pop_front()
    }

    /// Takes the result of an open step and returns the steps that are committed by it, in order; none while an earlier one
    /// is still open.
    ///
    /// # Errors
    /// When the step is not open.
    pub fn tell(&mut self, step: u64, result: StepResult) -> Result<Vec<StepRecord>, SearchError> {
        if !self.open.contains_key(&step) || self.arrived.contains_key(&step) {
            return Err(SearchError::NotOpen(step));
        }
        self.arrived.insert(step, result);
        let mut records = Vec::new();
        while let Some(result) = self.arrived.remove(&self.committed) {
            let Some(open) = self.open.remove(&self.committed) else { return Err(SearchError::NotOpen(self.committed)) };
            records.push(self.commit(open, result));
            self.decide();
        }
        Ok(records)
    }

    /// Commits a step from the journal of an earlier process. Steps come in order, before anything is asked for.
    ///
    /// # Errors
    /// When the journal's step is not the one this search decides.
    pub fn replay(&mut self, record: &StepRecord) -> Result<(), SearchError> {
        let decided = self.ready.pop_front();
        let matches = decided.as_ref().is_some_and(|draft| draft.step == record.step && draft.plan == record.plan);
        if !matches {
            return Err(SearchError::Diverged {
                step: record.step,
                recorded: describe(&record.plan),
                decided: decided.map_or_else(|| "nothing".to_owned(), |draft| describe(&draft.plan)),
            });
        }
        let committed = self.tell(record.step, record.result.clone())?;
        match committed.first() {
            Some(again) if again.effects == record.effects && again.spent == record.spent => Ok(()),
            _ => Err(SearchError::Diverged {
                step: record.step,
                recorded: format!("{} with {} effects", describe(&record.plan), record.effects.len()),
                decided: format!("{} with other effects or costs", describe(&record.plan)),
            }),
        }
    }

    /// Where the search stands.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The archive.
    #[must_use]
    pub const fn archive(&self) -> &Archive {
        &self.archive
    }

    /// All harnesses with their scores.
    #[must_use]
    pub const fn population(&self) -> &Population {
        &self.population
    }

    /// The budget.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Steps committed so far.
    #[must_use]
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &SearchSettings {
        &self.settings
    }

    /// What the search looks for and where.
    #[must_use]
    pub const fn space(&self) -> &SearchSpace {
        &self.space
    }

    /// Episodes paid for on a job type, search and confirmation together.
    #[must_use]
    pub fn episodes_on(&self, job_type: &JobType) -> u64 {
        self.episodes.get(job_type).copied().unwrap_or(0)
    }

    /// The validate schedule of a job type.
    #[must_use]
    pub fn validation(&self, job_type: &JobType) -> Option<&Schedule> {
        self.validation.get(job_type)
    }

    /// The seed that did best on a job type's search split, for reports and baselines.
    #[must_use]
    pub fn best_seed(&self, job_type: &JobType) -> Option<(&str, &Arc<Harness>)> {
        let mut best: Option<(f64, &str, &Arc<Harness>)> = None;
        for (name, harness) in &self.space.seeds {
            let scores = self.population.get(harness.id()).map_or(&[][..], |member| member.scores(job_type, Split::Search));
            let Some((mean, _)) = summarise(scores) else { continue };
            if best.is_none_or(|(held, _, _)| mean > held) {
                best = Some((mean, name, harness));
            }
        }
        best.map(|(_, name, harness)| (name, harness))
    }

    /// Whether every decided step is committed.
    pub(super) fn settled(&self) -> bool {
        self.open.is_empty()
    }

    /// How many steps are decided and not committed.
    pub(super) fn open_steps(&self) -> u64 {
        self.next - self.committed
    }

    /// Opens `draft`, with what it may cost set aside already.
    pub(super) fn open(&mut self, draft: Draft, reserved: Amount) {
        self.open.insert(draft.step, OpenStep { plan: draft.plan.clone(), reserved });
        self.next = draft.step + 1;
        self.ready.push_back(draft);
    }

    fn commit(&mut self, open: OpenStep, result: StepResult) -> StepRecord {
        let step = self.committed;
        let result = self.refuse_duplicate(result);
        let cost = self.cost(&result);
        self.ledger.settle(open.reserved, cost);
        let mut effects = Vec::new();
        match &open.plan {
            StepPlan::Seed { .. } | StepPlan::Child { .. } => self.admit(step, &open.plan, &result, &mut effects),
            StepPlan::Confirm { harness, niche } => self.confirm(*harness, niche, &result, &mut effects),
        }
        self.committed += 1;
        StepRecord { step, plan: open.plan, result, effects, spent: self.ledger.spent() }
    }

    /// A child that two open rewrites made alike is born once.
    fn refuse_duplicate(&self, result: StepResult) -> StepResult {
        let StepResult::Evaluated { birth: Some(birth), evaluations, overhead } = result else { return result };
        if self.population.get(birth.harness).is_none() {
            return StepResult::Evaluated { birth: Some(birth), evaluations, overhead };
        }
        // The two may have played different numbers of stages: what only this one played was paid for all the same.
        let mut overhead = overhead;
        for evaluation in &evaluations {
            overhead = overhead.plus(evaluation.lost);
            for score in &evaluation.episodes {
                if !self.charged.contains(&(evaluation.harness, score.task, score.seed)) {
                    overhead = overhead.plus(price(score));
                }
            }
        }
        StepResult::Refused { refusal: Refusal::Duplicate { harness: birth.harness }, overhead }
    }

    fn cost(&mut self, result: &StepResult) -> Amount {
        let (StepResult::Evaluated { overhead, .. } | StepResult::Refused { overhead, .. }) = result;
        let mut cost = *overhead;
        if let StepResult::Evaluated { evaluations, .. } = result {
            for evaluation in evaluations {
                cost = cost.plus(evaluation.lost);
                for score in &evaluation.episodes {
                    if self.charged.insert((evaluation.harness, score.task, score.seed)) {
                        cost = cost.plus(price(score));
                        *self.episodes.entry(evaluation.job_type.clone()).or_default() += 1;
                    }
                }
            }
        }
        cost
    }

    fn admit(&mut self, step: u64, plan: &StepPlan, result: &StepResult, effects: &mut Vec<Effect>) {
        let StepResult::Evaluated { birth: Some(birth), evaluations, .. } = result else { return };
        self.unborn.remove(&birth.harness);
        let parent = match plan {
            StepPlan::Child { parents, .. } => parents.first().copied(),
            StepPlan::Seed { .. } | StepPlan::Confirm { .. } => None,
        };
        let Ok(harness) = Harness::new(birth.genome.clone()) else { return };
        self.population.add(Arc::new(harness), parent);
        for evaluation in evaluations {
            self.population.keep(birth.harness, &evaluation.job_type, evaluation.split, &evaluation.episodes);
            if let Some(parent) = parent {
                self.judge(birth, parent, evaluation, effects);
            }
            self.offer(step, evaluation, effects);
        }
    }

    fn judge(&mut self, birth: &Birth, parent: HarnessId, evaluation: &Evaluation, effects: &mut Vec<Effect>) {
        let confidence = self.settings.confidence;
        let (interval, pairs) = self.population.difference(birth.harness, parent, &evaluation.job_type, evaluation.split, confidence);
        let judged = JudgedHypothesis { difference: interval.mean, low: interval.low, high: interval.high, pairs };
        effects.push(Effect::HypothesisJudged { harness: birth.harness, judged });
        if let Some(hypothesis) = birth.hypothesis.as_ref().filter(|_| interval.mean <= 0.0) {
            let failed = self.failed_edits.entry(evaluation.job_type.clone()).or_default();
            failed.push_back(format!("{} (difference {:+.2} over {pairs} pairs)", hypothesis.text, interval.mean));
            if failed.len() > FAILED_EDITS_KEPT {
                failed.pop_front();
            }
        }
    }

    fn offer(&mut self, step: u64, evaluation: &Evaluation, effects: &mut Vec<Effect>) {
        let expected = usize::try_from(self.settings.full_episodes()).unwrap_or(usize::MAX);
        let complete = evaluation.episodes.len() + usize::try_from(evaluation.faulted).unwrap_or(0) >= expected;
        let Some((mean, behaviour)) = summarise(&evaluation.episodes).filter(|_| complete) else { return };
        let niche = self.archive.edges().niche(&evaluation.job_type, behaviour);
        let contest = self.archive.cell(&niche).map_or(Contest::Better, |cell| self.contest(evaluation, cell.holder.harness));
        let episodes = u32::try_from(evaluation.episodes.len()).unwrap_or(u32::MAX);
        let holder = Holder { harness: evaluation.harness, mean, episodes, since: step };
        let previous = match self.archive.offer(&niche, holder, contest) {
            Offer::New => None,
            Offer::Improved { previous } => Some(previous),
            Offer::Rejected => return,
        };
        effects.push(Effect::NicheTaken { niche, harness: evaluation.harness, previous, mean, episodes });
    }

    /// The place in a niche is given liberally, to whoever is ahead on the same pairs: it only decides who has children. A place
    /// won by luck costs some children, a gain that is not followed up costs the search.
    fn contest(&self, evaluation: &Evaluation, holder: HarnessId) -> Contest {
        let confidence = self.settings.confidence;
        let (interval, _) = self.population.difference(evaluation.harness, holder, &evaluation.job_type, evaluation.split, confidence);
        if interval.mean > 0.0 { Contest::Better } else { Contest::NotBetter }
    }

    /// The title is given strictly: to the first that is confirmed, then only to who is better on the same validate pairs at
    /// the stated confidence.
    fn confirm(&mut self, harness: HarnessId, niche: &Niche, result: &StepResult, effects: &mut Vec<Effect>) {
        self.confirming.remove(&(niche.clone(), harness));
        let StepResult::Evaluated { evaluations, .. } = result else { return };
        for evaluation in evaluations {
            self.population.keep(harness, &evaluation.job_type, Split::Validate, &evaluation.episodes);
            let Some(elite) = elite(harness, &evaluation.episodes, self.settings.confidence) else { continue };
            let holder = self.archive.cell(niche).and_then(|cell| cell.elite).map(|held| held.harness);
            let deserved = holder.is_none_or(|holder| {
                // One-sided at the stated confidence: the two-sided interval at twice the error.
                let two_sided = 2.0 * self.settings.confidence - 1.0;
                self.population.difference(harness, holder, &evaluation.job_type, Split::Validate, two_sided).0.low > 0.0
            });
            if deserved && self.archive.crown(niche, elite) {
                effects.push(confirmed(niche, &elite));
            }
        }
    }
}

/// How many failed edits a rewriting model is told of, per job type.
const FAILED_EDITS_KEPT: usize = 8;

/// What one scored episode cost.
fn price(score: &EpisodeScore) -> Amount {
    Amount { episodes: 1, tokens: score.tokens + score.lost_tokens, micro_usd: score.micro_usd + score.lost_micro_usd }
}

/// The elite's figures from its validate episodes; `None` without any.
#[must_use]
pub fn elite(harness: HarnessId, scores: &[EpisodeScore], confidence: f64) -> Option<Elite> {
    let (_, behaviour) = summarise(scores)?;
    let episodes = u32::try_from(scores.len()).unwrap_or(u32::MAX);
    let passed = u32::try_from(scores.iter().filter(|score| score.passed()).count()).unwrap_or(u32::MAX);
    let interval = wilson(passed, episodes, confidence);
    #[expect(clippy::cast_precision_loss, reason = "prices of an episode are far below 2^53")]
    let micro_usd = scores.iter().map(|score| score.micro_usd as f64).sum::<f64>() / f64::from(episodes);
    Some(Elite {
        harness,
        rate: interval.mean,
        low: interval.low,
        high: interval.high,
        episodes,
        mean_steps: behaviour.steps,
        mean_tokens: behaviour.tokens,
        mean_micro_usd: micro_usd,
    })
}

fn confirmed(niche: &Niche, elite: &Elite) -> Effect {
    Effect::EliteConfirmed {
        niche: niche.clone(),
        harness: elite.harness,
        rate: elite.rate,
        low: elite.low,
        high: elite.high,
        episodes: elite.episodes,
        mean_steps: elite.mean_steps,
        mean_tokens: elite.mean_tokens,
        mean_micro_usd: elite.mean_micro_usd,
    }
}

/// An amount in words; what has no limit is left out.
fn amount(amount: Amount) -> String {
    let parts = [(amount.episodes, "episodes"), (amount.tokens, "tokens"), (amount.micro_usd, "micro-dollars")];
    let limited: Vec<String> = parts.iter().filter(|(n, _)| *n != u64::MAX).map(|(n, unit)| format!("{n} {unit}")).collect();
    limited.join(", ")
}

/// A plan in a few words, for errors.
fn describe(plan: &StepPlan) -> String {
    match plan {
        StepPlan::Seed { template, .. } => format!("seed {template}"),
        StepPlan::Child { operator, parents, job_type } => {
            let parents: Vec<String> = parents.iter().map(HarnessId::short).collect();
            format!("{} of {} for {job_type}", operator.as_str(), parents.join(" and "))
        }
        StepPlan::Confirm { harness, niche } => format!("confirm {} in {niche}", harness.short()),
    }
}
