//! Plain lines, for logs and pipes: one every few seconds, one per elite.

use std::io::Write;
use std::time::{Duration, Instant};

use super::Reporter;
use super::tally::Tally;
use crate::evolution::{Effect, RunEvent};

/// Time between two lines of progress.
const EVERY: Duration = Duration::from_secs(5);

/// Writes plain lines.
pub struct PlainReporter {
    out: Box<dyn Write + Send>,
    tally: Tally,
    last: Option<Instant>,
}

impl PlainReporter {
    /// A reporter that writes to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, tally: Tally::new(), last: None }
    }

    fn say(&mut self, text: &str) {
        // A log that cannot be written does not stop a run.
        let _ = writeln!(self.out, "{text}");
    }
}

impl Reporter for PlainReporter {
    fn event(&mut self, event: &RunEvent) {
        self.tally.take(event);
        match event {
            RunEvent::StepCommitted { step, effects, .. } => {
                for effect in effects {
                    if let Effect::EliteConfirmed { niche, harness, rate, low, high, episodes, .. } = effect {
                        self.say(&format!(
                            "step {step}: elite {} in {niche}: {:.0} % solved ({:.0} to {:.0}, {episodes} episodes)",
                            harness.short(),
                            rate * 100.0,
                            low * 100.0,
                            high * 100.0
                        ));
                    }
                }
            }
            RunEvent::Phase { name, episodes } => self.say(&format!("{name}: up to {episodes} episodes")),
            RunEvent::Stopped { reason } => {
                let line = self.tally.line();
                self.say(&line);
                self.say(reason);
            }
            RunEvent::Started { .. } | RunEvent::EpisodeDone { .. } => {}
        }
        if self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.last = Some(Instant::now());
            let line = self.tally.line();
            self.say(&line);
        }
    }

    fn finish(&mut self) {
        let _ = self.out.flush();
    }
}
