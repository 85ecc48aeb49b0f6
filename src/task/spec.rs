//! A task and its parts.

use serde::{Deserialize, Serialize};

use super::{Act, Check, Split, Variant};
use crate::base::{Snapshot, content_hash, define_id};

define_id!(
    /// Hash of a task's body.
    TaskId
);

/// A name that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: expected 1 to 64 of a-z, 0-9, `-` and `_`, starting with a letter")]
pub struct NameError {
    /// What was expected.
    pub kind: &'static str,
    /// What was given.
    pub text: String,
}

macro_rules! define_name {
    ($(#[$meta:meta])* $name:ident, $kind:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps a name.
            ///
            /// # Errors
            /// When it is empty, too long, or has a character outside `a-z 0-9 - _`.
            pub fn new(text: &str) -> Result<Self, NameError> {
                let fits = (1..=64).contains(&text.len())
                    && text.starts_with(|c: char| c.is_ascii_lowercase())
                    && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
                if fits { Ok(Self(text.to_owned())) } else { Err(NameError { kind: $kind, text: text.to_owned() }) }
            }

            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

define_name!(
    /// The kind of work a task is. A name, not an enum: users bring their own.
    JobType,
    "job type"
);
define_name!(
    /// One named ability; for a synthesised task, the workflow that made it.
    SkillName,
    "skill name"
);

/// A task: a body and the id and split that follow from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    id: TaskId,
    split: Split,
    body: TaskBody,
}

/// What a task is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskBody {
    /// The kind of work.
    pub job_type: JobType,
    /// The ability it exercises.
    pub skill: SkillName,
    /// What the agent is told.
    pub instruction: String,
    /// The files that are in the workspace when the agent starts.
    #[serde(default)]
    pub files: Snapshot,
    /// Bounds that hold whatever the harness allows.
    #[serde(default)]
    pub limits: TaskLimits,
    /// How success is decided.
    pub check: Check,
    /// The reference solution. Never shown to an agent or to a rewriting model.
    pub solution: Vec<Act>,
    /// Ways to get it wrong that the check must refuse, beside those derived from the solution.
    #[serde(default)]
    pub broken: Vec<Variant>,
}

/// Bounds of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskLimits {
    /// Wall time of the whole episode in seconds, 1 to 7200.
    pub seconds: u32,
    /// Wall time of the check in seconds, 1 to 600.
    pub check_seconds: u32,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { seconds: 600, check_seconds: 30 }
    }
}

/// A body that is not a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// A part is missing or out of range.
    #[error("{part}: {reason}")]
    Part {
        /// Which part, as a TOML key.
        part: String,
        /// What is wrong and what is right.
        reason: String,
    },
}

impl Task {
    /// Checks `body` and names it. The split follows from the id: of 20 tasks 12 are `search`, 5 `validate`, 3 `sealed`.
    ///
    /// # Errors
    /// When a part is missing or out of range.
    pub fn new(body: TaskBody) -> Result<Self, TaskError> {
        body.validate()?;
        let hash = content_hash("task/1", &body).map_err(|error| TaskError::Part { part: "task".to_owned(), reason: error.to_string() })?;
        let id = TaskId::from_hash(&hash);
        Ok(Self { id, split: Split::of(id), body })
    }

    /// The id.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// The split.
    #[must_use]
    pub const fn split(&self) -> Split {
        self.split
    }

    /// The parts.
    #[must_use]
    pub const fn body(&self) -> &TaskBody {
        &self.body
    }

    /// The kind of work.
    #[must_use]
    pub const fn job_type(&self) -> &JobType {
        &self.body.job_type
    }
}

impl TaskBody {
    fn validate(&self) -> Result<(), TaskError> {
        let fail = |part: &str, reason: &str| Err(TaskError::Part { part: part.to_owned(), reason: reason.to_owned() });
        if self.instruction.trim().is_empty() {
            return fail("instruction", "is empty; say what the agent is to do");
        }
        if !(1..=7200).contains(&self.limits.seconds) {
            return fail("limits.seconds", "must be 1 to 7200");
        }
        if !(1..=600).contains(&self.limits.check_seconds) {
            return fail("limits.check_seconds", "must be 1 to 600");
        }
        if self.solution.is_empty() {
            return fail("solution", "is empty; without a reference solution the task cannot be checked");
        }
        self.check.validate()
    }
}
