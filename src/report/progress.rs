//! A live display for terminals.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Reporter;
use super::tally::{Tally, confirmed};
use crate::evolution::RunEvent;

/// A bar over the episodes of the budget, with the figures that matter below it; elites scroll past above it.
pub struct ProgressReporter {
    bar: ProgressBar,
    tally: Tally,
    started: Instant,
}

impl ProgressReporter {
    /// A display on stderr.
    #[must_use]
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} episodes, {elapsed}\n{wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, tally: Tally::default(), started: Instant::now() }
    }

    fn redraw(&self) {
        self.bar.set_length(self.tally.limit());
        self.bar.set_position(self.tally.episodes());
        self.bar.set_message(self.tally.figures(self.started.elapsed()));
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
            RunEvent::Started { .. } => {
                self.started = Instant::now();
                self.bar.reset_elapsed();
                // The clock goes on while nothing happens.
                self.bar.enable_steady_tick(Duration::from_secs(1));
            }
            RunEvent::StepCommitted { step, effects, .. } => {
                for line in effects.iter().filter_map(|effect| confirmed(*step, effect)) {
                    self.bar.println(line);
                }
            }
            RunEvent::Phase { name, episodes } => self.bar.println(format!("{name}: up to {episodes} episodes")),
            RunEvent::Stopped { reason } => self.bar.println(reason),
            RunEvent::EpisodeDone { .. } => {}
        }
        self.redraw();
    }

    fn finish(&mut self) {
        // What it shows last stays; the bar does not claim more than was played.
        self.bar.abandon();
    }
}
