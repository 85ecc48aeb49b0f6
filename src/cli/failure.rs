//! How commands fail: a kind with its exit code, the chain of causes, and hints.

use std::process::ExitCode;

/// What kind of failure it is. Each has its exit code; they are listed in `harness-evo --help` and in the README.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Something else: I/O, an internal error.
    Other,
    /// The command line, an experiment, a template or a task is wrong.
    Input,
    /// What was checked did not pass.
    Check,
    /// The machine cannot do it: no sandbox, no endpoint, no key.
    Environment,
    /// The run folder: missing, in use, damaged, from another version, disk full.
    Run,
    /// Stopped by the user; `harness-evo resume` goes on.
    Interrupted,
}

impl FailureKind {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Input => 2,
            Self::Check => 3,
            Self::Environment => 4,
            Self::Run => 5,
            Self::Interrupted => 130,
        }
    }
}

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do, a line each.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure with only a message.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// A failure from an error and its sources.
    #[must_use]
    pub fn from_error(kind: FailureKind, error: &dyn std::error::Error) -> Self {
        let mut failure = Self::new(kind, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // A transparent error repeats its source.
            if !failure.message.contains(&text) {
                failure.causes.push(text);
            }
            source = cause.source();
        }
        failure
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.hints.push(text.into());
        self
    }

    /// The text for stderr.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        for cause in &self.causes {
            text.push_str(&format!("  because: {cause}\n"));
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }

    /// The exit code.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }
}
