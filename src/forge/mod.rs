//! Task synthesis: workflows, and the checks a task must survive before it is used.

mod code;
mod data;
mod shell;
mod validation;
mod workflow;

pub use validation::{Problem, TaskReport, validate_all, validate_task};
pub use workflow::{ForgeError, Workflow, workflows};
