//! What stops a training run.

use std::path::{Path, PathBuf};

use crate::student::data::DataError;
use crate::student::network::NetworkError;
use crate::student::optimizer::OptimizerError;
use crate::student::weights::WeightsError;

/// Training that cannot go on. What was saved before stays.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file of tensors.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The optimiser.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// candle refused.
    #[error("{0}")]
    Tensor(#[from] candle_core::Error),
    /// The loss is no number any more.
    #[error(
        "step {step}: the loss is not finite; the checkpoint of step {kept} is the last good state. Lower `train.learning_rate` or `train.clip`, or look at the data of that step"
    )]
    Diverged {
        /// The step, from 0.
        step: u64,
        /// The last saved step.
        kept: u64,
    },
    /// There are fewer rows than one step takes.
    #[error(
        "the data fill {rows} rows and a step takes {per_step}: lower `train.rows`, shorten `train.row_length`, or bring more episodes"
    )]
    TooFewRows {
        /// Rows there are.
        rows: usize,
        /// Rows of a step.
        per_step: usize,
    },
    /// A checkpoint is of another run.
    #[error("{}: the checkpoint belongs to another recipe, other data or another start; train into another folder", path.display())]
    OtherRun {
        /// The checkpoint.
        path: PathBuf,
    },
    /// A file of a checkpoint is damaged or foreign.
    #[error("{}: {reason}; remove this checkpoint to go on from the one before", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl TrainingError {
    pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }

    pub(super) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }
}
