//! Random weights from the seed tree.

use candle_core::{Device, Tensor};
use rand::{Rng, RngExt};

use super::{Weights, WeightsError};
use crate::base::SeedTree;
use crate::student::config::NetworkConfig;
use crate::student::network;

/// Standard deviation of the weights, as the families' own initialisation has it.
const DEVIATION: f32 = 0.02;

/// Weights to train from nothing, in `f32`: norms one, the rest normal with deviation 0.02, where the maps that write to
/// the residual stream are divided by `sqrt(2 * layers)` (Radford et al. 2019). Each depends on its name and `seed` only.
///
/// # Errors
/// Those of candle.
pub fn random(config: &NetworkConfig, seed: &SeedTree, device: &Device) -> Result<Weights, WeightsError> {
    #[expect(clippy::cast_precision_loss, reason = "layers are few")]
    let shrink = 1.0 / (2.0 * config.layers as f32).sqrt();
    let mut tensors = std::collections::BTreeMap::new();
    for (name, shape) in network::weights(config) {
        let count = shape.iter().product();
        let numbers = if name.contains("norm") {
            vec![1.0; count]
        } else {
            let writes = name.contains(".o_proj.") || name.contains(".down_proj.");
            normal(&mut seed.child(&name).rng(), count, if writes { DEVIATION * shrink } else { DEVIATION })
        };
        tensors.insert(name, Tensor::from_vec(numbers, shape, device)?);
    }
    Ok(Weights { config: config.clone(), tensors })
}

/// Normal numbers by the transform of Box and Muller.
fn normal(rng: &mut impl Rng, count: usize, deviation: f32) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count + 1);
    while numbers.len() < count {
        // In (0, 1]: the logarithm is finite.
        let radius = (-2.0 * (1.0 - rng.random::<f32>()).ln()).sqrt() * deviation;
        let (sine, cosine) = (std::f32::consts::TAU * rng.random::<f32>()).sin_cos();
        numbers.extend([radius * cosine, radius * sine]);
    }
    numbers.truncate(count);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_normal() {
        let count = 100_001;
        let numbers = normal(&mut SeedTree::new(1).rng(), count, 2.0);
        assert_eq!(numbers.len(), count);
        let n = 100_001.0;
        let mean = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let variance = numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n;
        // Five standard errors: 2 / sqrt(n) and 4 * sqrt(2 / n).
        assert!(mean.abs() < 0.032 && (variance - 4.0).abs() < 0.09, "{mean} {variance}");
        let beyond = numbers.iter().filter(|x| x.abs() > 4.0).count();
        // 4.55 % lie beyond two deviations; five standard deviations of the count are 330.
        assert!(beyond.abs_diff(4550) < 330, "{beyond}");
    }

    #[test]
    fn weights_depend_on_seed_and_name_only() {
        let config = NetworkConfig::nano(64, 0).unwrap();
        let mut shorter = config.clone();
        shorter.layers = 2;
        let numbers = |config: &NetworkConfig, seed: u64, name: &str| {
            random(config, &SeedTree::new(seed), &Device::Cpu).unwrap().tensors[name].flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        let name = "model.layers.1.self_attn.q_proj.weight";
        assert_eq!(numbers(&config, 1, name), numbers(&shorter, 1, name));
        assert_ne!(numbers(&config, 1, name), numbers(&config, 2, name));
        assert!(numbers(&config, 1, "model.layers.0.self_attn.k_norm.weight").iter().all(|x| *x == 1.0));
    }
}
