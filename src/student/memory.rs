//! What training and generation hold in memory, reckoned from the shape alone.
//!
//! The sums follow what the layers allocate: on the CPU in single precision the buffers of the fused kernels, elsewhere every tensor
//! of the composed operations, which candle keeps until a layer's backward is done.

use super::config::NetworkConfig;
use super::network::{AdapterConfig, Checkpointing, Kernels, Projection, weights};
use super::ops::cross_entropy::chunk_rows;

/// Rows are as long as a multiple of this many tokens.
const GRAIN: usize = 64;
/// Tensors of the size of a weight that a step of the optimiser makes beside its state.
const STEP_COPIES: u64 = 4;

/// Bytes of a number of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Four bytes.
    Single,
    /// Two bytes (bfloat16); gradients and the optimiser's state are single all the same.
    Half,
}

impl Numbers {
    const fn bytes(self) -> u64 {
        match self {
            Self::Single => 4,
            Self::Half => 2,
        }
    }
}

/// How a network is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSetup {
    /// What it computes with.
    pub kernels: Kernels,
    /// The weights' numbers.
    pub numbers: Numbers,
    /// Low-rank adapters; none trains every weight.
    pub adapters: Option<AdapterConfig>,
    /// What is kept for the backward pass.
    pub checkpointing: Checkpointing,
    /// Rows that go through the network at a time.
    pub rows: usize,
}

/// Bytes that training holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrainingMemory {
    /// Weights, adapters included.
    pub weights: u64,
    /// Gradients of what trains.
    pub gradients: u64,
    /// The optimiser's moments, and single copies of half weights.
    pub optimizer: u64,
    /// The highest of a pass forwards and backwards.
    pub pass: u64,
    /// The highest of the optimiser's step, which comes after the pass.
    pub step: u64,
}

impl TrainingMemory {
    /// The highest at any time.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        let temporary = if self.pass > self.step { self.pass } else { self.step };
        self.weights + self.gradients + self.optimizer + temporary
    }
}

/// Numbers of the weights of a network of shape `config`, without adapters.
#[must_use]
pub fn parameters(config: &NetworkConfig) -> u64 {
    weights(config).iter().map(|(_, dims)| product(dims)).sum()
}

/// What training holds with rows of `length` tokens.
#[must_use]
pub fn training_memory(config: &NetworkConfig, setup: &TrainingSetup, length: usize) -> TrainingMemory {
    let base = parameters(config);
    let trained = setup.adapters.as_ref().map_or(base, |adapters| factors(config, adapters).iter().sum());
    let largest = match &setup.adapters {
        Some(adapters) => factors(config, adapters).into_iter().max(),
        None => weights(config).iter().map(|(_, dims)| product(dims)).max(),
    };
    let held = if setup.adapters.is_some() { base + trained } else { base };
    let (bytes, fused) = (setup.numbers.bytes(), setup.kernels == Kernels::Fused);
    let master = if setup.numbers == Numbers::Half { 4 } else { 0 };
    TrainingMemory {
        weights: held * bytes,
        gradients: trained * 4,
        optimizer: trained * (8 + master),
        pass: if fused { fused_pass(config, setup, length) } else { composed_pass(config, setup, length) },
        step: if fused { 0 } else { STEP_COPIES * 4 * largest.unwrap_or(0) },
    }
}

/// The longest rows that train within `budget` bytes, up to the network's positions; none where not even short ones do.
#[must_use]
pub fn longest_row(config: &NetworkConfig, setup: &TrainingSetup, budget: u64) -> Option<usize> {
    let fits = |grains: usize| training_memory(config, setup, grains * GRAIN).peak() <= budget;
    let (mut low, mut high) = (0, config.max_positions / GRAIN);
    // More tokens never take less.
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    (low > 0).then_some(low * GRAIN)
}

/// What a network and `tokens` kept tokens hold in generation.
#[must_use]
pub fn generation_memory(config: &NetworkConfig, numbers: Numbers, tokens: usize) -> u64 {
    let cache = 2 * (config.layers * config.kv_heads * config.head_dim) as u64;
    numbers.bytes() * (parameters(config) + cache * tokens as u64)
}

fn product(dims: &[usize]) -> u64 {
    dims.iter().map(|size| *size as u64).product()
}

/// Numbers of every factor of the adapters.
fn factors(config: &NetworkConfig, adapters: &AdapterConfig) -> Vec<u64> {
    let of = |projection: &Projection| {
        let (outputs, inputs) = projection.shape(config);
        [(adapters.rank * inputs) as u64, (adapters.rank * outputs) as u64]
    };
    let layer: Vec<u64> = adapters.targets.iter().flat_map(of).collect();
    layer.repeat(config.layers)
}

/// Widths of a layer, in numbers a token.
struct Widths {
    hidden: u64,
    queries: u64,
    keys: u64,
    unit: u64,
    heads: u64,
}

impl Widths {
    fn of(config: &NetworkConfig) -> Self {
        Self {
            hidden: config.hidden as u64,
            queries: (config.heads * config.head_dim) as u64,
            keys: (config.kv_heads * config.head_dim) as u64,
            unit: config.intermediate as u64,
            heads: config.heads as u64,
        }
    }
}

fn fused_pass(config: &NetworkConfig, setup: &TrainingSetup, length: usize) -> u64 {
    let Widths { hidden, queries, keys, unit, heads } = Widths::of(config);
    let tokens = (setup.rows * length) as u64;
    let reduced = setup.adapters.as_ref().map_or(0, |adapters| (adapters.rank * adapters.targets.len()) as u64);
    // Input, two norms and the middle; raw and rotated projections; the context; gates, their product.
    let tape = 4 * hidden + (queries + 2 * keys) + (queries + keys) + queries + heads + 3 * unit + reduced;
    // The gradient that goes down, and the widest half of a layer's backward.
    let backward = 2 * hidden + unit.max(3 * queries + 4 * keys);
    let layers = config.layers as u64;
    let kept = match setup.checkpointing {
        Checkpointing::Off => layers * tape,
        Checkpointing::EveryLayer => layers * hidden + tape,
    };
    let chunk = (chunk_rows(config.vocabulary) * config.vocabulary) as u64;
    // The head's input, its norm, and the gradients of both.
    let head = 4 * hidden * tokens + chunk;
    4 * (tokens * (kept + hidden) + (tokens * backward).max(head))
}

fn composed_pass(config: &NetworkConfig, setup: &TrainingSetup, length: usize) -> u64 {
    let Widths { hidden, queries, keys, unit, heads } = Widths::of(config);
    let (tokens, bytes) = ((setup.rows * length) as u64, setup.numbers.bytes());
    // A norm keeps the square, the quotient and the product; from half numbers also both conversions.
    let (norm, scores) = match setup.numbers {
        Numbers::Single => (12, 24),
        Numbers::Half => (16, 28),
    };
    let adapted = setup.adapters.as_ref().map_or(0, |adapters| {
        let outputs = adapters.targets.iter().map(|projection| projection.shape(config).0 as u64 * 3 + adapters.rank as u64);
        outputs.sum::<u64>()
    });
    let graph = 2 * norm * hidden
        + bytes * (4 * hidden + (queries + 2 * keys) + 5 * queries + 4 * unit + adapted)
        + (norm + 4 * bytes) * (queries + keys)
        + scores * heads * length as u64;
    // Four matrices of scores are live at once in the backward of the softmax.
    let backward = 16 * heads * length as u64 + 4 * bytes * hidden;
    let layers = config.layers as u64;
    let kept = match setup.checkpointing {
        Checkpointing::Off => layers * graph,
        Checkpointing::EveryLayer => layers * bytes * hidden + graph,
    };
    let mask = 4 * tokens * length as u64;
    let chunk = (chunk_rows(config.vocabulary) * config.vocabulary) as u64 * (bytes + 20);
    // The gradient of the head or the embedding, and the sum it is added to.
    let matrices = if setup.adapters.is_some() { 0 } else { 8 * (config.vocabulary as u64) * hidden };
    mask + tokens * (kept + bytes * hidden) + (tokens * backward).max(chunk + matrices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::config::Family;
    use crate::student::network::Scaling;

    /// Qwen3-4B-Instruct-2507.
    fn four_billion() -> NetworkConfig {
        NetworkConfig {
            family: Family::Qwen3,
            vocabulary: 151_936,
            hidden: 2560,
            intermediate: 9728,
            layers: 36,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            norm_epsilon: 1e-6,
            rope_theta: 5e6,
            max_positions: 262_144,
            tied: true,
            eos: vec![151_645],
            bos: None,
        }
    }

    fn setup(adapters: bool, checkpointing: Checkpointing) -> TrainingSetup {
        let targets = Projection::ALL.into_iter().collect();
        let adapters = adapters.then_some(AdapterConfig { rank: 16, alpha: 32.0, dropout: 0.0, scaling: Scaling::Standard, targets });
        TrainingSetup { kernels: Kernels::Composed, numbers: Numbers::Half, adapters, checkpointing, rows: 1 }
    }

    #[test]
    fn weights_gradients_and_moments_of_a_known_model() {
        let config = four_billion();
        // 151,936 x 2,560 + 36 x (2 x 2,560 x 4,096 + 2 x 2,560 x 1,024 + 3 x 2,560 x 9,728 + 2 x 2,560 + 2 x 128) + 2,560: the model
        // card's 4.0 B.
        assert_eq!(parameters(&config), 4_022_468_096);
        let full = training_memory(&config, &setup(false, Checkpointing::EveryLayer), 1024);
        assert_eq!((full.weights, full.gradients, full.optimizer), (8_044_936_192, 16_089_872_384, 48_269_617_152));
        // Rank 16 of all seven maps: 36 x 16 x (2 x (2,560 + 4,096) + 2 x (2,560 + 1,024) + 3 x (2,560 + 9,728)).
        let adapted = training_memory(&config, &setup(true, Checkpointing::EveryLayer), 1024);
        assert_eq!(adapted.gradients, 4 * 33_030_144);
        assert_eq!(adapted.weights - full.weights, 2 * 33_030_144);
        // The cache of a token: 2 x 36 x 8 x 128 halves.
        assert_eq!(generation_memory(&config, Numbers::Half, 1) - full.weights, 147_456);
    }

    #[test]
    fn what_fits_is_what_the_sum_allows() {
        let config = four_billion();
        let budget = 24 << 30;
        assert_eq!(longest_row(&config, &setup(false, Checkpointing::EveryLayer), budget), None);
        for checkpointing in [Checkpointing::Off, Checkpointing::EveryLayer] {
            let setup = setup(true, checkpointing);
            let longest = longest_row(&config, &setup, budget).unwrap();
            assert!(training_memory(&config, &setup, longest).peak() <= budget);
            assert!(training_memory(&config, &setup, longest + GRAIN).peak() > budget);
        }
        let kept = |checkpointing| longest_row(&config, &setup(true, checkpointing), budget).unwrap();
        assert!(kept(Checkpointing::EveryLayer) > 2 * kept(Checkpointing::Off));
    }

    #[test]
    fn recomputing_makes_depth_cost_its_inputs_only() {
        let deep = |layers: usize| NetworkConfig { layers, ..four_billion() };
        for kernels in [Kernels::Fused, Kernels::Composed] {
            let pass = |layers: usize| {
                let setup = TrainingSetup { kernels, ..setup(true, Checkpointing::EveryLayer) };
                training_memory(&deep(layers), &setup, 512).pass
            };
            let bytes = if kernels == Kernels::Fused { 4 } else { 2 };
            assert_eq!(pass(16) - pass(8), 8 * 512 * 2560 * bytes);
        }
    }
}
