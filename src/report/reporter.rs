//! What every reporter does.

use crate::evolution::RunEvent;

/// A consumer of events. It owns its output; a failing output never stops a run.
pub trait Reporter: Send {
    /// Something happened.
    fn event(&mut self, event: &RunEvent);

    /// Nothing more will happen.
    fn finish(&mut self);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentReporter;

impl Reporter for SilentReporter {
    fn event(&mut self, _event: &RunEvent) {}

    fn finish(&mut self) {}
}
