//! Trajectories out, one file per format. Only what is verified leaves: solved episodes, never of sealed tasks.

mod openai_jsonl;
mod row;
#[cfg(test)]
mod tests;

pub use openai_jsonl::{OPENAI_JSONL_FORMAT, openai_jsonl, write_openai_jsonl};
pub use row::{ExportError, PathStep, Row, Summary};
