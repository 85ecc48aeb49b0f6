//! A live display for terminals.

use indicatif::{ProgressBar, ProgressStyle};

use super::Reporter;
use super::tally::Tally;
use crate::evolution::{Effect, RunEvent};

/// A bar over the episodes of the budget, with the figures that matter beside it; elites scroll past above it.
pub struct ProgressReporter {
    bar: ProgressBar,
    tally: Tally,
}

impl ProgressReporter {
    /// A display on stderr.
    #[must_use]
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} episodes  {msg}") {
            bar.set_style(style);
        }
        Self { bar, tally: Tally::new() }
    }

    fn redraw(&self) {
        let left = self.tally.left().map_or_else(|| "?".to_owned(), |left| format!("{}s", left.as_secs()));
        self.bar.set_length(self.tally.limit());
        self.bar.set_position(self.tally.episodes);
        self.bar.set_message(format!(
            "{:.1}/s  {left} left  {} steps  {} faults  best {}{}",
            self.tally.rate(),
            self.tally.steps,
            self.tally.faults,
            self.tally.best(),
            if self.tally.simulated { "  (simulated)" } else { "" },
        ));
    }
}

impl Default for ProgressReporter {
    fn default() -> Self {
        Self::new()
    }
}

impl Reporter for ProgressReporter {
    fn event(&mut self, event: &RunEvent) {
        self.tally.take(event);
        match event {
            RunEvent::StepCommitted { step, effects, .. } => {
                for effect in effects {
                    if let Effect::EliteConfirmed { niche, harness, rate, low, high, .. } = effect {
                        self.bar.println(format!(
                            "step {step}: elite {} in {niche}: {:.0} % solved ({:.0} to {:.0})",
                            harness.short(),
                            rate * 100.0,
                            low * 100.0,
                            high * 100.0
                        ));
                    }
                }
            }
            RunEvent::Phase { name, episodes } => self.bar.println(format!("{name}: up to {episodes} episodes")),
            RunEvent::Stopped { reason } => self.bar.println(reason),
            RunEvent::Started { .. } | RunEvent::EpisodeDone { .. } => {}
        }
        self.redraw();
    }

    fn finish(&mut self) {
        self.bar.finish();
    }
}
