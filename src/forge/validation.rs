//! What a task must survive before it is used: its solution passes, doing nothing scores 0, and every broken solution fails.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::environment::{check, perform};
use crate::sandbox::{CommandEnd, Policy, Sandbox, SandboxError};
use crate::task::{Act, ActCall, ActRole, Task, Verdict, shorten};

/// Characters of a failed act's output that a report quotes.
const OUTPUT_CHARS: usize = 300;

/// What validation found out about one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// Broken solutions that were played.
    pub variants: usize,
    /// Why the task is refused; empty when it may be used.
    pub problems: Vec<Problem>,
}

impl TaskReport {
    /// Whether the task may be used.
    #[must_use]
    pub const fn accepted(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A reason to refuse a task.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The reference solution does not reach the full score.
    #[error("the reference solution scores {score}, not 1: {evidence}")]
    SolutionFails {
        /// What it scores.
        score: f64,
        /// The items that failed, and the acts that did.
        evidence: String,
    },
    /// An agent that does nothing earns something.
    #[error("doing nothing scores {score}, not 0: {evidence}")]
    NothingScores {
        /// What it scores.
        score: f64,
        /// The items that passed.
        evidence: String,
    },
    /// The check takes a broken solution for a right one.
    #[error("the broken solution `{variant}` passes the check")]
    BrokenPasses {
        /// Which.
        variant: String,
    },
    /// There is no broken solution, so nothing shows that the check can fail.
    #[error(
        "there is no broken solution: add a `slip` or a requirement to the solution, or a `broken` variant, that the check must refuse"
    )]
    Unproven,
    /// An act relies on a text that no act before it printed, or that the instruction gives away.
    #[error("act {act} relies on `{evidence}`, {reason}")]
    Evidence {
        /// Number of the act, from 1.
        act: usize,
        /// The text, shortened.
        evidence: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// A way of getting a task wrong.
struct Broken {
    name: String,
    calls: Vec<ActCall>,
}

/// What playing some acts left behind.
struct Played {
    verdict: Verdict,
    /// What each act printed.
    outputs: Vec<String>,
    /// Acts that failed, for people.
    failures: Vec<String>,
}

/// Plays the solution, nothing, and every broken solution of `task`, each in a sandbox of its own.
///
/// # Errors
/// When the sandbox fails: nothing is then known about the task.
pub async fn validate_task(task: &Task, sandbox: &dyn Sandbox, policy: &Policy) -> Result<TaskReport, SandboxError> {
    let body = task.body();
    let mut problems = Vec::new();

    let solution: Vec<ActCall> = body.solution.iter().map(|act| act.call.clone()).collect();
    let solved = play_calls(task, &solution, sandbox, policy).await?;
    if !solved.verdict.passed() {
        let mut evidence = items(&solved.verdict, false);
        evidence.extend(solved.failures);
        problems.push(Problem::SolutionFails { score: solved.verdict.score, evidence: evidence.join("; ") });
    }
    problems.extend(evidence_problems(&body.instruction, &body.solution, &solved.outputs));

    let idle = play_calls(task, &[], sandbox, policy).await?;
    if idle.verdict.score > 0.0 {
        let evidence = items(&idle.verdict, true).join("; ");
        problems.push(Problem::NothingScores { score: idle.verdict.score, evidence });
    }

    let broken = broken_solutions(task);
    for variant in &broken {
        if play_calls(task, &variant.calls, sandbox, policy).await?.verdict.passed() {
            problems.push(Problem::BrokenPasses { variant: variant.name.clone() });
        }
    }
    if broken.is_empty() {
        problems.push(Problem::Unproven);
    }
    Ok(TaskReport { variants: broken.len(), problems })
}

/// Validates `tasks`, `at_once` at a time. The reports come in the order of `tasks`; `progress` is told, as tasks are done, how many are.
pub async fn validate_all(
    tasks: &[Arc<Task>],
    sandbox: &Arc<dyn Sandbox>,
    policy: &Policy,
    at_once: NonZeroUsize,
    mut progress: impl FnMut(usize),
) -> Vec<Result<TaskReport, SandboxError>> {
    let mut reports: Vec<Option<Result<TaskReport, SandboxError>>> = tasks.iter().map(|_| None).collect();
    let mut waiting = tasks.iter().enumerate();
    let mut running = JoinSet::new();
    let (mut done, mut stopped) = (0, String::new());
    loop {
        while running.len() < at_once.get() {
            let Some((index, task)) = waiting.next() else { break };
            let (task, sandbox, policy) = (Arc::clone(task), Arc::clone(sandbox), policy.clone());
            running.spawn(async move { (index, validate_task(&task, sandbox.as_ref(), &policy).await) });
        }
        let Some(joined) = running.join_next().await else { break };
        match joined {
            Ok((index, report)) => {
                if let Some(slot) = reports.get_mut(index) {
                    *slot = Some(report);
                }
            }
            Err(error) => stopped = error.to_string(),
        }
        done += 1;
        progress(done);
    }
    let lost = || Err(SandboxError::Ended(format!("the validation of this task stopped: {stopped}")));
    reports.into_iter().map(|report| report.unwrap_or_else(lost)).collect()
}

/// Derived broken solutions (a slip in an act's place, a requirement left out), then those made by hand.
fn broken_solutions(task: &Task) -> Vec<Broken> {
    let body = task.body();
    let with = |changed: usize, instead: Option<&ActCall>| -> Vec<ActCall> {
        let acts = body.solution.iter().enumerate();
        acts.filter_map(|(index, act)| if index == changed { instead.cloned() } else { Some(act.call.clone()) }).collect()
    };
    let mut broken = Vec::new();
    for (index, act) in body.solution.iter().enumerate() {
        if let Some(slip) = &act.slip {
            broken.push(Broken { name: format!("slip of act {}", index + 1), calls: with(index, Some(slip)) });
        }
        if act.role == ActRole::Requirement {
            broken.push(Broken { name: format!("without act {}", index + 1), calls: with(index, None) });
        }
    }
    broken.extend(body.broken.iter().map(|variant| Broken { name: variant.name.clone(), calls: variant.acts.clone() }));
    broken
}

async fn play_calls(task: &Task, calls: &[ActCall], sandbox: &dyn Sandbox, policy: &Policy) -> Result<Played, SandboxError> {
    let body = task.body();
    let timeout = Duration::from_secs(u64::from(body.limits.seconds));
    let mut session = sandbox.start(policy, &body.files, &std::collections::BTreeMap::new()).await?;
    let (mut outputs, mut failures) = (Vec::new(), Vec::new());
    for (index, call) in calls.iter().enumerate() {
        let output = perform(session.as_mut(), call, timeout).await?;
        if output.end != CommandEnd::Exited(0) {
            failures.push(format!("act {} ended with {:?}: {}", index + 1, output.end, shorten(output.text.trim(), OUTPUT_CHARS)));
        }
        outputs.push(output.text);
    }
    let workspace = session.finish().await?;
    let verdict = check(task, &workspace, sandbox).await?;
    Ok(Played { verdict, outputs, failures })
}

/// The items that passed, or those that failed, with their evidence.
fn items(verdict: &Verdict, passed: bool) -> Vec<String> {
    verdict.items.iter().filter(|item| item.passed == passed).map(|item| format!("{}: {}", item.name, item.evidence)).collect()
}

fn evidence_problems(instruction: &str, solution: &[Act], outputs: &[String]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, act) in solution.iter().enumerate() {
        let Some(evidence) = &act.evidence else { continue };
        let seen = outputs.iter().take(index).any(|output| output.contains(evidence.as_str()));
        let reason = if evidence.is_empty() {
            "which is empty"
        } else if instruction.contains(evidence.as_str()) {
            "which the instruction gives away"
        } else if !seen {
            "which no act before it printed"
        } else {
            continue;
        };
        problems.push(Problem::Evidence { act: index + 1, evidence: shorten(evidence, 80), reason });
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Snapshot;
    use crate::sandbox::NullSandbox;
    use crate::task::TaskBody;

    fn task(text: &str) -> Task {
        Task::new(serde_json::from_str::<TaskBody>(text).unwrap()).unwrap()
    }

    const DONE_ALREADY: &str = r#"{"job_type": "shell", "skill": "x", "instruction": "make a", "files": {"a": {"file": {"text": "1"}}},
        "check": {"items": [{"name": "a", "probe": {"file_exists": {"path": "a"}}}]},
        "solution": [{"call": {"run": {"command": "touch a"}}, "role": "work", "evidence": "42"}]}"#;

    #[tokio::test]
    async fn a_task_whose_check_proves_nothing_is_refused_for_every_reason() {
        let report = validate_task(&task(DONE_ALREADY), &NullSandbox, &Policy::default()).await.unwrap();
        assert!(!report.accepted());
        assert!(matches!(report.problems.as_slice(), [Problem::Evidence { act: 1, .. }, Problem::NothingScores { .. }, Problem::Unproven]));
    }

    #[tokio::test]
    async fn a_solution_that_does_not_solve_is_refused_with_the_evidence() {
        // Nothing runs in the null sandbox, so no solution solves anything there.
        let mut body = task(DONE_ALREADY).body().clone();
        body.files = Snapshot::new();
        let report = validate_task(&Task::new(body).unwrap(), &NullSandbox, &Policy::default()).await.unwrap();
        let Some(Problem::SolutionFails { score, evidence }) = report.problems.first() else { panic!("{report:?}") };
        assert!(score.abs() < 1e-12 && evidence.contains("`a` is nothing"), "{evidence}");
    }

    #[test]
    fn every_slip_and_every_requirement_makes_a_broken_solution() {
        let run = |command: &str| serde_json::json!({"run": {"command": command}});
        let mut value: serde_json::Value = serde_json::from_str(DONE_ALREADY).unwrap();
        value["solution"] = serde_json::json!([
            {"call": run("1"), "role": "inspect"},
            {"call": run("2"), "role": "work", "slip": run("two")},
            {"call": run("3"), "role": "requirement", "slip": run("three")},
        ]);
        value["broken"] = serde_json::json!([{"name": "by hand", "acts": [run("x")]}]);
        let broken = broken_solutions(&task(&value.to_string()));
        let played: Vec<(String, Vec<&str>)> = broken
            .iter()
            .map(|variant| {
                let commands = variant.calls.iter().map(|call| match call {
                    ActCall::Run { command } => command.as_str(),
                    _ => "",
                });
                (variant.name.clone(), commands.collect())
            })
            .collect();
        assert_eq!(
            played,
            [
                ("slip of act 2".to_owned(), vec!["1", "two", "3"]),
                ("slip of act 3".to_owned(), vec!["1", "2", "three"]),
                ("without act 3".to_owned(), vec!["1", "2"]),
                ("by hand".to_owned(), vec!["x"]),
            ]
        );
    }

    #[tokio::test]
    async fn reports_come_in_the_order_of_the_tasks() {
        let tasks: Vec<Arc<Task>> = (0..7)
            .map(|n| Arc::new(task(&DONE_ALREADY.replace("touch a", &format!("touch a{n}")).replace("\"42\"", &format!("\"e{n}\"")))))
            .collect();
        let sandbox: Arc<dyn Sandbox> = Arc::new(NullSandbox);
        let mut seen = Vec::new();
        let three = NonZeroUsize::new(3).unwrap();
        let reports = validate_all(&tasks, &sandbox, &Policy::default(), three, |done| seen.push(done)).await;
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
        for (n, report) in reports.into_iter().enumerate() {
            let problems = report.unwrap().problems;
            assert!(matches!(&problems[0], Problem::Evidence { evidence, .. } if *evidence == format!("e{n}")), "{problems:?}");
        }
    }
}
