//! Carries decided steps out, many at a time, and commits their results in order.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::draft::{Draft, Track, Work};
use super::rewriter::Rewriter;
use super::search::{Search, SearchError};
use super::{Birth, Evaluation, Journal, JournalError, Refusal, RunEvent, StepResult};
use crate::base::Amount;
use crate::evaluation::{Batch, EpisodeScore, EvaluationError, Evaluator, paired_difference};
use crate::harness::Harness;

/// Why a search stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The search and what it was told do not fit.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An evaluation failed.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveEnd {
    /// Budget spent, holders confirmed.
    Complete,
    /// Told to stop: open steps were finished and committed.
    Drained,
}

/// What tells a driver to stop.
#[derive(Debug, Clone, Default)]
pub struct StopSignals {
    /// Finish what is open, start nothing.
    pub drain: CancellationToken,
    /// Stop now.
    pub abort: CancellationToken,
}

/// Runs `search` to its end or to `signals`.
///
/// # Errors
/// When journal or log fail, when the search was told to stop at once, or when nothing is scored any more. What was committed
/// before stays.
pub async fn drive(
    search: &mut Search,
    evaluator: &Arc<Evaluator>,
    rewriter: &Arc<dyn Rewriter>,
    journal: &mut dyn Journal,
    events: &mpsc::UnboundedSender<RunEvent>,
    signals: &StopSignals,
) -> Result<DriveEnd, DriveError> {
    let mut running: JoinSet<(u64, Result<StepResult, EvaluationError>)> = JoinSet::new();
    let mut draining = signals.drain.is_cancelled();
    loop {
        while let Some(draft) = if draining { None } else { search.ask() } {
            let evaluator = Arc::clone(evaluator);
            let rewriter = Arc::clone(rewriter);
            running.spawn(async move { (draft.step, carry_out(draft, &evaluator, rewriter.as_ref()).await) });
        }
        let joined = tokio::select! {
            biased;
            () = signals.abort.cancelled() => return Err(EvaluationError::Cancelled.into()),
            () = signals.drain.cancelled(), if !draining => { draining = true; continue; }
            joined = running.join_next() => joined,
        };
        let Some(joined) = joined else { break };
        let (step, result) = joined.map_err(|error| EvaluationError::Worker(error.to_string()))?;
        for record in search.tell(step, result?)? {
            journal.commit(&record)?;
            let refused = match &record.result {
                StepResult::Refused { refusal, .. } => Some(refusal.to_string()),
                StepResult::Evaluated { .. } => None,
            };
            // A reporter that went away does not stop the run.
            let _ = events.send(RunEvent::StepCommitted {
                step: record.step,
                plan: record.plan,
                refused,
                effects: record.effects,
                spent: record.spent,
            });
        }
    }
    Ok(if draining { DriveEnd::Drained } else { DriveEnd::Complete })
}

async fn carry_out(draft: Draft, evaluator: &Evaluator, rewriter: &dyn Rewriter) -> Result<StepResult, EvaluationError> {
    match draft.work {
        Work::Refuse(refusal) => Ok(StepResult::Refused { refusal, overhead: Amount::default() }),
        Work::Evaluate { harness, birth, tracks } => evaluate(&harness, birth, &tracks, evaluator, Amount::default()).await,
        Work::Rewrite { brief, track } => {
            let rewritten = rewriter.rewrite(&brief, evaluator).await?;
            match rewritten.child {
                Err(refusal) => Ok(StepResult::Refused { refusal, overhead: rewritten.overhead }),
                Ok((birth, child)) if child.genome().limits.tokens > brief.token_limit => {
                    let reason =
                        format!("`limits.tokens` of {} is more than twice that of {}", birth.harness.short(), brief.parent.id().short());
                    Ok(StepResult::Refused { refusal: Refusal::Invalid { reason }, overhead: rewritten.overhead })
                }
                Ok((birth, child)) => evaluate(&Arc::new(child), Some(Box::new(birth)), &[track], evaluator, rewritten.overhead).await,
            }
        }
    }
}

async fn evaluate(
    harness: &Arc<Harness>,
    birth: Option<Box<Birth>>,
    tracks: &[Track],
    evaluator: &Evaluator,
    overhead: Amount,
) -> Result<StepResult, EvaluationError> {
    let mut evaluations = Vec::with_capacity(tracks.len());
    for track in tracks {
        evaluations.push(race(harness, track, evaluator).await?);
    }
    Ok(StepResult::Evaluated { birth, evaluations, overhead })
}

/// Plays a track stage by stage. After each stage but the last the candidate is given up when it is behind its rival on the
/// pairs played so far, with three chances in four that this is no bad luck, or when its edit is inert.
async fn race(harness: &Arc<Harness>, track: &Track, evaluator: &Evaluator) -> Result<Evaluation, EvaluationError> {
    let mut total = Batch::default();
    let mut from = 0;
    for (index, to) in track.stages.iter().enumerate() {
        let to = (*to).min(track.pairings.len());
        let batch = evaluator.evaluate(harness, track.split, &track.pairings[from..to]).await?;
        total.scores.extend(batch.scores);
        total.faulted += batch.faulted;
        total.faulted_attempts += batch.faulted_attempts;
        total.lost = total.lost.plus(batch.lost);
        from = to;
        let last = index + 1 == track.stages.len();
        if !last && !track.rival.is_empty() {
            let differences = super::population::pair(&total.scores, &track.rival);
            if paired_difference(&differences, 0.5).high < 0.0 || inert(&total.scores, &track.rival) {
                break;
            }
        }
    }
    Ok(Evaluation {
        harness: harness.id(),
        job_type: track.job_type.clone(),
        split: track.split,
        episodes: total.scores,
        faulted: total.faulted,
        faulted_attempts: total.faulted_attempts,
        lost: total.lost,
    })
}

/// Whether every episode went exactly as the rival's did: same score, steps and tokens. Then the edit touches nothing that these
/// tasks need, and more of them would say the same.
fn inert(scores: &[EpisodeScore], rival: &[EpisodeScore]) -> bool {
    // Where everything faulted, nothing is known.
    !scores.is_empty()
        && scores.iter().all(|score| {
            let same = |other: &&EpisodeScore| other.task == score.task && other.seed == score.seed;
            rival.iter().find(same).is_some_and(|other| {
                other.score.to_bits() == score.score.to_bits() && other.steps == score.steps && other.tokens == score.tokens
            })
        })
}
