//! The pool: plays episodes with bounded concurrency, each at most once, retries faults, keeps everything in the log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::player::EpisodePlayer;
use super::schedule::Pairing;
use super::{EpisodeKey, EpisodeLog, EpisodeScore, LogError};
use crate::base::Amount;
use crate::episode::Played;
use crate::harness::{Harness, HarnessId};
use crate::task::{JobType, Split, TaskId};
use crate::trajectory::{Fault, Outcome};

/// An evaluation that could not be completed. No score is lost: what was played is in the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EvaluationError {
    /// The run was told to stop.
    #[error("the evaluation was cancelled")]
    Cancelled,
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Nothing is scored any more.
    #[error("{faulted} attempts in a row faulted and none was scored; the last: {last}")]
    AllFaults {
        /// How many.
        faulted: u32,
        /// The last fault.
        last: Fault,
    },
    /// A worker died.
    #[error("an evaluation worker died: {0}")]
    Worker(String),
}

/// One attempt at an episode, as told to whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The harness.
    pub harness: HarnessId,
    /// The kind of work.
    pub job_type: JobType,
    /// The split.
    pub split: Split,
    /// The task.
    pub task: TaskId,
    /// Its score, or the fault.
    pub result: Result<f64, Fault>,
}

/// What came of a list of pairings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Scored episodes, in the order of the pairings; pairings that stayed faulted are missing.
    pub scores: Vec<EpisodeScore>,
    /// Pairings that stayed faulted.
    pub faulted: u32,
    /// Attempts that faulted.
    pub faulted_attempts: u32,
    /// Tokens and money of faulted attempts at pairings that stayed faulted.
    pub lost: Amount,
}

/// How often a faulted episode is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts(pub u32);

type Settled = Result<EpisodeResult, EvaluationError>;

#[derive(Debug, Clone)]
struct EpisodeResult {
    score: Option<EpisodeScore>,
    faulted_attempts: u32,
    lost: Amount,
}

/// The pool.
pub struct Evaluator {
    shared: Arc<Shared>,
}

struct Shared {
    player: Arc<dyn EpisodePlayer>,
    log: Arc<dyn EpisodeLog>,
    // One permit per running episode.
    slots: Semaphore,
    attempts: u32,
    // Episodes in flight or settled in this process: two steps that need the same one share it.
    flights: Mutex<HashMap<EpisodeKey, Arc<OnceCell<Settled>>>>,
    // Attempts that faulted since the last scored one: an endpoint that is down must not burn the budget.
    faults_in_a_row: AtomicU32,
    watcher: mpsc::UnboundedSender<Attempt>,
    cancel: CancellationToken,
}

/// So many faulted attempts in a row stop the run.
const FAULTS_TOLERATED: u32 = 40;

impl Evaluator {
    /// A pool with `workers` slots. Every attempt is told to `watcher`; a watcher that went away is no error.
    #[must_use]
    pub fn new(
        player: Arc<dyn EpisodePlayer>,
        log: Arc<dyn EpisodeLog>,
        workers: usize,
        attempts: Attempts,
        watcher: mpsc::UnboundedSender<Attempt>,
        cancel: CancellationToken,
    ) -> Self {
        let shared = Shared {
            player,
            log,
            slots: Semaphore::new(workers.max(1)),
            attempts: attempts.0.max(1),
            flights: Mutex::new(HashMap::new()),
            faults_in_a_row: AtomicU32::new(0),
            watcher,
            cancel,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The log episodes are kept in.
    #[must_use]
    pub fn log(&self) -> &dyn EpisodeLog {
        self.shared.log.as_ref()
    }

    /// The key of an episode with this pool's model.
    #[must_use]
    pub fn key(&self, harness: HarnessId, task: TaskId, seed: u64) -> EpisodeKey {
        EpisodeKey { harness, task, seed, model: self.shared.player.fingerprint().to_owned() }
    }

    /// Most one episode of `harness` can cost, all attempts together.
    #[must_use]
    pub fn worst_episode(&self, harness: &Harness) -> Amount {
        worst_episode(harness, self.shared.player.worst_price(), Attempts(self.shared.attempts))
    }

    /// Plays `harness` on every pairing.
    ///
    /// # Errors
    /// When the run was cancelled or the log failed. Faults are part of the batch.
    pub async fn evaluate(&self, harness: &Arc<Harness>, split: Split, pairings: &[Pairing]) -> Result<Batch, EvaluationError> {
        let mut running = JoinSet::new();
        for (index, pairing) in pairings.iter().enumerate() {
            let shared = Arc::clone(&self.shared);
            let harness = Arc::clone(harness);
            let pairing = pairing.clone();
            running.spawn(async move { (index, shared.settle(&harness, split, &pairing).await) });
        }
        let mut results: Vec<Option<EpisodeResult>> = vec![None; pairings.len()];
        let mut failed = None;
        while let Some(joined) = running.join_next().await {
            match joined {
                Ok((index, Ok(result))) => results[index] = Some(result),
                // Let the others settle: what is paid for is kept.
                Ok((_, Err(error))) => failed = Some(error),
                Err(error) => failed = Some(EvaluationError::Worker(error.to_string())),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut batch = Batch::default();
        for result in results.into_iter().flatten() {
            batch.faulted_attempts += result.faulted_attempts;
            match result.score {
                Some(score) => batch.scores.push(score),
                None => {
                    batch.faulted += 1;
                    batch.lost = batch.lost.plus(result.lost);
                }
            }
        }
        Ok(batch)
    }
}

/// Most one episode of `harness` can cost at `price` micro-dollars per million tokens, all attempts together.
#[must_use]
pub fn worst_episode(harness: &Harness, price: u64, attempts: Attempts) -> Amount {
    let tokens = harness.genome().limits.tokens.saturating_mul(u64::from(attempts.0));
    Amount { episodes: 1, tokens, micro_usd: micro_usd(tokens, price) }
}

fn micro_usd(tokens: u64, price: u64) -> u64 {
    u64::try_from((u128::from(tokens) * u128::from(price)).div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl Shared {
    async fn settle(&self, harness: &Harness, split: Split, pairing: &Pairing) -> Settled {
        let key =
            EpisodeKey { harness: harness.id(), task: pairing.task.id(), seed: pairing.seed, model: self.player.fingerprint().to_owned() };
        let flight = {
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(flights.entry(key.clone()).or_default())
        };
        let settled = flight.get_or_init(|| self.find_or_play(&key, harness, split, pairing)).await.clone();
        // The log has it now; the flight is only there to share what is in the air.
        self.flights.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        settled
    }

    async fn find_or_play(&self, key: &EpisodeKey, harness: &Harness, split: Split, pairing: &Pairing) -> Settled {
        if let Some(score) = self.log.find(key).await? {
            return Ok(EpisodeResult { score: Some(score), faulted_attempts: 0, lost: Amount::default() });
        }
        let Ok(_slot) = self.slots.acquire().await else { return Err(EvaluationError::Cancelled) };
        let mut lost = Amount { episodes: 1, ..Amount::default() };
        for attempt in 0..self.attempts {
            if self.cancel.is_cancelled() {
                return Err(EvaluationError::Cancelled);
            }
            let Some(played) = self.player.play(harness, &pairing.task, pairing.seed, &self.cancel).await else {
                return Err(EvaluationError::Cancelled);
            };
            let score = scored(key, &played, lost);
            self.log.record(key, split, attempt, &played.trajectory, played.timing, score.as_ref()).await?;
            self.tell(key, split, pairing, &played);
            self.watch_faults(&played)?;
            if score.is_some() {
                return Ok(EpisodeResult { score, faulted_attempts: attempt, lost: Amount::default() });
            }
            lost.tokens += played.trajectory.total_usage().total();
            lost.micro_usd += played.micro_usd;
        }
        Ok(EpisodeResult { score: None, faulted_attempts: self.attempts, lost })
    }

    fn watch_faults(&self, played: &Played) -> Result<(), EvaluationError> {
        let Outcome::Faulted { fault } = &played.trajectory.outcome else {
            self.faults_in_a_row.store(0, Ordering::Relaxed);
            return Ok(());
        };
        let faulted = self.faults_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if faulted < FAULTS_TOLERATED { Ok(()) } else { Err(EvaluationError::AllFaults { faulted, last: fault.clone() }) }
    }

    fn tell(&self, key: &EpisodeKey, split: Split, pairing: &Pairing, played: &Played) {
        let result = match &played.trajectory.outcome {
            Outcome::Scored { verdict, .. } => Ok(verdict.score),
            Outcome::Faulted { fault } => Err(fault.clone()),
        };
        let attempt = Attempt { harness: key.harness, job_type: pairing.task.job_type().clone(), split, task: key.task, result };
        // Nobody watching is fine: the log has the attempt.
        let _ = self.watcher.send(attempt);
    }
}

/// The score of a played episode, with what faulted attempts before it cost.
fn scored(key: &EpisodeKey, played: &Played, lost: Amount) -> Option<EpisodeScore> {
    let score = played.trajectory.outcome.score()?;
    Some(EpisodeScore {
        task: key.task,
        seed: key.seed,
        score,
        steps: played.trajectory.steps(),
        tokens: played.trajectory.total_usage().total(),
        micro_usd: played.micro_usd,
        lost_tokens: lost.tokens,
        lost_micro_usd: lost.micro_usd,
        shell_calls: played.shell_calls,
        gui_calls: played.gui_calls,
    })
}
