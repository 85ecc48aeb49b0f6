//! `run` and `resume`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use super::run_folder::store_failure;
use super::session::{self, Session, SessionEnd};
use super::{comparison_table, models, reporters, tasks_check};
use crate::base::{Clock, SystemClock};
use crate::config::{self, Experiment, TaskCheck};
use crate::sandbox;
use crate::store::{RunMeta, RunReader, RunStore, StoreError};

/// Evolve harnesses as an experiment file says.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The experiment file (TOML).
    experiment: PathBuf,
    /// The folder of the run; it must not hold one yet. Default: `runs/NAME-seedS`.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Episodes at a time. Has no influence on any result. Default: twice the cores, at most 8.
    #[arg(long)]
    workers: Option<usize>,
    /// Overrides the seed of the experiment.
    #[arg(long)]
    seed: Option<u64>,
    /// Append what happens to this file, one JSON object a line, each as it happens.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

/// Go on with a run that was stopped or killed.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The folder of the run.
    folder: PathBuf,
    /// Episodes at a time.
    #[arg(long)]
    workers: Option<usize>,
    /// Append what happens to this file, one JSON object a line, each as it happens.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

/// Checks the experiment, makes the run folder, runs.
pub(super) async fn run(args: &RunArgs, output: &Output) -> Result<(), Failure> {
    let experiment = config::load(&args.experiment, args.seed).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let folder = args.out.clone().unwrap_or_else(|| default_folder(&experiment));
    refuse_used(&folder)?;
    let events = reporters::open_events(args.events.as_deref())?;
    let session = open(experiment, args.workers, output).await?;
    // What cannot be searched is refused before tasks are played or a folder is made.
    session::search(&session.experiment, session.worst_price())?;
    prove_tasks(&session, output).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let text = serde_json::to_string(&session.experiment).map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    let meta = RunMeta {
        experiment: text,
        seed: session.experiment.search.seed,
        model: session.teacher.model.id().clone(),
        simulated: session.teacher.model.simulated(),
        created_at: clock.now(),
    };
    let store = RunStore::create(&folder, &meta, &session.experiment.tasks, clock).map_err(|error| store_failure(&error, &folder))?;
    play(&session, &store, &folder, events, output).await
}

/// Refuses a folder that holds a run, before anything is spent. Making the run looks again, under the folder's lock.
fn refuse_used(folder: &Path) -> Result<(), Failure> {
    match RunReader::open(folder).and_then(|reader| reader.meta()) {
        Ok(_) => Err(store_failure(&StoreError::Exists { path: folder.to_owned() }, folder)),
        Err(error @ (StoreError::Foreign { .. } | StoreError::Older { .. })) => Err(store_failure(&error, folder)),
        Err(_) => Ok(()),
    }
}

/// Goes on with a run.
pub(super) async fn resume(args: &ResumeArgs, output: &Output) -> Result<(), Failure> {
    let store = RunStore::open(&args.folder, Arc::new(SystemClock)).map_err(|error| store_failure(&error, &args.folder))?;
    let events = reporters::open_events(args.events.as_deref())?;
    let experiment = stored_experiment(&store, &args.folder)?;
    let session = open(experiment, args.workers, output).await?;
    let meta = store.reader().and_then(|reader| reader.meta()).map_err(|error| store_failure(&error, &args.folder))?;
    let now = session.teacher.model.id();
    if meta.model.fingerprint != now.fingerprint {
        let message = format!(
            "the run was made with the model `{}`, but `{}` is what its experiment opens now",
            meta.model.fingerprint, now.fingerprint
        );
        return Err(Failure::new(FailureKind::Run, message).hint("use the program and the parameters the run was made with"));
    }
    play(&session, &store, &args.folder, events, output).await
}

fn stored_experiment(store: &RunStore, folder: &Path) -> Result<Experiment, Failure> {
    let fail = |error: StoreError| store_failure(&error, folder);
    let reader = store.reader().map_err(fail)?;
    let meta = reader.meta().map_err(fail)?;
    let mut experiment: Experiment = serde_json::from_str(&meta.experiment)
        .map_err(|error| Failure::from_error(FailureKind::Run, &error).hint("the run folder was written by another version"))?;
    experiment.tasks = reader.tasks().map_err(fail)?;
    Ok(experiment)
}

async fn open(experiment: Experiment, workers: Option<usize>, output: &Output) -> Result<Session, Failure> {
    let opened = sandbox::open(experiment.sandbox.backend).map_err(|error| {
        Failure::from_error(FailureKind::Environment, &error).hint("`harness-evo doctor` says what this machine offers")
    })?;
    if let Some(notice) = &opened.notice {
        output.note(notice);
    }
    let teacher = models::open(&experiment.teacher, &experiment.tasks).await?;
    let rewriter = match &experiment.rewriter {
        // The same weights are held once.
        Some(rewriter) if *rewriter != experiment.teacher => models::open(rewriter, &experiment.tasks).await?,
        Some(_) | None => teacher.clone(),
    };
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let workers = workers.unwrap_or_else(|| (2 * cores).min(8)).max(1);
    Ok(Session { experiment, teacher, rewriter, sandbox: opened.sandbox, workers })
}

async fn prove_tasks(session: &Session, output: &Output) -> Result<(), Failure> {
    let experiment = &session.experiment;
    let tasks = match experiment.task_check {
        TaskCheck::Off => &[],
        TaskCheck::Own => &experiment.tasks[..experiment.own_tasks.min(experiment.tasks.len())],
        TaskCheck::All => &experiment.tasks[..],
    };
    if tasks.is_empty() {
        return Ok(());
    }
    output.note(&format!("proving {} tasks: reference solutions pass, doing nothing and broken solutions fail", tasks.len()));
    tasks_check::prove(tasks, &session.sandbox, &experiment.sandbox.policy, output).await
}

async fn play(session: &Session, store: &RunStore, folder: &Path, events: Option<File>, output: &Output) -> Result<(), Failure> {
    let reporter = reporters::choose(output, events);
    match session.run(store, folder, reporter).await? {
        SessionEnd::Complete(search, comparison) => {
            output.data(&comparison_table::render(&search, &comparison, session.teacher.model.simulated(), folder))
        }
        SessionEnd::Drained => Err(Failure::new(FailureKind::Interrupted, "stopped; everything that was paid for is kept")
            .hint(format!("`harness-evo resume {}` goes on", folder.display()))),
    }
}

fn default_folder(experiment: &Experiment) -> PathBuf {
    let safe: String = experiment.name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' }).collect();
    PathBuf::from("runs").join(format!("{safe}-seed{}", experiment.search.seed))
}
