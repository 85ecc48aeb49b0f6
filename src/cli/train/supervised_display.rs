//! What supervised training shows.

use std::time::{Duration, Instant};

use super::metrics::{Metrics, memory};
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::student::training::{Continue, TrainingEvent};

/// Time between two lines of progress.
const EVERY: Duration = Duration::from_secs(5);

/// Lines on stderr and in the file of metrics.
pub(super) struct SupervisedDisplay {
    output: Output,
    metrics: Metrics,
    steps: u64,
    first: u64,
    began: Instant,
    shown: Option<Instant>,
    tokens: u64,
}

impl SupervisedDisplay {
    /// Before the first event.
    pub(super) fn new(metrics: Metrics, output: Output) -> Self {
        Self { output, metrics, steps: 0, first: 0, began: Instant::now(), shown: None, tokens: 0 }
    }

    /// Shows and keeps an event.
    pub(super) fn take(&mut self, event: &TrainingEvent) -> Continue {
        self.metrics.keep(event);
        match event {
            TrainingEvent::Started { step, steps, trained_parameters, parameters, rows } => {
                (self.steps, self.first, self.began) = (*steps, *step, Instant::now());
                let from = if *step > 0 { format!(", from step {step} on") } else { String::new() };
                self.output.note(&format!("{steps} steps{from}; {rows} rows an epoch; {trained_parameters} of {parameters} weights train"));
            }
            TrainingEvent::Step { step, loss, learning_rate, tokens, gradient_norm, .. } => {
                self.tokens += tokens;
                if self.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
                    self.shown = Some(Instant::now());
                    self.output.note(&self.line(*step, *loss, *learning_rate, *gradient_norm));
                }
            }
            TrainingEvent::Evaluated { step, held_out, best } => {
                let mark = if *best { ", the best so far" } else { "" };
                self.output.note(&format!("step {step}: held-out loss {:.4}{mark}", held_out.loss));
            }
            TrainingEvent::Saved { .. } => {}
        }
        self.metrics.go_on()
    }

    /// Says what kept events from being written.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.metrics.finish()
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn line(&self, step: u64, loss: f64, learning_rate: f64, gradient_norm: f64) -> String {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        let rate = (step + 1 - self.first) as f64 / seconds;
        let left = self.steps.saturating_sub(step + 1) as f64 / rate;
        format!(
            "step {}/{}: loss {loss:.4}, gradient {gradient_norm:.2}, rate {learning_rate:.1e}, {:.0} tokens/s{}, {}m{:02}s left",
            step + 1,
            self.steps,
            self.tokens as f64 / seconds,
            memory(),
            (left / 60.0) as u64,
            (left % 60.0) as u64,
        )
    }
}
