//! Integration tests: one binary, a module per subject.

mod cli;
mod endpoints;
mod episodes;
mod hostile;
mod mock_llm;
mod session;
mod tasks;
