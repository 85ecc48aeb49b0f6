//! What can be wrong with a file of weights.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::student::config::ConfigError;

/// Why weights cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not what its name says.
    #[error("{path}: damaged or foreign file: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A tensor within a file that cannot be used.
    #[error("{path}: tensor `{name}`: {why}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A sound file of a model that is not supported.
    #[error("{path}: not supported: {why}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not.
        why: String,
    },
    /// A `config.json` that cannot be used.
    #[error("{path}: {source}")]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ConfigError,
    },
    /// candle refused.
    #[error("{0}")]
    Candle(#[from] candle_core::Error),
}

impl WeightsError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn damaged(path: &Path, why: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), why: why.to_string() }
    }

    pub(crate) fn tensor(path: &Path, name: &str, why: impl ToString) -> Self {
        Self::Tensor { path: path.to_owned(), name: name.to_owned(), why: why.to_string() }
    }

    pub(crate) fn unsupported(path: &Path, why: impl ToString) -> Self {
        Self::Unsupported { path: path.to_owned(), why: why.to_string() }
    }
}
