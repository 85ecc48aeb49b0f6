//! Reference solutions: what a competent agent does, in terms that any tool set can play.

use serde::{Deserialize, Serialize};

/// One act of a solution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// What is done.
    pub call: ActCall,
    /// What it is for.
    pub role: ActRole,
    /// A text that the act relies on having seen: an agent that never saw it in an observation cannot play the act right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What a careless agent does instead. Putting it in the act's place makes a broken variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slip: Option<ActCall>,
}

/// What an act is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActRole {
    /// Looks at the initial state.
    Inspect,
    /// Does the main work.
    Work,
    /// Meets a constraint of the instruction that is easy to forget. Leaving it out makes a broken variant.
    Requirement,
    /// Looks at the result.
    Verify,
}

/// What is done, independent of the tools at hand. Paths are relative to the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ActCall {
    /// A shell command, run in the workspace.
    Run {
        /// The command, for bash.
        command: String,
    },
    /// A Python program, run in the workspace.
    Python {
        /// Its text.
        code: String,
    },
    /// Writes a whole file.
    Write {
        /// Where.
        path: String,
        /// What.
        content: String,
    },
    /// Replaces the one occurrence of a text.
    Edit {
        /// Where.
        path: String,
        /// The text that stands there once.
        find: String,
        /// The text that takes its place.
        replace: String,
    },
    /// Reads a file.
    Read {
        /// Which.
        path: String,
    },
}

/// A named way of getting a task wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What is wrong with it, in a word or two.
    pub name: String,
    /// What is done.
    pub acts: Vec<ActCall>,
}
