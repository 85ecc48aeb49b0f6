//! Where commands write: results to stdout, everything else to stderr.

use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::failure::{Failure, FailureKind};

/// The process's output, as the command line and the environment want it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    quiet: bool,
    terminal: bool,
}

/// How much is said on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Progress and notes.
    Normal,
}

impl Output {
    /// Looks at the process's streams.
    pub(super) fn new(verbosity: Verbosity) -> Self {
        let plain =
            std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || std::env::var("TERM").is_ok_and(|term| term == "dumb");
        Self { quiet: verbosity == Verbosity::Quiet, terminal: std::io::stderr().is_terminal() && !plain }
    }

    /// Whether stderr is a terminal that may be redrawn.
    pub(super) const fn is_terminal(self) -> bool {
        self.terminal
    }

    /// Whether only errors are said.
    pub(super) const fn is_quiet(self) -> bool {
        self.quiet
    }

    /// A result, on stdout. A closed pipe is the reader's wish, not an error; a full disk is one.
    pub(super) fn data(self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        let shown = if stdout.is_terminal() { harmless(text) } else { text.to_owned() };
        let end = if shown.is_empty() || shown.ends_with('\n') { "" } else { "\n" };
        let written = stdout.write_all(shown.as_bytes()).and_then(|()| stdout.write_all(end.as_bytes())).and_then(|()| stdout.flush());
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::new(FailureKind::Other, format!("standard output cannot be written: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// A result as JSON with sorted keys.
    pub(super) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let sorted = serde_json::to_value(value).map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
        self.data(&format!("{sorted:#}"))
    }

    /// A remark, on stderr.
    pub(super) fn note(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// An error, on stderr, whatever the verbosity.
    pub(super) fn error(self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let shown = if stderr.is_terminal() { harmless(text) } else { text.to_owned() };
        let _ = stderr.write_all(shown.as_bytes());
    }
}

/// `text` without what steers a terminal: models and programs in sandboxes wrote much of what is shown.
fn harmless(text: &str) -> String {
    let shown = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().map(|c| if shown(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_shown_on_one() {
        assert_eq!(harmless("a\x1b[2Jb\tc\nd\r\u{9b}31m ä"), "a\u{fffd}[2Jb\tc\nd\u{fffd}\u{fffd}31m ä");
    }
}
