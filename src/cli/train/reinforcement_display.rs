//! What reinforcement shows.

use std::time::Instant;

use super::metrics::{Metrics, memory};
use crate::cli::failure::Failure;
use crate::cli::figures::percent;
use crate::cli::output::Output;
use crate::student::rl::{PlayFigures, RlEvent, UpdateFigures};
use crate::student::training::Continue;

/// A line for each step, and the file of metrics.
pub(super) struct ReinforcementDisplay {
    output: Output,
    metrics: Metrics,
    steps: u64,
    first: u64,
    began: Instant,
}

impl ReinforcementDisplay {
    /// Before the first event.
    pub(super) fn new(metrics: Metrics, output: Output) -> Self {
        Self { output, metrics, steps: 0, first: 0, began: Instant::now() }
    }

    /// Shows and keeps an event.
    pub(super) fn take(&mut self, event: &RlEvent) -> Continue {
        self.metrics.keep(event);
        match event {
            RlEvent::Started { step, steps, trained_parameters, parameters } => {
                (self.steps, self.first, self.began) = (*steps, *step, Instant::now());
                let from = if *step > 0 { format!(", from step {step} on") } else { String::new() };
                self.output.note(&format!("{steps} steps{from}; {trained_parameters} of {parameters} weights train"));
            }
            RlEvent::Step { step, play, update } => self.output.note(&self.line(*step, play, update.as_ref())),
            RlEvent::Saved { .. } => {}
        }
        self.metrics.go_on()
    }

    /// Says what kept events from being written.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.metrics.finish()
    }

    fn line(&self, step: u64, play: &PlayFigures, update: Option<&UpdateFigures>) -> String {
        let reward = play.reward.map_or_else(|| "-".to_owned(), |reward| format!("{reward:.3}"));
        let mut line = format!("step {}/{}: reward {reward}, {} of {} episodes solved", step + 1, self.steps, play.solved, play.rollouts);
        let unusual = [("truncated", play.truncated), ("faulted", play.faulted)];
        for (name, count) in unusual.into_iter().filter(|(_, count)| *count > 0) {
            line.push_str(&format!(", {count} {name}"));
        }
        line.push_str(&format!(", {} of {} groups teach", play.groups - play.dead, play.groups));
        match update {
            None => line.push_str("; nothing to learn"),
            Some(update) => line.push_str(&format!(
                "; {} tokens learnt, clipped {}, entropy {:.2}, mismatch {:.4}, gradient {:.2}",
                update.trained_tokens,
                percent(update.clipped),
                update.entropy,
                update.mismatch,
                update.gradient_norm
            )),
        }
        line.push_str(&format!("{}, {} left", memory(), self.left(step)));
        line
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn left(&self, step: u64) -> String {
        let a_step = self.began.elapsed().as_secs_f64() / (step + 1 - self.first) as f64;
        let left = self.steps.saturating_sub(step + 1) as f64 * a_step;
        format!("{:.0}m{:02.0}s", (left / 60.0).floor(), (left % 60.0).floor())
    }
}
