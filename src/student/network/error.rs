//! What can be wrong with a network or what it is given.

use thiserror::Error;

use crate::student::config::ConfigError;

/// Why a network cannot be made or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The sizes do not fit together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A weight is absent.
    #[error("the weights have no tensor `{0}`")]
    MissingTensor(String),
    /// A weight has another shape than the configuration says.
    #[error("tensor `{name}` has shape {found:?}, the configuration says {expected:?}")]
    WrongShape {
        /// Its name.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// The weights hold something the configuration does not know.
    #[error("the weights hold `{0}`, which this configuration has no place for")]
    UnknownTensor(String),
    /// A batch that is not well formed.
    #[error("batch: {0}")]
    Batch(String),
    /// A token outside the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The token.
        token: u32,
        /// Tokens the network has.
        vocabulary: usize,
    },
    /// A variable that trains but was not reached by the backward: the network is wired wrongly.
    #[error("`{0}` trains but received no gradient")]
    NoGradient(String),
    /// No weight is to train.
    #[error("nothing trains: every weight is frozen and there is no adapter")]
    NothingTrains,
    /// The network has adapters already, or lacks the ones asked for.
    #[error("adapters: {0}")]
    Adapters(String),
    /// candle refused.
    #[error("{0}")]
    Tensor(#[from] candle_core::Error),
}
