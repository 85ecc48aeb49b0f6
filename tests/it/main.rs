//! Integration tests: one binary, a module per subject.

mod hostile;
mod session;
mod tasks;
