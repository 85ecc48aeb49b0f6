//! The check: decided where the agent cannot reach.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::act::in_folder;
use crate::base::Snapshot;
use crate::sandbox::{CommandEnd, Policy, Sandbox, SandboxError};
use crate::task::{Finding, ItemResult, Probe, Stake, Task, Verdict, shorten};

/// Characters of a command's output kept as evidence, from its end.
const OUTPUT_CHARS: usize = 200;
/// Seconds a check session lives beyond the time of its command.
const SESSION_MARGIN_SECONDS: u32 = 10;

/// Decides the task from the workspace that was left after every process of the agent was dead. Command probes run in a fresh
/// session over a copy of it; all of them together have the task's `check_seconds`.
///
/// # Errors
/// When a fresh sandbox cannot be started or dies: the verdict is then unknown, not 0.
pub async fn check(task: &Task, workspace: &Snapshot, sandbox: &dyn Sandbox) -> Result<Verdict, SandboxError> {
    let body = task.body();
    let mut runs = Runs { left: Duration::from_secs(u64::from(body.limits.check_seconds)), done: Vec::new() };
    let mut findings = Vec::with_capacity(body.check.items.len());
    for item in &body.check.items {
        let finding = match item.probe.evaluate(workspace) {
            Some(finding) => finding,
            None => runs.decide(&item.probe, workspace, sandbox).await?,
        };
        findings.push((item.stake, ItemResult { name: item.name.clone(), passed: finding.holds, evidence: finding.evidence }));
    }
    Ok(score(findings))
}

/// The verdict where the agent left a workspace that cannot be read, for `reason`: no item holds. It is a score, so that no agent can keep
/// an episode from counting.
#[must_use]
pub fn forfeit(task: &Task, reason: &str) -> Verdict {
    let item = |name: &String| ItemResult { name: name.clone(), passed: false, evidence: reason.to_owned() };
    Verdict { score: 0.0, items: task.body().check.items.iter().map(|check| item(&check.name)).collect() }
}

/// Passed credit items over credit items; 0 when a guard failed.
fn score(findings: Vec<(Stake, ItemResult)>) -> Verdict {
    let guarded = findings.iter().all(|(stake, item)| *stake != Stake::Guard || item.passed);
    let credit: Vec<bool> = findings.iter().filter(|(stake, _)| *stake == Stake::Credit).map(|(_, item)| item.passed).collect();
    let passed = credit.iter().filter(|passed| **passed).count();
    #[expect(clippy::cast_precision_loss, reason = "a check has far fewer than 2^53 items")]
    let score = if guarded && !credit.is_empty() { passed as f64 / credit.len() as f64 } else { 0.0 };
    Verdict { score, items: findings.into_iter().map(|(_, item)| item).collect() }
}

/// The commands of one check. Probes that name the same command and files share one run.
struct Runs<'a> {
    left: Duration,
    done: Vec<(&'a str, &'a Snapshot, Ran)>,
}

/// What came of a command.
#[derive(Clone)]
enum Ran {
    Ended(i32, String),
    Not(String),
}

impl<'a> Runs<'a> {
    async fn decide(&mut self, probe: &'a Probe, workspace: &Snapshot, sandbox: &dyn Sandbox) -> Result<Finding, SandboxError> {
        let Probe::Command { command, files, exit, stdout_contains } = probe else {
            return Ok(Finding::new(false, "the probe cannot be decided"));
        };
        let before = self.done.iter().find(|(done, laid, _)| done == command && *laid == files).map(|(_, _, ran)| ran.clone());
        let ran = match before {
            Some(ran) => ran,
            None => {
                let ran = self.run(command, files, workspace, sandbox).await?;
                self.done.push((command, files, ran.clone()));
                ran
            }
        };
        Ok(match ran {
            Ran::Ended(code, output) => judge(code, &output, *exit, stdout_contains.as_deref()),
            Ran::Not(reason) => Finding::new(false, &reason),
        })
    }

    async fn run(&mut self, command: &str, files: &Snapshot, workspace: &Snapshot, sandbox: &dyn Sandbox) -> Result<Ran, SandboxError> {
        if self.left.is_zero() {
            return Ok(Ran::Not("no time was left for the command".to_owned()));
        }
        // Compiled Python that the agent left behind could stand in for sources laid over it.
        let sources = workspace.filtered(|path, _| path.split('/').all(|part| part != "__pycache__"));
        let seconds = u32::try_from(self.left.as_secs()).unwrap_or(u32::MAX).saturating_add(SESSION_MARGIN_SECONDS);
        let policy = Policy { seconds, ..Policy::default() };
        let mut session = sandbox.start(&policy, &sources.overlaid(files), &BTreeMap::new()).await?;
        // The workspace is the agent's home: nothing that programs read from a home by themselves may steer the check.
        let guarded = format!("export HOME=/nonexistent PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1\n{command}");
        let started = Instant::now();
        let output = session.run(&in_folder(session.workspace(), &guarded), "", self.left).await?;
        self.left = self.left.saturating_sub(started.elapsed());
        Ok(match output.end {
            CommandEnd::Exited(code) | CommandEnd::ShellEnded(code) => Ran::Ended(code, output.text),
            CommandEnd::TimedOut => Ran::Not("the command ran out of the check's time".to_owned()),
            CommandEnd::Killed(limit) => Ran::Not(format!("the command was killed: {limit}")),
        })
    }
}

fn judge(code: i32, output: &str, exit: i32, contains: Option<&str>) -> Finding {
    if code != exit {
        return Finding::new(false, &format!("exit {code}, expected {exit}: {}", tail(output)));
    }
    match contains {
        Some(wanted) if !output.contains(wanted) => {
            Finding::new(false, &format!("the output does not hold `{}`: {}", shorten(wanted, 80), tail(output)))
        }
        _ => Finding::new(true, &format!("exit {code}")),
    }
}

/// The end of an output, where programs say what went wrong.
fn tail(output: &str) -> String {
    let output = output.trim_end();
    match output.char_indices().rev().nth(OUTPUT_CHARS) {
        None => output.to_owned(),
        Some((start, first)) => format!("…{}", &output[start + first.len_utf8()..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(stake: Stake, passed: bool) -> (Stake, ItemResult) {
        (stake, ItemResult { name: "x".to_owned(), passed, evidence: String::new() })
    }

    #[test]
    fn the_score_is_the_share_of_credit_unless_a_guard_failed() {
        use Stake::{Credit, Guard};
        let of = |items: &[(Stake, bool)]| score(items.iter().map(|(stake, passed)| item(*stake, *passed)).collect()).score;
        assert!((of(&[(Credit, true), (Credit, false), (Credit, true), (Credit, true)]) - 0.75).abs() < 1e-12);
        assert!((of(&[(Credit, true), (Guard, true)]) - 1.0).abs() < 1e-12);
        assert!(of(&[(Credit, true), (Guard, false)]).abs() < 1e-12);
        assert!(of(&[(Guard, true), (Credit, false)]).abs() < 1e-12);
    }

    #[test]
    fn exit_and_output_both_decide() {
        assert!(judge(0, "all ok", 0, Some("ok")).holds);
        assert!(judge(3, "", 3, None).holds);
        assert!(!judge(0, "all", 0, Some("ok")).holds);
        assert!(!judge(1, "ok", 0, Some("ok")).holds);
        assert!(judge(1, &"é".repeat(1000), 0, None).evidence.chars().count() < 260);
    }
}
