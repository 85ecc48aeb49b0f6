//! Where a network's weights come from and go to.

mod error;
mod gguf;
mod hugging_face;
mod random;
mod safetensors;

pub use error::WeightsError;
pub use gguf::load_gguf;
pub use hugging_face::{load, save};
pub use random::random;
pub(crate) use safetensors::{read_tensors, write_tensors, write_text};

use std::collections::BTreeMap;

use candle_core::Tensor;

use crate::student::config::NetworkConfig;

/// A network's shape and its weights by name.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The shape.
    pub config: NetworkConfig,
    /// The weights, named as Hugging Face names them.
    pub tensors: BTreeMap<String, Tensor>,
}
