//! Workflows: each turns a seed into a task of one skill.

use crate::base::{SeedTree, SnapshotError};
use crate::task::{NameError, Task, TaskBody, TaskError};

/// A generator of tasks for one skill.
#[derive(Debug, Clone, Copy)]
pub struct Workflow {
    /// The skill, for example `rotate-logs`.
    pub skill: &'static str,
    /// The kind of work, for example `shell`.
    pub job_type: &'static str,
    /// What its tasks exercise, in one line.
    pub summary: &'static str,
    /// Makes the body of a task from a seed; equal seeds give equal bodies.
    pub generate: fn(&SeedTree) -> Result<TaskBody, ForgeError>,
}

/// A workflow made something that is not a task: a fault of the workflow.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// A name is not one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A path leads out of the workspace.
    #[error(transparent)]
    Path(#[from] SnapshotError),
    /// The body is not a task.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl Workflow {
    /// The task number `index` of this workflow.
    ///
    /// # Errors
    /// When the workflow is at fault.
    pub fn task(&self, index: u64) -> Result<Task, ForgeError> {
        let seeds = SeedTree::new(0).child("forge").child(self.job_type).child(self.skill).index(index);
        Ok(Task::new((self.generate)(&seeds)?)?)
    }
}

/// All built-in workflows, by job type and skill.
#[must_use]
pub fn workflows() -> Vec<Workflow> {
    let mut all: Vec<Workflow> = [super::shell::WORKFLOWS, super::data::WORKFLOWS, super::code::WORKFLOWS].concat();
    all.sort_by_key(|workflow| (workflow.job_type, workflow.skill));
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::base::Entry;
    use crate::task::{Act, ActCall, ActRole, Split, parse_task, task_toml};

    const SEEDS: u64 = 30;

    fn tasks(workflow: &Workflow) -> Vec<Task> {
        (0..SEEDS).map(|index| workflow.task(index).unwrap()).collect()
    }

    /// Where the text stands in a file of the initial state: bytes before it and after it.
    fn place(task: &Task, text: &str) -> Option<(usize, usize)> {
        task.body().files.iter().find_map(|(_, entry)| match entry {
            Entry::File { text: file, .. } => file.find(text).map(|at| (at, file.len() - at - text.len())),
            _ => None,
        })
    }

    #[test]
    fn every_seed_gives_another_task_and_always_the_same() {
        let mut ids = BTreeSet::new();
        for workflow in workflows() {
            for (index, task) in (0..).zip(tasks(&workflow)) {
                assert_eq!((task.job_type().as_str(), task.body().skill.as_str()), (workflow.job_type, workflow.skill));
                assert_eq!(workflow.task(index).unwrap().id(), task.id());
                assert!(ids.insert(task.id()), "{} {index}", workflow.skill);
            }
        }
    }

    #[test]
    fn every_task_can_be_got_wrong_in_more_than_one_way() {
        for workflow in workflows() {
            for task in tasks(&workflow) {
                let acts = &task.body().solution;
                let with = |role| acts.iter().filter(|act| act.role == role).count();
                assert!(with(ActRole::Inspect) >= 1 && with(ActRole::Work) >= 1 && with(ActRole::Verify) >= 1, "{}", workflow.skill);
                assert!(with(ActRole::Requirement) >= 1 && acts.iter().any(|act| act.slip.is_some()), "{}", workflow.skill);
                // An agent's shell keeps its folder: an act that moved it would lead the next ones astray.
                let moves = |act: &Act| matches!(&act.call, ActCall::Run { command } if command.trim_start().starts_with("cd "));
                assert!(!acts.iter().any(moves), "{}", workflow.skill);
                assert!((20..3000).contains(&task.body().instruction.len()), "{}", workflow.skill);
            }
        }
    }

    #[test]
    fn what_a_shell_task_relies_on_is_not_in_the_instruction_and_mostly_out_of_sight() {
        for workflow in workflows().iter().filter(|workflow| workflow.job_type == "shell") {
            let tasks = tasks(workflow);
            let mut hidden = 0;
            for task in &tasks {
                let evidence = task.body().solution.iter().find_map(|act| act.evidence.as_deref()).unwrap();
                assert!(!task.body().instruction.contains(evidence), "{}", workflow.skill);
                let (before, after) = place(task, evidence).unwrap();
                assert!(before + after <= 16_000, "{}", workflow.skill);
                hidden += usize::from(before > 2000 && after > 0);
            }
            assert!(hidden * 2 > tasks.len() && hidden < tasks.len(), "{}: {hidden} of {}", workflow.skill, tasks.len());
        }
    }

    #[test]
    fn splits_come_out_near_their_shares() {
        let all: Vec<Split> = workflows().iter().flat_map(|workflow| (0..60).map(|index| workflow.task(index).unwrap().split())).collect();
        #[expect(clippy::cast_precision_loss, reason = "a few thousand tasks")]
        let share = |split| all.iter().filter(|other| **other == split).count() as f64 / all.len() as f64;
        // A byte modulo 20: 156, 64 and 36 of 256 values. Five standard errors of a share at 1,000 tasks are at most 0.077.
        for (split, expected) in [(Split::Search, 156.0 / 256.0), (Split::Validate, 0.25), (Split::Sealed, 36.0 / 256.0)] {
            assert!((share(split) - expected).abs() < 0.077, "{split:?} {}", share(split));
        }
    }

    #[test]
    fn every_task_survives_the_way_to_toml_and_back() {
        for workflow in workflows() {
            for task in tasks(&workflow).iter().take(5) {
                let text = task_toml(task).unwrap();
                assert_eq!(parse_task(&text, Path::new("task.toml")).unwrap().id(), task.id(), "{}", workflow.skill);
            }
        }
    }
}
