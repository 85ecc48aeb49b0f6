//! Which reporter a command gets.

use super::output::Output;
use crate::report::{PlainReporter, ProgressReporter, Reporter, SilentReporter};

/// A live display on a terminal, plain lines elsewhere, nothing when quiet.
pub(super) fn choose(output: &Output) -> Box<dyn Reporter> {
    if output.is_quiet() {
        Box::new(SilentReporter)
    } else if output.is_terminal() {
        Box::new(ProgressReporter::new())
    } else {
        Box::new(PlainReporter::new(Box::new(std::io::stderr())))
    }
}
