//! A run from its folder: opens what the experiment names, drives the search, plays the comparison.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::failure::{Failure, FailureKind};
use super::models::OpenedModel;
use crate::config::Experiment;
use crate::evaluation::{Attempts, EvaluationError, Evaluator, ModelPlayer};
use crate::evolution::{
    Comparison, DriveEnd, DriveError, FinaleError, ModelRewriter, Rewriter, RunEvent, Search, SearchSpace, StopSignals, compare, drive,
};
use crate::report::Reporter;
use crate::sandbox::Sandbox;
use crate::store::RunStore;
use crate::task::SplitTasks;

/// Everything a run needs beside its folder.
pub(super) struct Session {
    pub(super) experiment: Experiment,
    pub(super) teacher: OpenedModel,
    pub(super) rewriter: OpenedModel,
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) workers: usize,
}

/// How a session ended.
pub(super) enum SessionEnd {
    /// Search and comparison are complete.
    Complete(Box<Search>, Comparison),
    /// The user stopped it after what was open was finished.
    Drained,
}

impl Session {
    /// Runs, or goes on with, the run in `store`.
    pub(super) async fn run(&self, store: &RunStore, folder: &Path, reporter: Box<dyn Reporter>) -> Result<SessionEnd, Failure> {
        let mut search = search(&self.experiment, self.worst_price())?;
        let resumed = replay(&mut search, store)?;
        let signals = StopSignals::default();
        let (events, feed) = mpsc::unbounded_channel();
        let mut background = JoinSet::new();
        background.spawn(report(reporter, feed));
        background.spawn(watch_signals(signals.clone(), events.clone()));
        let evaluator = Arc::new(self.evaluator(store, &events, &signals, &mut background));
        let started = RunEvent::Started {
            resumed_steps: resumed,
            limit: self.experiment.limit(),
            spent: search.ledger().spent(),
            job_types: self.experiment.job_types.clone(),
            simulated: self.teacher.model.simulated(),
        };
        // The reporter lives as long as the session; sending cannot fail before the end.
        let _ = events.send(started);
        let end = self.drive(&mut search, &evaluator, store, &events, &signals).await;
        let end = match end {
            Ok(DriveEnd::Complete) => {
                let _ = events.send(RunEvent::Phase { name: "comparison".to_owned(), episodes: self.experiment.report_limit.episodes });
                let comparison = compare(&search, &evaluator, &self.experiment.finale(), &signals.drain).await;
                settle(comparison, search, store, folder)
            }
            Ok(DriveEnd::Drained) => Ok(SessionEnd::Drained),
            Err(error) => Err(drive_failure(&error, folder)),
        };
        let reason = match &end {
            Ok(SessionEnd::Complete(..)) => "complete".to_owned(),
            Ok(SessionEnd::Drained) => "stopped".to_owned(),
            Err(failure) => failure.message.clone(),
        };
        let _ = events.send(RunEvent::Stopped { reason });
        drop(evaluator);
        drop(events);
        // The reporter ends when the last sender is gone; the signal watcher is stopped.
        signals.abort.cancel();
        while background.join_next().await.is_some() {}
        end
    }

    /// The highest price of a token of either model.
    pub(super) fn worst_price(&self) -> u64 {
        let most = |model: &OpenedModel| model.model.price().into_iter().max().unwrap_or(0);
        most(&self.teacher).max(most(&self.rewriter))
    }

    fn evaluator(
        &self,
        store: &RunStore,
        events: &mpsc::UnboundedSender<RunEvent>,
        signals: &StopSignals,
        background: &mut JoinSet<()>,
    ) -> Evaluator {
        let player = ModelPlayer {
            model: Arc::clone(&self.teacher.model),
            sandbox: Arc::clone(&self.sandbox),
            policy: self.experiment.sandbox.policy.clone(),
        };
        let (watcher, mut attempts) = mpsc::unbounded_channel::<crate::evaluation::Attempt>();
        let events = events.clone();
        background.spawn(async move {
            while let Some(attempt) = attempts.recv().await {
                let event = RunEvent::EpisodeDone {
                    harness: attempt.harness,
                    job_type: attempt.job_type,
                    split: attempt.split,
                    task: attempt.task,
                    result: attempt.result.into(),
                };
                if events.send(event).is_err() {
                    break;
                }
            }
        });
        let log = Arc::new(store.episode_log());
        Evaluator::new(Arc::new(player), log, self.workers, Attempts(self.experiment.attempts), watcher, signals.abort.clone())
    }

    async fn drive(
        &self,
        search: &mut Search,
        evaluator: &Arc<Evaluator>,
        store: &RunStore,
        events: &mpsc::UnboundedSender<RunEvent>,
        signals: &StopSignals,
    ) -> Result<DriveEnd, DriveError> {
        let tasks = SplitTasks::new(self.experiment.tasks.clone()).search;
        let rewriter: Arc<dyn Rewriter> = Arc::new(ModelRewriter::new(Arc::clone(&self.rewriter.model), &tasks, signals.abort.clone()));
        let mut journal = store.journal();
        drive(search, evaluator, &rewriter, &mut journal, events, signals).await
    }
}

/// The search of an experiment at its beginning, with tokens that cost `worst_price` at most. Refuses what cannot be searched: a job
/// type without tasks on one of the splits, for example.
pub(super) fn search(experiment: &Experiment, worst_price: u64) -> Result<Search, Failure> {
    let mut seeds = Vec::new();
    for seed in &experiment.seeds {
        let harness = seed.harness().map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
        seeds.push((seed.template.clone(), Arc::new(harness)));
    }
    let space = SearchSpace {
        seeds,
        job_types: experiment.job_types.clone(),
        tasks: SplitTasks::new(experiment.tasks.clone()),
        library: Arc::new(experiment.library.clone()),
        worst_price,
        attempts: experiment.attempts,
    };
    Search::new(experiment.search.clone(), space).map_err(|error| Failure::from_error(FailureKind::Input, &error))
}

/// Brings `search` to where the journal ends.
fn replay(search: &mut Search, store: &RunStore) -> Result<u64, Failure> {
    let fail = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Run, error);
    let reader = store.reader().map_err(|error| fail(&error))?;
    let mut count = 0;
    for record in reader.steps() {
        let record = record.map_err(|error| fail(&error))?;
        search.replay(&record).map_err(|error| fail(&error))?;
        count += 1;
    }
    Ok(count)
}

/// Keeps the comparison if it is as complete as it will ever be: a part of it must not look like the end of a run.
fn settle(comparison: Comparison, search: Search, store: &RunStore, folder: &Path) -> Result<SessionEnd, Failure> {
    match comparison.cut_short {
        Some(FinaleError::Stopped) => return Ok(SessionEnd::Drained),
        Some(FinaleError::Evaluation(error)) => return Err(drive_failure(&DriveError::Evaluation(error), folder)),
        Some(FinaleError::Budget(_)) | None => {}
    }
    store.write_report(&comparison.rows).map_err(|error| Failure::from_error(FailureKind::Run, &error))?;
    Ok(SessionEnd::Complete(Box::new(search), comparison))
}

fn drive_failure(error: &DriveError, folder: &Path) -> Failure {
    let resume = format!("harness-evo resume {}", folder.display());
    match error {
        DriveError::Evaluation(EvaluationError::Cancelled) => {
            Failure::new(FailureKind::Interrupted, "stopped at once; what was committed is kept").hint(format!("`{resume}` goes on"))
        }
        DriveError::Evaluation(EvaluationError::AllFaults { .. }) => Failure::from_error(FailureKind::Environment, error)
            .hint("`harness-evo doctor` looks at sandbox and endpoint")
            .hint(format!("when it is repaired, `{resume}` goes on")),
        DriveError::Journal(_) | DriveError::Evaluation(EvaluationError::Log(_)) => Failure::from_error(FailureKind::Run, error)
            .hint(format!("free some space, then `{resume}` goes on; nothing that was committed is lost")),
        DriveError::Search(_) | DriveError::Evaluation(EvaluationError::Worker(_)) => Failure::from_error(FailureKind::Other, error),
    }
}

async fn report(mut reporter: Box<dyn Reporter>, mut feed: mpsc::UnboundedReceiver<RunEvent>) {
    while let Some(event) = feed.recv().await {
        reporter.event(&event);
    }
    reporter.finish();
}

/// The first interrupt lets what is open finish, the second stops now.
async fn watch_signals(signals: StopSignals, events: mpsc::UnboundedSender<RunEvent>) {
    for count in 1..=2 {
        tokio::select! {
            () = signals.abort.cancelled() => return,
            received = interrupt() => if received.is_err() { return },
        }
        if count == 1 {
            signals.drain.cancel();
            let reason = "interrupted: finishing what is open; once more stops at once".to_owned();
            let _ = events.send(RunEvent::Stopped { reason });
        } else {
            signals.abort.cancel();
        }
    }
}

/// Ctrl-C, or what a service manager sends.
async fn interrupt() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}
