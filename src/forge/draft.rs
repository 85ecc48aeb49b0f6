//! Collects the parts of a task body.

use crate::base::{Entry, Snapshot, SnapshotError};
use crate::task::{Act, ActCall, ActRole, Check, CheckItem, JobType, Probe, SkillName, Stake, TaskBody, TaskLimits};

use super::ForgeError;

/// A task body in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    files: Snapshot,
    items: Vec<CheckItem>,
    solution: Vec<Act>,
}

impl Draft {
    /// Puts a file into the workspace.
    pub(super) fn file(&mut self, path: &str, text: &str) -> Result<(), SnapshotError> {
        self.files.insert_text(path, text)
    }

    /// Puts an entry of any kind into the workspace.
    pub(super) fn entry(&mut self, path: &str, entry: Entry) -> Result<(), SnapshotError> {
        self.files.insert(path, entry)
    }

    /// Puts a file into the workspace, and guards that it stays as it is.
    pub(super) fn kept_file(&mut self, path: &str, text: &str) -> Result<(), SnapshotError> {
        self.files.insert_text(path, text)?;
        self.guard(&format!("{path} unchanged"), Probe::FileEquals { path: path.to_owned(), text: text.to_owned() });
        Ok(())
    }

    /// The text of a file of the workspace, empty if there is none.
    pub(super) fn text(&self, path: &str) -> &str {
        match self.files.get(path) {
            Some(Entry::File { text, .. }) => text,
            _ => "",
        }
    }

    /// Adds an item that earns credit.
    pub(super) fn credit(&mut self, name: &str, probe: Probe) {
        self.items.push(CheckItem { name: name.to_owned(), stake: Stake::Credit, probe });
    }

    /// Adds an item without which nothing earns credit.
    pub(super) fn guard(&mut self, name: &str, probe: Probe) {
        self.items.push(CheckItem { name: name.to_owned(), stake: Stake::Guard, probe });
    }

    /// Adds the next act of the solution.
    pub(super) fn act(&mut self, act: Act) {
        self.solution.push(act);
    }

    /// The body.
    pub(super) fn body(self, job_type: &str, skill: &str, instruction: String) -> Result<TaskBody, ForgeError> {
        Ok(TaskBody {
            job_type: JobType::new(job_type)?,
            skill: SkillName::new(skill)?,
            instruction,
            files: self.files,
            limits: TaskLimits::default(),
            check: Check { items: self.items },
            solution: self.solution,
            broken: Vec::new(),
        })
    }
}

/// An act that looks at the initial state.
pub(super) fn inspect(command: &str) -> Act {
    Act { call: run(command), role: ActRole::Inspect, evidence: None, slip: None }
}

/// An act that does the main work, with what a careless agent does instead.
pub(super) fn work(call: ActCall, slip: ActCall) -> Act {
    Act { call, role: ActRole::Work, evidence: None, slip: Some(slip) }
}

/// [`work`] that relies on having seen `evidence`.
pub(super) fn informed_work(call: ActCall, slip: ActCall, evidence: &str) -> Act {
    Act { evidence: Some(evidence.to_owned()), ..work(call, slip) }
}

/// An act that meets a constraint which is easy to forget.
pub(super) fn requirement(call: ActCall) -> Act {
    Act { call, role: ActRole::Requirement, evidence: None, slip: None }
}

/// An act that looks at the result.
pub(super) fn verify(command: &str) -> Act {
    Act { call: run(command), role: ActRole::Verify, evidence: None, slip: None }
}

/// A shell command.
pub(super) fn run(command: &str) -> ActCall {
    ActCall::Run { command: command.to_owned() }
}

/// A Python program.
pub(super) fn python(code: String) -> ActCall {
    ActCall::Python { code }
}

/// Writing a file.
pub(super) fn write(path: &str, content: &str) -> ActCall {
    ActCall::Write { path: path.to_owned(), content: content.to_owned() }
}

/// Replacing the one occurrence of a text.
pub(super) fn edit(path: &str, find: &str, replace: &str) -> ActCall {
    ActCall::Edit { path: path.to_owned(), find: find.to_owned(), replace: replace.to_owned() }
}

/// The file's text is `text`.
pub(super) fn equals(path: &str, text: &str) -> Probe {
    Probe::FileEquals { path: path.to_owned(), text: text.to_owned() }
}

/// The file holds `text`.
pub(super) fn contains(path: &str, text: &str) -> Probe {
    Probe::FileContains { path: path.to_owned(), text: text.to_owned() }
}

/// The file's first line is `line`.
pub(super) fn first_line(path: &str, line: &str) -> Probe {
    Probe::FileMatches { path: path.to_owned(), pattern: format!(r"\A{}\r?\n", regex::escape(line)) }
}
