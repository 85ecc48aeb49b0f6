//! Which reporters a command gets.

use std::path::Path;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::report::{BothReporters, JsonlReporter, PlainReporter, ProgressReporter, Reporter, SilentReporter};

/// A live display on a terminal, plain lines elsewhere, nothing when quiet; and the file of events, if one is asked for.
pub(super) fn choose(output: &Output, events: Option<&Path>) -> Result<Box<dyn Reporter>, Failure> {
    let display: Box<dyn Reporter> = if output.is_quiet() {
        Box::new(SilentReporter)
    } else if output.is_terminal() {
        Box::new(ProgressReporter::new())
    } else {
        Box::new(PlainReporter::new(Box::new(std::io::stderr())))
    };
    let Some(path) = events else { return Ok(display) };
    let file =
        std::fs::File::options().create(true).append(true).open(path).map_err(|error| {
            Failure::new(FailureKind::Input, format!("the file of events {} cannot be written: {error}", path.display()))
        })?;
    Ok(Box::new(BothReporters::new(display, Box::new(JsonlReporter::new(Box::new(file))))))
}
