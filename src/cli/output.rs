//! Where commands write: results to stdout, everything else to stderr.

use std::io::{IsTerminal, Write};

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

    /// A result, on stdout. A closed pipe is the reader's wish, not an error.
    pub(super) fn data(self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes());
        if !text.ends_with('\n') {
            let _ = stdout.write_all(b"\n");
        }
        let _ = stdout.flush();
    }

    /// A remark, on stderr.
    pub(super) fn note(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// An error, on stderr, whatever the verbosity.
    pub(super) fn error(self, text: &str) {
        let _ = write!(std::io::stderr().lock(), "{text}");
    }
}
