//! Task synthesis: workflows, and the checks a task must survive before it is used.

mod code;
mod data;
mod draft;
mod shell;
mod vocabulary;
mod workflow;

pub use workflow::{ForgeError, Workflow, workflows};
