//! How success is decided, as data.

use serde::{Deserialize, Serialize};

use super::TaskError;
use crate::base::Snapshot;

/// A check: items that earn credit, and guards that must hold for any credit to count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The items, at least one of which earns credit.
    pub items: Vec<CheckItem>,
}

/// One item of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckItem {
    /// What it looks at, in a word or two.
    pub name: String,
    /// What hangs on it.
    #[serde(default)]
    pub stake: Stake,
    /// What must hold.
    pub probe: Probe,
}

/// What hangs on an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stake {
    /// One share of the score.
    #[default]
    Credit,
    /// If it fails the score is 0. For what must *not* have been broken, which holds before anything is done.
    Guard,
}

/// What must hold in the workspace after every process of the agent is dead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Probe {
    /// The path is a regular file.
    FileExists {
        /// Relative to the workspace.
        path: String,
    },
    /// Nothing is at the path.
    FileAbsent {
        /// Relative to the workspace.
        path: String,
    },
    /// The file's text is `text`, but for white space at the end of the file.
    FileEquals {
        /// Relative to the workspace.
        path: String,
        /// The text.
        text: String,
    },
    /// The file holds `text`.
    FileContains {
        /// Relative to the workspace.
        path: String,
        /// The text.
        text: String,
    },
    /// The file matches the regular expression (`regex` crate syntax, `(?m)` and so on inside).
    FileMatches {
        /// Relative to the workspace.
        path: String,
        /// The expression.
        pattern: String,
    },
    /// The file is JSON equal to `value`; numbers may differ by 1e-9 relative.
    JsonEquals {
        /// Relative to the workspace.
        path: String,
        /// The value.
        value: serde_json::Value,
    },
    /// The file has these lines, in any order; empty lines do not count.
    LinesEqual {
        /// Relative to the workspace.
        path: String,
        /// The lines.
        lines: Vec<String>,
    },
    /// The file's permission bits.
    FileMode {
        /// Relative to the workspace.
        path: String,
        /// For example `0o640`, written as octal digits: "640".
        mode: String,
    },
    /// The path is a symbolic link that points to `target`, as it is written in the link.
    LinkEquals {
        /// Relative to the workspace.
        path: String,
        /// Where it must point.
        target: String,
    },
    /// A command run in a fresh sandbox over a copy of the workspace, with files the agent never saw laid over it.
    Command {
        /// The command, for bash, run in the workspace.
        command: String,
        /// Files added before it runs.
        #[serde(default)]
        files: Snapshot,
        /// The exit status it must have.
        #[serde(default)]
        exit: i32,
        /// A text its output must hold.
        #[serde(default)]
        stdout_contains: Option<String>,
    },
}

/// A check's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Passed credit items over credit items, 0 if a guard failed.
    pub score: f64,
    /// Each item with its evidence.
    pub items: Vec<ItemResult>,
}

impl Verdict {
    /// Whether the task was solved: full score.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.score >= 1.0
    }
}

/// The result of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemResult {
    /// The item.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// What was found, short.
    pub evidence: String,
}

impl Check {
    pub(super) fn validate(&self) -> Result<(), TaskError> {
        if !self.items.iter().any(|item| item.stake == Stake::Credit) {
            let reason = "needs at least one item with stake = \"credit\"".to_owned();
            return Err(TaskError::Part { part: "check.items".to_owned(), reason });
        }
        let mut items = self.items.iter().enumerate();
        items.try_for_each(|(index, item)| item.probe.validate(&format!("check.items[{index}]")))
    }
}
