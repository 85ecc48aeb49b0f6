//! Integration tests: one binary, a module per subject.

mod endpoints;
mod episodes;
mod mock_llm;
mod tasks;
