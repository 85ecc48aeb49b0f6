//! Proves tasks before they are used.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::forge::{TaskReport, validate_all};
use crate::sandbox::{Policy, Sandbox};
use crate::task::Task;

/// Time between two lines of progress where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Proves `tasks`; the first that cannot be used is a failure that names all that cannot.
pub(super) async fn prove(tasks: &[Arc<Task>], sandbox: &Arc<dyn Sandbox>, policy: &Policy, output: &Output) -> Result<(), Failure> {
    let reports = reports(tasks, sandbox, policy, output).await?;
    let mut refused = 0_usize;
    for (task, report) in tasks.iter().zip(reports) {
        for problem in &report.problems {
            output.error(&format!("{}/{} {}: {problem}\n", task.job_type(), task.body().skill, task.id().short()));
        }
        refused += usize::from(!report.accepted());
    }
    if refused == 0 {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Check, format!("{refused} of {} tasks cannot be used", tasks.len()))
        .hint("`harness-evo tasks check EXPERIMENT` plays them alone"))
}

/// What validation finds out about each of `tasks`, with progress on stderr.
pub(super) async fn reports(
    tasks: &[Arc<Task>],
    sandbox: &Arc<dyn Sandbox>,
    policy: &Policy,
    output: &Output,
) -> Result<Vec<TaskReport>, Failure> {
    let at_once = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let bar = if output.is_terminal() && !output.is_quiet() { ProgressBar::new(tasks.len() as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} tasks  {eta} left") {
        bar.set_style(style);
    }
    let mut said = Instant::now();
    let progress = |done: usize| {
        bar.set_position(done as u64);
        if !output.is_terminal() && said.elapsed() >= EVERY {
            said = Instant::now();
            output.note(&format!("{done} of {} tasks", tasks.len()));
        }
    };
    let reports = validate_all(tasks, sandbox, policy, at_once, progress).await;
    bar.finish_and_clear();
    reports
        .into_iter()
        .map(|report| {
            report.map_err(|error| {
                Failure::from_error(FailureKind::Environment, &error).hint("`harness-evo doctor` says what this machine offers")
            })
        })
        .collect()
}
