//! The student's networks: Qwen3 and Llama decoders, for training and for generation.
//!
//! On the CPU in `f32` a network runs on kernels of our own ([`Kernels::Fused`]); on other devices and number types on
//! stock operations that candle differentiates ([`Kernels::Composed`]). Both give the same numbers up to rounding.
//! Neither builds a graph deeper than one layer: training runs on a thread of any stack.

mod adapters;
mod batch;
mod composed;
mod decode;
mod engine;
mod error;
mod fused;
mod layer;
mod linear;
mod names;
mod parameter;
mod training;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};

pub use adapters::{AdapterConfig, Scaling};
pub use batch::{PackedBatch, Targets};
pub use decode::RowCache;
pub use error::NetworkError;
pub use layer::BaseWeights;
pub use names::{Projection, weights};
pub(crate) use parameter::on_host;
pub use parameter::{Gradients, Parameter};
pub use training::{Checkpointing, TrainingPass};

use crate::student::config::NetworkConfig;
use crate::student::ops::workspace::Workspace;
use layer::{Layer, Source};
use names::{EMBEDDING, FINAL_NORM, HEAD};

/// Numbers of a weight that are hashed at once.
const HASHED_AT_ONCE: usize = 1 << 16;

/// What a network computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// Own kernels: CPU and `f32` only.
    Fused,
    /// Stock operations of candle: any device and number type.
    Composed,
}

/// A decoder and its weights.
#[derive(Debug)]
pub struct Network {
    config: NetworkConfig,
    embedding: Parameter,
    layers: Vec<Layer>,
    norm: Parameter,
    /// None where the embedding is the head.
    separate_head: Option<Parameter>,
    adapters: Option<AdapterConfig>,
    kernels: Kernels,
    workspace: Workspace,
}

impl Network {
    /// A network of `tensors`, named and shaped as [`weights`] says; all on one device and of one number type. A tied
    /// network's `lm_head.weight`, which some files repeat, is ignored.
    ///
    /// # Errors
    /// Names the first tensor that is missing, unknown or of another shape.
    pub fn new(config: NetworkConfig, mut tensors: BTreeMap<String, Tensor>, base: BaseWeights) -> Result<Self, NetworkError> {
        let config = config.checked()?;
        if config.tied {
            tensors.remove(HEAD);
        }
        for (name, expected) in weights(&config) {
            let tensor = tensors.get(&name).ok_or_else(|| NetworkError::MissingTensor(name.clone()))?;
            if tensor.dims() != expected {
                return Err(NetworkError::WrongShape { name, found: tensor.dims().to_vec(), expected });
            }
        }
        let mut source = Source { tensors, base };
        let layers = (0..config.layers).map(|index| Layer::new(&config, index, &mut source)).collect::<Result<_, _>>()?;
        let embedding = source.take(EMBEDDING)?;
        let norm = source.take(FINAL_NORM)?;
        let separate_head = if config.tied { None } else { Some(source.take(HEAD)?) };
        if let Some(name) = source.tensors.into_keys().next() {
            return Err(NetworkError::UnknownTensor(name));
        }
        let kernels = if embedding.tensor().device().is_cpu() && embedding.tensor().dtype() == DType::F32 {
            Kernels::Fused
        } else {
            Kernels::Composed
        };
        Ok(Self { config, embedding, layers, norm, separate_head, adapters: None, kernels, workspace: Workspace::default() })
    }

    /// The same network on stock operations, wherever it is.
    #[must_use]
    pub fn composed(mut self) -> Self {
        self.kernels = Kernels::Composed;
        self
    }

    /// Its shape.
    #[must_use]
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// What it computes with.
    #[must_use]
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Every weight, adapters included, sorted by name.
    #[must_use]
    pub fn parameters(&self) -> Vec<&Parameter> {
        let ends = [&self.embedding, &self.norm].into_iter().chain(&self.separate_head);
        let mut all: Vec<&Parameter> = ends.chain(self.layers.iter().flat_map(Layer::parameters)).collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// BLAKE3 over names, shapes and numbers of all weights, adapters included.
    ///
    /// # Errors
    /// Those of candle.
    pub fn weights_hash(&self) -> Result<blake3::Hash, NetworkError> {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Vec::new();
        for parameter in self.parameters() {
            let tensor = parameter.tensor().detach();
            hasher.update(format!("{} {:?}\n", parameter.name(), tensor.dims()).as_bytes());
            let flat = tensor.flatten_all()?.to_device(&Device::Cpu)?;
            // A piece at a time: the embedding alone may be gigabytes.
            for start in (0..flat.elem_count()).step_by(HASHED_AT_ONCE) {
                let piece = flat.narrow(0, start, HASHED_AT_ONCE.min(flat.elem_count() - start))?;
                bytes.clear();
                bytes.extend(piece.to_dtype(DType::F32)?.to_vec1::<f32>()?.iter().flat_map(|number| number.to_le_bytes()));
                hasher.update(&bytes);
            }
        }
        Ok(hasher.finalize())
    }

    /// The weights that train, sorted by name.
    #[must_use]
    pub fn trainable(&self) -> Vec<&Parameter> {
        self.parameters().into_iter().filter(|parameter| parameter.trains()).collect()
    }

    /// Zeros for the gradients of the weights that train.
    ///
    /// # Errors
    /// [`NetworkError::NothingTrains`] where none does.
    pub fn zero_gradients(&self) -> Result<Gradients, NetworkError> {
        Gradients::zeros(self.trainable())
    }

    fn head(&self) -> &Parameter {
        self.separate_head.as_ref().unwrap_or(&self.embedding)
    }

    fn check_tokens(&self, ids: &[u32]) -> Result<(), NetworkError> {
        let vocabulary = self.config.vocabulary;
        match ids.iter().find(|id| **id as usize >= vocabulary) {
            Some(token) => Err(NetworkError::Token { token: *token, vocabulary }),
            None => Ok(()),
        }
    }
}
