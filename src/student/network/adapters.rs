//! Low-rank adapters beside a network's linear maps (LoRA; Hu et al. 2021).

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{DType, Tensor};
use rand::RngExt;

use super::linear::Adapter;
use super::parameter::Parameter;
use super::{Network, NetworkError, Projection};
use crate::base::SeedTree;

/// The shape of a network's adapters.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterConfig {
    /// Rows of A.
    pub rank: usize,
    /// What the adapter gives is multiplied by this and divided as `scaling` says.
    pub alpha: f64,
    /// Share of the adapter's input dropped while training, in `[0, 1)`.
    pub dropout: f64,
    /// How the factor follows from `alpha` and the rank.
    pub scaling: Scaling,
    /// The maps that have one, in every layer.
    pub targets: BTreeSet<Projection>,
}

/// How an adapter's factor follows from its rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// `alpha / rank`.
    Standard,
    /// `alpha / sqrt(rank)`, stable for large ranks (rsLoRA; Kalajdzievski 2023).
    RankStabilised,
}

impl AdapterConfig {
    /// What the adapter's result is multiplied by.
    #[must_use]
    pub fn scale(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rank is small")]
        let rank = self.rank as f64;
        match self.scaling {
            Scaling::Standard => self.alpha / rank,
            Scaling::RankStabilised => self.alpha / rank.sqrt(),
        }
    }

    fn check(&self) -> Result<(), NetworkError> {
        let refuse = |why: String| Err(NetworkError::Adapters(why));
        if self.rank == 0 || self.rank > 1 << 16 {
            return refuse(format!("rank {} is not between 1 and 65536", self.rank));
        }
        if !self.alpha.is_finite() || self.alpha <= 0.0 {
            return refuse(format!("alpha {} is not a positive number", self.alpha));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return refuse(format!("dropout {} is not in [0, 1)", self.dropout));
        }
        if self.targets.is_empty() {
            return refuse("no target is named".into());
        }
        Ok(())
    }
}

/// The names of an adapter's two weights: `MODULE.lora_A.weight`, `MODULE.lora_B.weight`.
pub(crate) fn factor_names(module: &str) -> (String, String) {
    (format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight"))
}

impl Network {
    /// The adapters' shape, if the network has any.
    #[must_use]
    pub fn adapters(&self) -> Option<&AdapterConfig> {
        self.adapters.as_ref()
    }

    /// Freezes the network and puts fresh adapters beside it: A uniform in `±1 / sqrt(in)` from `seed`, B zero, so that
    /// the network computes what it did.
    ///
    /// # Errors
    /// Where the configuration is out of range or the network has adapters already.
    pub fn with_adapters(self, config: &AdapterConfig, seed: &SeedTree) -> Result<Self, NetworkError> {
        let shape = self.config.clone();
        let like = self.embedding.tensor().clone();
        self.attach(config, |projection, module| {
            let (width_out, width_in) = projection.shape(&shape);
            #[expect(clippy::cast_precision_loss, reason = "a width is far below 2^24")]
            let bound = 1.0 / (width_in as f32).sqrt();
            let mut rng = seed.child(module).rng();
            let down: Vec<f32> = (0..config.rank * width_in).map(|_| rng.random_range(-bound..bound)).collect();
            let down = Tensor::from_vec(down, (config.rank, width_in), like.device())?.to_dtype(like.dtype())?;
            let up = Tensor::zeros((width_out, config.rank), like.dtype(), like.device())?;
            Ok((down, up))
        })
    }

    /// Freezes the network and puts adapters with given weights beside it; `factors` are named `MODULE.lora_A.weight`
    /// and `MODULE.lora_B.weight`.
    ///
    /// # Errors
    /// Names the factor that is missing, unknown or of another shape.
    pub fn with_adapter_weights(self, config: &AdapterConfig, mut factors: BTreeMap<String, Tensor>) -> Result<Self, NetworkError> {
        let shape = self.config.clone();
        let like = self.embedding.tensor().clone();
        let network = self.attach(config, |projection, module| {
            let (width_out, width_in) = projection.shape(&shape);
            let (down, up) = factor_names(module);
            let mut take = |name: String, expected: [usize; 2]| {
                let tensor = factors.remove(&name).ok_or_else(|| NetworkError::MissingTensor(name.clone()))?;
                if tensor.dims() != expected {
                    return Err(NetworkError::WrongShape { name, found: tensor.dims().to_vec(), expected: expected.to_vec() });
                }
                Ok(tensor.to_device(like.device())?.to_dtype(like.dtype())?)
            };
            Ok((take(down, [config.rank, width_in])?, take(up, [width_out, config.rank])?))
        })?;
        match factors.into_keys().next() {
            Some(name) => Err(NetworkError::UnknownTensor(name)),
            None => Ok(network),
        }
    }

    fn attach(
        mut self,
        config: &AdapterConfig,
        mut make: impl FnMut(Projection, &str) -> Result<(Tensor, Tensor), NetworkError>,
    ) -> Result<Self, NetworkError> {
        config.check()?;
        if self.adapters.is_some() {
            return Err(NetworkError::Adapters("the network has adapters already: merge them first".into()));
        }
        self = self.frozen();
        for (index, layer) in self.layers.iter_mut().enumerate() {
            for (projection, linear) in layer.projections_mut() {
                if !config.targets.contains(&projection) {
                    continue;
                }
                let module = projection.module(index);
                let (down, up) = make(projection, &module)?;
                let (down_name, up_name) = factor_names(&module);
                linear.adapter = Some(Adapter {
                    down: Parameter::trainable(down_name, &down)?,
                    up: Parameter::trainable(up_name, &up)?,
                    scale: config.scale(),
                    dropout: config.dropout,
                });
            }
        }
        self.adapters = Some(config.clone());
        Ok(self)
    }

    /// The same network with every weight frozen.
    #[must_use]
    pub fn frozen(mut self) -> Self {
        self.embedding = self.embedding.into_frozen();
        self.norm = self.norm.into_frozen();
        self.separate_head = self.separate_head.map(Parameter::into_frozen);
        for layer in &mut self.layers {
            for weight in [&mut layer.input_norm, &mut layer.inner_norm] {
                *weight = weight.clone().into_frozen();
            }
            if let Some((queries, keys)) = &mut layer.head_norms {
                *queries = queries.clone().into_frozen();
                *keys = keys.clone().into_frozen();
            }
            for (_, linear) in layer.projections_mut() {
                linear.weight = linear.weight.clone().into_frozen();
                if let Some(adapter) = &mut linear.adapter {
                    adapter.down = adapter.down.clone().into_frozen();
                    adapter.up = adapter.up.clone().into_frozen();
                }
            }
        }
        self
    }

    /// The weights of the network with its adapters' shares added to them, by name.
    ///
    /// # Errors
    /// Those of candle.
    pub fn merged_weights(&self) -> Result<BTreeMap<String, Tensor>, NetworkError> {
        let mut merged: BTreeMap<String, Tensor> = BTreeMap::new();
        for parameter in self.parameters() {
            if !parameter.name().contains(".lora_") {
                merged.insert(parameter.name().to_owned(), parameter.tensor().detach());
            }
        }
        for (_, linear) in self.layers.iter().flat_map(|layer| layer.projections()) {
            if linear.adapter.is_some() {
                merged.insert(linear.weight.name().to_owned(), linear.merged()?);
            }
        }
        Ok(merged)
    }

    /// The adapters' weights in `f32`, by name.
    ///
    /// # Errors
    /// [`NetworkError::Adapters`] where the network has none.
    pub fn adapter_weights(&self) -> Result<BTreeMap<String, Tensor>, NetworkError> {
        if self.adapters.is_none() {
            return Err(NetworkError::Adapters("the network has none".into()));
        }
        let adapters = self.layers.iter().flat_map(|layer| layer.projections()).filter_map(|(_, linear)| linear.adapter.as_ref());
        let factors = adapters.flat_map(|adapter| [&adapter.down, &adapter.up]);
        factors.map(|factor| Ok((factor.name().to_owned(), factor.tensor().detach().to_dtype(DType::F32)?))).collect()
    }
}
