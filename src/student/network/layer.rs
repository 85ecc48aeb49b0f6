//! A decoder layer's weights.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::NetworkError;
use super::linear::Linear;
use super::names::{Projection, norm};
use super::parameter::Parameter;
use crate::student::config::NetworkConfig;
use crate::student::ops::heads::HeadShape;

/// Whether the weights that are read shall train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseWeights {
    /// All train.
    Train,
    /// None does: what trains are adapters, or nothing.
    Frozen,
}

/// A decoder layer.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub input_norm: Parameter,
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    /// Norms of queries and keys, where the family has them.
    pub head_norms: Option<(Parameter, Parameter)>,
    pub output: Linear,
    pub inner_norm: Parameter,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
}

impl Layer {
    pub(crate) fn new(config: &NetworkConfig, index: usize, source: &mut Source) -> Result<Self, NetworkError> {
        let head_norms = if config.family.normalises_heads() {
            Some((source.take(&norm(index, "self_attn.q_norm"))?, source.take(&norm(index, "self_attn.k_norm"))?))
        } else {
            None
        };
        let mut linear = |projection: Projection| {
            let weight = source.take(&format!("{}.weight", projection.module(index)))?;
            Ok::<_, NetworkError>(Linear { weight, adapter: None })
        };
        Ok(Self {
            query: linear(Projection::Query)?,
            key: linear(Projection::Key)?,
            value: linear(Projection::Value)?,
            output: linear(Projection::Output)?,
            gate: linear(Projection::Gate)?,
            up: linear(Projection::Up)?,
            down: linear(Projection::Down)?,
            head_norms,
            input_norm: source.take(&norm(index, "input_layernorm"))?,
            inner_norm: source.take(&norm(index, "post_attention_layernorm"))?,
        })
    }

    pub(crate) fn projections(&self) -> [(Projection, &Linear); 7] {
        [
            (Projection::Query, &self.query),
            (Projection::Key, &self.key),
            (Projection::Value, &self.value),
            (Projection::Output, &self.output),
            (Projection::Gate, &self.gate),
            (Projection::Up, &self.up),
            (Projection::Down, &self.down),
        ]
    }

    pub(crate) fn projections_mut(&mut self) -> [(Projection, &mut Linear); 7] {
        [
            (Projection::Query, &mut self.query),
            (Projection::Key, &mut self.key),
            (Projection::Value, &mut self.value),
            (Projection::Output, &mut self.output),
            (Projection::Gate, &mut self.gate),
            (Projection::Up, &mut self.up),
            (Projection::Down, &mut self.down),
        ]
    }

    /// Every weight, adapters included.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let norms = [&self.input_norm, &self.inner_norm].into_iter();
        let head_norms = self.head_norms.iter().flat_map(|(queries, keys)| [queries, keys]);
        norms.chain(head_norms).chain(self.projections().into_iter().flat_map(|(_, linear)| linear.parameters()))
    }
}

/// The heads of every layer of a network.
pub(crate) fn head_shape(config: &NetworkConfig) -> HeadShape {
    HeadShape { heads: config.heads, kv_heads: config.kv_heads, head_dim: config.head_dim }
}

/// Tensors by name, taken out one by one.
pub(crate) struct Source {
    pub tensors: BTreeMap<String, Tensor>,
    pub base: BaseWeights,
}

impl Source {
    /// Takes a tensor whose shape was checked before.
    pub(crate) fn take(&mut self, name: &str) -> Result<Parameter, NetworkError> {
        let tensor = self.tensors.remove(name).ok_or_else(|| NetworkError::MissingTensor(name.to_owned()))?;
        Ok(match self.base {
            BaseWeights::Train => Parameter::trainable(name, &tensor)?,
            BaseWeights::Frozen => Parameter::frozen(name, &tensor.contiguous()?),
        })
    }
}
