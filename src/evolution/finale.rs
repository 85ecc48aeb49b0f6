//! The comparison at the end of a run: on the validate split, with seeds no confirmation has used, the best seed, every job type's
//! elite on every job type, and the matched-budget baseline. Everything it plays goes through the memoised pool, so that a
//! second call costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::population::{pair, summarise};
use super::search::Search;
use crate::base::{Amount, BudgetError, Ledger};
use crate::evaluation::{Batch, EpisodeScore, EvaluationError, Evaluator, Interval, paired_difference, wilson};
use crate::harness::{Harness, HarnessId};
use crate::task::{JobType, Split};

/// Whether the matched-budget baseline is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The seed is re-run for as many episodes as the search spent on the job type, in runs as long as the comparison; the best
    /// run is shown. It says what picking the luckiest of so many looks gives without any change to the harness.
    Matched,
    /// No.
    Off,
}

/// What the comparison plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinaleSettings {
    /// Episodes per harness and job type.
    pub episodes: u32,
    /// The baseline.
    pub baseline: Baseline,
    /// What it may spend.
    pub limit: Amount,
}

/// What a row of the comparison stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonRole {
    /// The seed that did best on the job type's search split.
    Seed,
    /// The job type's own elite.
    Elite,
    /// The elite of another job type.
    OtherElite,
    /// The best of the seed's re-runs.
    Baseline,
}

impl ComparisonRole {
    /// The name, as in SQL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Elite => "elite",
            Self::OtherElite => "other_elite",
            Self::Baseline => "baseline",
        }
    }
}

/// One row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The kind of work.
    pub job_type: JobType,
    /// The split the figures are from.
    pub split: Split,
    /// What the row stands for.
    pub role: ComparisonRole,
    /// For an elite, the job type that crowned it; for a seed and the baseline, the template.
    pub label: String,
    /// The harness.
    pub harness: HarnessId,
    /// Solved share with its interval.
    pub rate: Interval,
    /// Over how many episodes.
    pub episodes: u32,
    /// Runs the row is the best of: 1 but for the baseline.
    pub best_of: u32,
    /// Paired difference to the seed in solved share, on the same tasks and seeds; none for the seed and the baseline.
    pub gain: Option<Interval>,
    /// Mean model replies per episode.
    pub mean_steps: f64,
    /// Mean tokens per episode.
    pub mean_tokens: f64,
    /// Mean price per episode in millionths of a US dollar.
    pub mean_micro_usd: f64,
}

/// Why a comparison is not complete.
#[derive(Debug, thiserror::Error)]
pub enum FinaleError {
    /// Playing failed.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// What is left of the budget does not cover it; the rows so far are complete.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The run was told to stop after what was open.
    #[error("stopped before the comparison was complete")]
    Stopped,
}

/// The comparison as far as it went.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Complete rows.
    pub rows: Vec<ComparisonRow>,
    /// What it spent.
    pub spent: Amount,
    /// Why it is not complete.
    pub cut_short: Option<FinaleError>,
}

/// Plays the comparison of a finished search.
pub async fn compare(search: &Search, evaluator: &Evaluator, settings: &FinaleSettings, drain: &CancellationToken) -> Comparison {
    let mut finale = Finale { search, evaluator, settings, drain, ledger: Ledger::new(settings.limit), rows: Vec::new() };
    let result = finale.play().await;
    Comparison { rows: finale.rows, spent: finale.ledger.spent(), cut_short: result.err() }
}

struct Finale<'a> {
    search: &'a Search,
    evaluator: &'a Evaluator,
    settings: &'a FinaleSettings,
    drain: &'a CancellationToken,
    ledger: Ledger,
    rows: Vec<ComparisonRow>,
}

/// One run of a harness: its scores, and what to call it.
struct Run<'a> {
    job_type: &'a JobType,
    role: ComparisonRole,
    label: &'a str,
    harness: HarnessId,
    best_of: u32,
}

impl Finale<'_> {
    async fn play(&mut self) -> Result<(), FinaleError> {
        let job_types = self.search.space().job_types.clone();
        let elites = self.elites(&job_types);
        for job_type in &job_types {
            let Some((label, seed)) = self.search.best_seed(job_type) else { continue };
            let (label, seed) = (label.to_owned(), Arc::clone(seed));
            let reference = self.run(&seed, job_type, 0).await?;
            self.row(&Run { job_type, role: ComparisonRole::Seed, label: &label, harness: seed.id(), best_of: 1 }, &reference, None);
            for (crowned, elite) in &elites {
                let scores = self.run(elite, job_type, 0).await?;
                let role = if crowned == job_type { ComparisonRole::Elite } else { ComparisonRole::OtherElite };
                self.row(&Run { job_type, role, label: crowned.as_str(), harness: elite.id(), best_of: 1 }, &scores, Some(&reference));
            }
        }
        if self.settings.baseline == Baseline::Matched {
            for job_type in &job_types {
                self.baseline(job_type).await?;
            }
        }
        Ok(())
    }

    fn elites(&self, job_types: &[JobType]) -> BTreeMap<JobType, Arc<Harness>> {
        let elite = |job_type: &JobType| {
            let (_, elite) = self.search.archive().elite_of(job_type)?;
            Some((job_type.clone(), Arc::clone(&self.search.population().get(elite.harness)?.harness)))
        };
        job_types.iter().filter_map(elite).collect()
    }

    /// The seed's re-runs for one job type.
    async fn baseline(&mut self, job_type: &JobType) -> Result<(), FinaleError> {
        let Some((label, seed)) = self.search.best_seed(job_type) else { return Ok(()) };
        let (label, seed) = (label.to_owned(), Arc::clone(seed));
        let runs = self.baseline_runs(job_type);
        let mut best: Option<(f64, Vec<EpisodeScore>)> = None;
        for run in 0..runs {
            let scores = self.run(&seed, job_type, run).await?;
            let Some(mean) = solved(&scores) else { continue };
            if best.as_ref().is_none_or(|(held, _)| mean > *held) {
                best = Some((mean, scores));
            }
        }
        if let Some((_, scores)) = best {
            self.row(&Run { job_type, role: ComparisonRole::Baseline, label: &label, harness: seed.id(), best_of: runs }, &scores, None);
        }
        Ok(())
    }

    /// As many runs as the search's episodes on the job type make, at least one.
    fn baseline_runs(&self, job_type: &JobType) -> u32 {
        let spent = self.search.episodes_on(job_type);
        u32::try_from(spent / u64::from(self.settings.episodes.max(1))).unwrap_or(u32::MAX).max(1)
    }

    /// Run number `run` of `harness`: pairings after those of the confirmations, so that the luck that crowned an elite does not
    /// count again.
    async fn run(&mut self, harness: &Arc<Harness>, job_type: &JobType, run: u32) -> Result<Vec<EpisodeScore>, FinaleError> {
        if self.drain.is_cancelled() {
            return Err(FinaleError::Stopped);
        }
        let count = |episodes: u32| usize::try_from(episodes).unwrap_or(usize::MAX);
        let length = count(self.settings.episodes);
        let from = count(self.search.settings().confirm_episodes) + length * count(run);
        let pairings = self.search.validation(job_type).map_or_else(Vec::new, |schedule| schedule.pairs(from, from + length));
        let reserve = self.evaluator.worst_episode(harness).times(u64::from(self.settings.episodes));
        self.ledger.reserve(reserve)?;
        let batch = self.evaluator.evaluate(harness, Split::Validate, &pairings).await?;
        self.ledger.settle(reserve, spent(&batch));
        Ok(batch.scores)
    }

    fn row(&mut self, run: &Run<'_>, scores: &[EpisodeScore], reference: Option<&[EpisodeScore]>) {
        let confidence = self.search.settings().confidence;
        let Some((_, behaviour)) = summarise(scores) else { return };
        let episodes = u32::try_from(scores.len()).unwrap_or(u32::MAX);
        let passed = u32::try_from(scores.iter().filter(|score| score.passed()).count()).unwrap_or(u32::MAX);
        let gain = reference.map(|reference| paired_difference(&pair(&binary(scores), &binary(reference)), confidence));
        #[expect(clippy::cast_precision_loss, reason = "prices of an episode are far below 2^53")]
        let micro_usd = scores.iter().map(|score| score.micro_usd as f64).sum::<f64>() / f64::from(episodes);
        self.rows.push(ComparisonRow {
            job_type: run.job_type.clone(),
            split: Split::Validate,
            role: run.role,
            label: run.label.to_owned(),
            harness: run.harness,
            rate: wilson(passed, episodes, confidence),
            episodes,
            best_of: run.best_of,
            gain,
            mean_steps: behaviour.steps,
            mean_tokens: behaviour.tokens,
            mean_micro_usd: micro_usd,
        });
    }
}

/// Episodes the comparison plays at most, baseline not counted: one seed and every elite, on every job type.
#[must_use]
pub fn comparison_episodes(job_types: u64, episodes: u32) -> u64 {
    job_types * (job_types + 1) * u64::from(episodes)
}

/// The same scores with partial credit counted as failure.
fn binary(scores: &[EpisodeScore]) -> Vec<EpisodeScore> {
    scores.iter().map(|score| EpisodeScore { score: f64::from(u8::from(score.passed())), ..score.clone() }).collect()
}

fn solved(scores: &[EpisodeScore]) -> Option<f64> {
    summarise(&binary(scores)).map(|(mean, _)| mean)
}

fn spent(batch: &Batch) -> Amount {
    batch.scores.iter().fold(batch.lost, |sum, score| {
        sum.plus(Amount { episodes: 1, tokens: score.tokens + score.lost_tokens, micro_usd: score.micro_usd + score.lost_micro_usd })
    })
}
