//! Names and shapes of a decoder's weights, as Hugging Face lays them out.

use crate::student::config::NetworkConfig;

/// The embedding, which is also the head where the two are tied.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
/// The norm after the last layer.
pub(crate) const FINAL_NORM: &str = "model.norm.weight";
/// The head, where it is not the embedding.
pub(crate) const HEAD: &str = "lm_head.weight";

/// The linear maps of a layer; an adapter may stand beside each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Projection {
    /// `q_proj`
    Query,
    /// `k_proj`
    Key,
    /// `v_proj`
    Value,
    /// `o_proj`
    Output,
    /// `gate_proj`
    Gate,
    /// `up_proj`
    Up,
    /// `down_proj`
    Down,
}

impl Projection {
    /// All of a layer.
    pub const ALL: [Self; 7] = [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// The last part of the module's name, as adapters name their targets.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::Output => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// The projection of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|projection| projection.name() == name)
    }

    /// The module's full name in layer `layer`.
    #[must_use]
    pub fn module(self, layer: usize) -> String {
        let block = match self {
            Self::Query | Self::Key | Self::Value | Self::Output => "self_attn",
            Self::Gate | Self::Up | Self::Down => "mlp",
        };
        format!("model.layers.{layer}.{block}.{}", self.name())
    }

    /// `(out, in)`.
    #[must_use]
    pub fn shape(self, config: &NetworkConfig) -> (usize, usize) {
        let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        match self {
            Self::Query => (queries, config.hidden),
            Self::Key | Self::Value => (keys, config.hidden),
            Self::Output => (config.hidden, queries),
            Self::Gate | Self::Up => (config.intermediate, config.hidden),
            Self::Down => (config.hidden, config.intermediate),
        }
    }
}

/// The name of a layer's norm: `input_layernorm`, `post_attention_layernorm`, `self_attn.q_norm`, `self_attn.k_norm`.
pub(crate) fn norm(layer: usize, which: &str) -> String {
    format!("model.layers.{layer}.{which}.weight")
}

/// Name and shape of every weight of a decoder, sorted by name.
#[must_use]
pub fn weights(config: &NetworkConfig) -> Vec<(String, Vec<usize>)> {
    let mut found = vec![(EMBEDDING.to_owned(), vec![config.vocabulary, config.hidden]), (FINAL_NORM.to_owned(), vec![config.hidden])];
    if !config.tied {
        found.push((HEAD.to_owned(), vec![config.vocabulary, config.hidden]));
    }
    for layer in 0..config.layers {
        for projection in Projection::ALL {
            let (width_out, width_in) = projection.shape(config);
            found.push((format!("{}.weight", projection.module(layer)), vec![width_out, width_in]));
        }
        for which in ["input_layernorm", "post_attention_layernorm"] {
            found.push((norm(layer, which), vec![config.hidden]));
        }
        if config.family.normalises_heads() {
            for which in ["self_attn.q_norm", "self_attn.k_norm"] {
                found.push((norm(layer, which), vec![config.head_dim]));
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_are_as_many_numbers_as_the_configuration_counts() {
        let mut config = NetworkConfig::nano(1000, 0).unwrap();
        for tied in [true, false] {
            config.tied = tied;
            let counted: usize = weights(&config).iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
            assert_eq!(counted, config.parameters());
        }
    }
}
