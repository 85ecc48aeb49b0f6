//! Task synthesis: workflows, and the checks a task must survive before it is used.

mod code;
mod data;
mod draft;
mod shell;
mod validation;
mod vocabulary;
mod workflow;

pub use validation::{Problem, TaskReport, validate_all, validate_task};
pub use workflow::{ForgeError, Workflow, workflows};
