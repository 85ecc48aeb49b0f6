//! Which reporters a command gets.

use std::fs::File;
use std::path::Path;

use super::failure::{Failure, FailureKind};
use super::output::Output;
use crate::report::{BothReporters, JsonlReporter, PlainReporter, ProgressReporter, Reporter, SilentReporter};

/// Opens the file of events, if one is asked for, before anything is spent.
pub(super) fn open_events(path: Option<&Path>) -> Result<Option<File>, Failure> {
    let open =
        |path: &Path| {
            File::options().create(true).append(true).open(path).map_err(|error| {
                Failure::new(FailureKind::Input, format!("the file of events {} cannot be written: {error}", path.display()))
            })
        };
    path.map(open).transpose()
}

/// A live display on a terminal, plain lines elsewhere, nothing when quiet; and the file of events, if there is one.
pub(super) fn choose(output: &Output, events: Option<File>) -> Box<dyn Reporter> {
    let display: Box<dyn Reporter> = if output.is_quiet() {
        Box::new(SilentReporter)
    } else if output.is_terminal() {
        Box::new(ProgressReporter::new())
    } else {
        Box::new(PlainReporter::new(Box::new(std::io::stderr())))
    };
    match events {
        None => display,
        Some(file) => Box::new(BothReporters::new(display, Box::new(JsonlReporter::new(Box::new(file))))),
    }
}
