//! Which rows each step takes: a function of the seed and the step alone, so that a run goes on anywhere.

use super::TrainingError;
use crate::base::SeedTree;
use crate::student::data::{PackedRow, Sample, pack};
use crate::student::recipe::{Length, Rows};

/// The order of the data.
pub struct TrainingPlan<'d> {
    samples: Vec<&'d Sample>,
    rows: Rows,
    padding: u32,
    seeds: SeedTree,
    steps_per_epoch: u64,
    steps: u64,
    /// The rows of the epoch that was asked for last.
    epoch: Option<(u64, Vec<Vec<usize>>)>,
}

impl<'d> TrainingPlan<'d> {
    /// Plans `length` over `samples`. Every epoch packs them anew; a step that would not be full is left out.
    ///
    /// # Errors
    /// When the samples do not fill one step.
    pub fn new(samples: Vec<&'d Sample>, rows: Rows, length: Length, padding: u32, seeds: &SeedTree) -> Result<Self, TrainingError> {
        let mut plan = Self { samples, rows, padding, seeds: seeds.child("order"), steps_per_epoch: 0, steps: 0, epoch: None };
        // First-fit decreasing fills the same number of rows whatever the order of equal lengths.
        let count = plan.packed(0)?.len();
        plan.steps_per_epoch = (count / rows.per_step) as u64;
        if plan.steps_per_epoch == 0 {
            return Err(TrainingError::TooFewRows { rows: count, per_step: rows.per_step });
        }
        plan.steps = match length {
            Length::Steps(steps) => steps,
            Length::Epochs(epochs) => epochs.saturating_mul(plan.steps_per_epoch),
        };
        Ok(plan)
    }

    /// Steps in all.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Rows that an epoch learns from.
    #[must_use]
    pub const fn rows_per_epoch(&self) -> u64 {
        self.steps_per_epoch * self.rows.per_step as u64
    }

    /// The rows of step `step`.
    ///
    /// # Errors
    /// When a sample does not fit a row.
    pub fn step(&mut self, step: u64) -> Result<Vec<PackedRow>, TrainingError> {
        let (epoch, within) = (step / self.steps_per_epoch, step % self.steps_per_epoch);
        let per_step = self.rows.per_step;
        let first = usize::try_from(within).unwrap_or(usize::MAX).saturating_mul(per_step);
        let wanted: Vec<Vec<usize>> = self.packed(epoch)?.iter().skip(first).take(per_step).cloned().collect();
        wanted.iter().map(|row| self.row(row)).collect()
    }

    fn row(&self, numbers: &[usize]) -> Result<PackedRow, TrainingError> {
        Ok(PackedRow::new(numbers.iter().map(|number| self.samples[*number]), self.rows.length, self.padding)?)
    }

    fn packed(&mut self, epoch: u64) -> Result<&[Vec<usize>], TrainingError> {
        if self.epoch.as_ref().is_none_or(|(number, _)| *number != epoch) {
            let lengths: Vec<usize> = self.samples.iter().map(|sample| sample.ids.len()).collect();
            self.epoch = Some((epoch, pack(&lengths, self.rows.length, &self.seeds.index(epoch))?));
        }
        Ok(self.epoch.as_ref().map_or(&[], |(_, rows)| rows))
    }
}
