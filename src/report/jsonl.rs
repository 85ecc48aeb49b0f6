//! Events as JSON, one a line, for other programs. A line is written and flushed as its event happens.

use std::io::Write;

use super::Reporter;
use crate::evolution::RunEvent;

/// Writes every [`RunEvent`] as a line of JSON with its name under `event`.
pub struct JsonlReporter {
    /// None after the first failure: a file with a hole in it would mislead whoever reads it.
    out: Option<Box<dyn Write + Send>>,
}

impl JsonlReporter {
    /// A reporter that writes to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: Some(out) }
    }
}

impl Reporter for JsonlReporter {
    fn event(&mut self, event: &RunEvent) {
        let Some(out) = &mut self.out else { return };
        let line = serde_json::to_string(event).map_err(std::io::Error::other);
        if let Err(error) = line.and_then(|line| out.write_all(format!("{line}\n").as_bytes())).and_then(|()| out.flush()) {
            tracing::warn!(%error, "events are no longer written");
            self.out = None;
        }
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written, up to a number of bytes after which writing fails.
    #[derive(Clone)]
    struct Shared(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut written = self.0.lock().unwrap();
            if written.len() >= self.1 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            written.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(most: usize, events: &[RunEvent]) -> String {
        let out = Shared(Arc::default(), most);
        let mut reporter = JsonlReporter::new(Box::new(out.clone()));
        events.iter().for_each(|event| reporter.event(event));
        reporter.finish();
        String::from_utf8(out.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn every_event_is_a_line_that_reads_back_as_itself() {
        let events =
            [RunEvent::Phase { name: "comparison".to_owned(), episodes: 3 }, RunEvent::Stopped { reason: "two\nlines".to_owned() }];
        let text = written(usize::MAX, &events);
        assert_eq!(text.lines().next().unwrap(), r#"{"event":"phase","name":"comparison","episodes":3}"#);
        let read: Vec<RunEvent> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn after_a_line_that_could_not_be_written_there_are_no_others() {
        let event = RunEvent::Stopped { reason: "x".to_owned() };
        assert_eq!(written(10, &[event.clone(), event.clone(), event]).lines().count(), 1);
    }
}
