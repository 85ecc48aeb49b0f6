//! The order in which tasks and seeds are played. It is the same for every harness, so that any two are compared on the same
//! pairs (common random numbers), and a longer evaluation only adds pairs.

use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::base::SeedTree;
use crate::task::{JobType, SealedTask, SearchTask, Task, ValidateTask};

/// One pair of the schedule.
#[derive(Debug, Clone)]
pub struct Pairing {
    /// The task.
    pub task: Arc<Task>,
    /// The seed of the episode.
    pub seed: u64,
}

/// An endless order over tasks of one job type: round after round through all tasks, with a new seed per round.
#[derive(Debug, Clone)]
pub struct Schedule {
    job_type: JobType,
    tasks: Vec<Arc<Task>>,
    seeds: SeedTree,
}

impl Schedule {
    /// The order for selection.
    #[must_use]
    pub fn search(job_type: &JobType, tasks: &[SearchTask], seeds: &SeedTree) -> Self {
        Self::new(job_type, tasks.iter().map(SearchTask::task), &seeds.child("search"))
    }

    /// The order for confirmation.
    #[must_use]
    pub fn validate(job_type: &JobType, tasks: &[ValidateTask], seeds: &SeedTree) -> Self {
        Self::new(job_type, tasks.iter().map(ValidateTask::task), &seeds.child("validate"))
    }

    /// The order for a report of what was selected without any of these.
    #[must_use]
    pub fn sealed(job_type: &JobType, tasks: &[SealedTask], seeds: &SeedTree) -> Self {
        Self::new(job_type, tasks.iter().map(SealedTask::task), &seeds.child("sealed"))
    }

    fn new<'a>(job_type: &JobType, tasks: impl Iterator<Item = &'a Arc<Task>>, seeds: &SeedTree) -> Self {
        let seeds = seeds.child(job_type.as_str());
        let mut tasks: Vec<Arc<Task>> = tasks.filter(|task| task.job_type() == job_type).cloned().collect();
        tasks.sort_by_key(|task| task.id());
        tasks.shuffle(&mut seeds.child("order").rng());
        Self { job_type: job_type.clone(), tasks, seeds }
    }

    /// The kind of work.
    #[must_use]
    pub const fn job_type(&self) -> &JobType {
        &self.job_type
    }

    /// How many different tasks there are.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The pairs `from` to `to` (exclusive); empty when there are no tasks.
    #[must_use]
    pub fn pairs(&self, from: usize, to: usize) -> Vec<Pairing> {
        if self.tasks.is_empty() {
            return Vec::new();
        }
        (from..to)
            .map(|index| {
                let round = u64::try_from(index / self.tasks.len()).unwrap_or(u64::MAX);
                // Seeds stay below 2^63 so that they fit a signed SQL integer and JSON readers that use one.
                Pairing {
                    task: Arc::clone(&self.tasks[index % self.tasks.len()]),
                    seed: self.seeds.child("round").index(round).value() >> 1,
                }
            })
            .collect()
    }
}
