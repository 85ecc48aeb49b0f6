//! `eval`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::failure::{Failure, FailureKind};
use super::figures::{percent, range, table};
use super::models::OpenedModel;
use super::output::Output;
use super::run_folder::store_failure;
use super::tasks::{Selected, Selection};
use super::{harness, models};
use crate::base::{Clock, SeedTree, SystemClock};
use crate::evaluation::{
    Attempt, Attempts, Batch, EpisodeLog, EpisodeScore, EvaluationError, Evaluator, Interval, ModelPlayer, Pairing, Schedule, wilson,
};
use crate::harness::Harness;
use crate::sandbox;
use crate::store::{NullEpisodeLog, RunMeta, RunStore, StoreError};
use crate::task::{JobType, Split, SplitTasks, Task};

/// What intervals cover with.
const CONFIDENCE: f64 = 0.95;
/// How often an episode that faulted is tried.
const ATTEMPTS: u32 = 2;

/// Play tasks with a model under a harness, and count what is solved.
///
/// Episodes go round after round through the tasks of each job type, in an order that depends on the seed alone: two evaluations with
/// the same tasks, split, episodes and seed play the same pairs.
#[derive(Debug, Args)]
#[command(after_help = "Solved shares come with their 95 % Wilson intervals. Faults (of the model or the sandbox) count for nothing.\n\n\
JSON keys: model, simulated, harness, split, seed, rows [{job_type, tasks, episodes, solved, low, high, score, steps, tokens, faulted, \
faulted_attempts}]; solved to tokens are null where no episode was scored.")]
pub(super) struct EvalArgs {
    /// `student:DIR` (a folder in Hugging Face's layout, or a .gguf file), or `rehearsal`.
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// A template file, a built-in template, or DIR:ID for a harness of a run.
    #[arg(long, value_name = "HARNESS")]
    harness: String,
    /// An experiment file, a folder of task files, a task file, or the folder of a run.
    #[arg(long, value_name = "SOURCE", required_unless_present = "builtin", conflicts_with = "builtin")]
    tasks: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// The split that is played.
    #[arg(long, value_name = "SPLIT", default_value = "validate", value_parser = ["search", "validate", "sealed"])]
    split: String,
    /// Episodes of each job type.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    episodes: u32,
    /// Seed of order and episodes.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Episodes at a time. Default: twice the cores, at most 8.
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// Keep the episodes in this run folder, for `episode list DIR` and the like. What it holds of the same evaluation is not played again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Plays and counts.
pub(super) async fn eval(args: &EvalArgs, output: &Output) -> Result<(), Failure> {
    let harness = Arc::new(harness::named(&args.harness, output)?);
    let Selected { tasks, sandbox: choice } = args.selection.select(args.tasks.as_deref(), output)?;
    let plan = plan(args, &tasks)?;
    let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    let workers = args.workers.map_or_else(|| (2 * cores).min(8), NonZeroUsize::get);
    let model = models::named(&args.model, &tasks, workers)?;
    let opened = sandbox::open(choice.backend).map_err(|error| {
        Failure::from_error(FailureKind::Environment, &error).hint("`harness-evo doctor` says what this machine offers")
    })?;
    if let Some(notice) = &opened.notice {
        output.note(notice);
    }
    let store = args.out.as_deref().map(|folder| keep(args, folder, &model, &harness, &tasks)).transpose()?;
    let log: Arc<dyn EpisodeLog> = match &store {
        Some(store) => Arc::new(store.episode_log()),
        None => Arc::new(NullEpisodeLog),
    };
    let player = ModelPlayer { model: Arc::clone(&model.model), sandbox: opened.sandbox, policy: choice.policy };
    let total = plan.iter().map(|part| part.pairings.len()).sum();
    let mut background = JoinSet::new();
    let (watcher, attempts) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    background.spawn(progress(*output, total, attempts));
    background.spawn(stop_on_interrupt(cancel.clone()));
    let evaluator = Evaluator::new(Arc::new(player), log, workers, Attempts(ATTEMPTS), watcher, cancel);
    let rows = play(&evaluator, &harness, plan).await;
    background.shutdown().await;
    report(args, &model, &harness, &rows?, output)
}

/// The episodes of one job type.
struct Part {
    job_type: JobType,
    split: Split,
    tasks: usize,
    pairings: Vec<Pairing>,
}

fn plan(args: &EvalArgs, tasks: &[Arc<Task>]) -> Result<Vec<Part>, Failure> {
    let seeds = SeedTree::new(args.seed).child("eval");
    let split = SplitTasks::new(tasks.to_vec());
    let mut job_types: Vec<JobType> = tasks.iter().map(|task| task.job_type().clone()).collect();
    job_types.sort_unstable();
    job_types.dedup();
    let mut parts = Vec::new();
    for job_type in job_types {
        let (split, schedule) = match args.split.as_str() {
            "search" => (Split::Search, Schedule::search(&job_type, &split.search, &seeds)),
            "sealed" => (Split::Sealed, Schedule::sealed(&job_type, &split.sealed, &seeds)),
            _ => (Split::Validate, Schedule::validate(&job_type, &split.validate, &seeds)),
        };
        let pairings = schedule.pairs(0, usize::try_from(args.episodes).unwrap_or(usize::MAX));
        if !pairings.is_empty() {
            parts.push(Part { tasks: schedule.tasks().min(pairings.len()), job_type, split, pairings });
        }
    }
    if parts.is_empty() {
        let message = format!("none of the {} tasks is of the {} split", tasks.len(), args.split);
        return Err(
            Failure::new(FailureKind::Input, message).hint("`harness-evo tasks list` shows the split of each; more tasks fill all three")
        );
    }
    Ok(parts)
}

/// A run folder that holds nothing but the episodes; one of the same evaluation is gone on with.
fn keep(args: &EvalArgs, folder: &Path, model: &OpenedModel, harness: &Harness, tasks: &[Arc<Task>]) -> Result<RunStore, Failure> {
    let fail = |error: StoreError| store_failure(&error, folder);
    let mut ids: Vec<String> = tasks.iter().map(|task| task.id().to_string()).collect();
    ids.sort_unstable();
    let tasks_hash = blake3::hash(ids.join(" ").as_bytes()).to_hex();
    let evaluation = json!({
        "harness": harness.id(), "genome": harness.genome(), "tasks": tasks_hash.as_str(), "split": args.split, "seed": args.seed,
    });
    let clock = Arc::new(SystemClock);
    let meta = RunMeta {
        experiment: json!({"eval": evaluation}).to_string(),
        seed: args.seed,
        model: model.model.id().clone(),
        simulated: model.model.simulated(),
        created_at: clock.now(),
    };
    match RunStore::create(folder, &meta, tasks, Arc::<SystemClock>::clone(&clock)) {
        Err(StoreError::Exists { .. }) => {}
        created => return created.map_err(fail),
    }
    let store = RunStore::open(folder, clock).map_err(fail)?;
    let held = store.reader().and_then(|reader| reader.meta()).map_err(fail)?;
    if held.experiment == meta.experiment && held.model.fingerprint == meta.model.fingerprint {
        return Ok(store);
    }
    let message = format!("{} holds a run or another evaluation (harness, tasks, split, seed or model differ)", folder.display());
    Err(Failure::new(FailureKind::Run, message).hint("name another folder with --out"))
}

/// What came of one job type.
struct Row {
    job_type: JobType,
    tasks: usize,
    batch: Batch,
}

async fn play(evaluator: &Evaluator, harness: &Arc<Harness>, plan: Vec<Part>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::with_capacity(plan.len());
    for part in plan {
        let batch = evaluator.evaluate(harness, part.split, &part.pairings).await.map_err(|error| evaluation_failure(&error))?;
        rows.push(Row { job_type: part.job_type, tasks: part.tasks, batch });
    }
    Ok(rows)
}

fn evaluation_failure(error: &EvaluationError) -> Failure {
    match error {
        EvaluationError::Cancelled => Failure::new(FailureKind::Interrupted, "stopped before the evaluation was complete"),
        EvaluationError::AllFaults { .. } => Failure::from_error(FailureKind::Environment, error)
            .hint("`harness-evo doctor` looks at the sandbox; the last fault above says what the model could not do"),
        EvaluationError::Log(_) => Failure::from_error(FailureKind::Run, error),
        EvaluationError::Worker(_) => Failure::from_error(FailureKind::Other, error),
    }
}

async fn stop_on_interrupt(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        cancel.cancel();
    }
}

/// Counts attempts on a terminal; a fault is said at once wherever it is.
async fn progress(output: Output, total: usize, mut attempts: mpsc::UnboundedReceiver<Attempt>) {
    let bar = if output.is_terminal() && !output.is_quiet() { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} episodes  {eta} left") {
        bar.set_style(style);
    }
    while let Some(attempt) = attempts.recv().await {
        match attempt.result {
            Ok(_) => bar.inc(1),
            Err(fault) => bar.suspend(|| output.note(&format!("{}: {fault}", attempt.job_type))),
        }
    }
    bar.finish_and_clear();
}

/// Means over scored episodes.
struct Figures {
    solved: Interval,
    score: f64,
    steps: f64,
    tokens: f64,
}

impl Figures {
    fn of(scores: &[EpisodeScore]) -> Option<Self> {
        let count = u32::try_from(scores.len()).ok().filter(|count| *count > 0)?;
        let passed = u32::try_from(scores.iter().filter(|score| score.passed()).count()).unwrap_or(count);
        let mean = |value: &dyn Fn(&EpisodeScore) -> f64| scores.iter().map(value).sum::<f64>() / f64::from(count);
        #[expect(clippy::cast_precision_loss, reason = "tokens of an episode are far below 2^53")]
        let tokens = mean(&|score| score.tokens as f64);
        Some(Self {
            solved: wilson(passed, count, CONFIDENCE),
            score: mean(&|score| score.score),
            steps: mean(&|score| f64::from(score.steps)),
            tokens,
        })
    }
}

fn report(args: &EvalArgs, model: &OpenedModel, harness: &Harness, rows: &[Row], output: &Output) -> Result<(), Failure> {
    let id = model.model.id();
    if args.json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        return output.json(&json!({
            "model": {"name": id.name, "fingerprint": id.fingerprint}, "simulated": model.model.simulated(), "harness": harness.id(),
            "split": args.split, "seed": args.seed, "rows": rows,
        }));
    }
    let mut text = String::new();
    if model.model.simulated() {
        text.push_str("SIMULATED: the model is the built-in rehearsal; its scores say nothing about a real model.\n");
    }
    text.push_str(&format!("{} under harness {}, {} split, seed {}\n", id.name, harness.id().short(), args.split, args.seed));
    text.push_str(&table(
        &["job type", "solved", "interval", "score", "n", "tasks", "steps", "tokens", "faulted"],
        1,
        rows.iter().map(row_cells),
    ));
    output.data(&text)
}

fn row_cells(row: &Row) -> Vec<String> {
    let figures = Figures::of(&row.batch.scores);
    let cell = |draw: &dyn Fn(&Figures) -> String| figures.as_ref().map_or_else(|| "-".to_owned(), draw);
    vec![
        row.job_type.to_string(),
        cell(&|figures| percent(figures.solved.mean)),
        cell(&|figures| range(figures.solved.low, figures.solved.high)),
        cell(&|figures| format!("{:.3}", figures.score)),
        row.batch.scores.len().to_string(),
        row.tasks.to_string(),
        cell(&|figures| format!("{:.1}", figures.steps)),
        cell(&|figures| format!("{:.0}", figures.tokens)),
        row.batch.faulted.to_string(),
    ]
}

fn row_json(row: &Row) -> Value {
    let figures = Figures::of(&row.batch.scores);
    let number = |value: &dyn Fn(&Figures) -> f64| figures.as_ref().map(value);
    json!({
        "job_type": row.job_type,
        "tasks": row.tasks,
        "episodes": row.batch.scores.len(),
        "solved": number(&|figures| figures.solved.mean),
        "low": number(&|figures| figures.solved.low),
        "high": number(&|figures| figures.solved.high),
        "score": number(&|figures| figures.score),
        "steps": number(&|figures| figures.steps),
        "tokens": number(&|figures| figures.tokens),
        "faulted": row.batch.faulted,
        "faulted_attempts": row.batch.faulted_attempts,
    })
}
