//! What can be wrong with training data.

use std::path::PathBuf;

use super::DatasetReport;

/// Data that cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The settings contradict each other.
    #[error("the data settings: {0}")]
    Config(String),
    /// There is nothing to learn.
    #[error("there is nothing to train on: no sample of the part for training has a reply to learn\n{report}")]
    NothingToTrain {
        /// What became of the episodes.
        report: Box<DatasetReport>,
    },
    /// A line of an export is not one.
    #[error("line {line} is not of an openai-jsonl export: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("the data set {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a data set, or a damaged one.
    #[error("the data set {path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The data set was made with another tokenizer.
    #[error("the data set was made with the tokenizer {made}, the model has {model}: make it again with this model's tokenizer")]
    OtherTokenizer {
        /// Hash in the file.
        made: String,
        /// Hash of the model's tokenizer.
        model: String,
    },
    /// A sample does not fit a row.
    #[error("a sample of {tokens} tokens does not fit a row of {row}")]
    Row {
        /// Length of the sample.
        tokens: usize,
        /// Length of the row.
        row: usize,
    },
}
