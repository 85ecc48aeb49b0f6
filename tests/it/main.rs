//! Integration tests: one binary, a module per subject.

mod tasks;
