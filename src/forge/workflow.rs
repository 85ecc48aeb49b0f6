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
