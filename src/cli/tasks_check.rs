//! Proves tasks before they are used.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::forge::validate_all;
use crate::sandbox::{Policy, Sandbox};
use crate::task::Task;

/// Proves `tasks`; the first that cannot be used is a failure that names all that cannot.
pub(super) async fn prove(tasks: &[Arc<Task>], sandbox: &Arc<dyn Sandbox>, policy: &Policy, output: &Output) -> Result<(), Failure> {
    let at_once = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let reports = validate_all(tasks, sandbox, policy, at_once, |_| {}).await;
    let mut refused = 0_usize;
    for (task, report) in tasks.iter().zip(reports) {
        let report = report.map_err(|error| Failure::from_error(FailureKind::Environment, &error))?;
        for problem in &report.problems {
            output.error(&format!("{}/{} {}: {problem}\n", task.job_type(), task.body().skill, task.id().short()));
        }
        refused += usize::from(!report.problems.is_empty());
    }
    if refused == 0 {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Check, format!("{refused} of {} tasks cannot be used", tasks.len()))
        .hint("`harness-evo tasks check` plays them one by one"))
}
