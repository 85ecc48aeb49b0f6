//! Plain lines, for logs and pipes: one every few seconds, one per elite.

use std::io::Write;
use std::time::{Duration, Instant};

use super::Reporter;
use super::tally::{Tally, confirmed};
use crate::evolution::RunEvent;

/// Time between two lines of progress.
const EVERY: Duration = Duration::from_secs(5);

/// Writes plain lines.
pub struct PlainReporter {
    out: Box<dyn Write + Send>,
    tally: Tally,
    started: Instant,
    /// When the last line of progress was written.
    last: Option<Instant>,
}

impl PlainReporter {
    /// A reporter that writes to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, tally: Tally::default(), started: Instant::now(), last: None }
    }

    fn say(&mut self, text: &str) {
        // A log that cannot be written does not stop a run.
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    fn progress(&mut self) {
        self.last = Some(Instant::now());
        let line = self.tally.line(self.started.elapsed());
        self.say(&line);
    }
}

impl Reporter for PlainReporter {
    fn event(&mut self, event: &RunEvent) {
        self.tally.take(event);
        match event {
            RunEvent::Started { .. } => {
                self.started = Instant::now();
                self.progress();
            }
            RunEvent::StepCommitted { step, effects, .. } => {
                for line in effects.iter().filter_map(|effect| confirmed(*step, effect)) {
                    self.say(&line);
                }
            }
            RunEvent::Phase { name, episodes } => self.say(&format!("{name}: up to {episodes} episodes")),
            RunEvent::Stopped { reason } => {
                self.progress();
                self.say(reason);
            }
            RunEvent::EpisodeDone { .. } => {}
        }
        if self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.progress();
        }
    }

    fn finish(&mut self) {
        let _ = self.out.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::tally::tests::{crowned, started};
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn elites_phases_and_the_end_have_lines_of_their_own() {
        let out = Shared::default();
        let mut reporter = PlainReporter::new(Box::new(out.clone()));
        reporter.event(&started(0));
        reporter.event(&crowned(0.8, 0.6));
        reporter.event(&RunEvent::Phase { name: "comparison".to_owned(), episodes: 12 });
        reporter.event(&RunEvent::Stopped { reason: "complete".to_owned() });
        reporter.finish();
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("0/100 episodes, 0.0/s, ? left | 3 steps"), "{text}");
        assert!(
            lines[1].starts_with("step 7: elite ") && lines[1].ends_with(" in shell/s1t2: 80 % solved (60 to 95, 30 episodes)"),
            "{text}"
        );
        assert_eq!(lines[2], "comparison: up to 12 episodes");
        assert_eq!(*lines.last().unwrap(), "complete");
    }
}
