//! What the tests of the operations share: numbers, gradients by candle, gradients by differences.

use candle_core::{Device, Result, Tensor, Var};
use rand::RngExt;

use crate::base::SeedTree;

/// Numbers in `[-1, 1)`.
pub(crate) fn random(seed: u64, length: usize) -> Vec<f32> {
    let mut rng = SeedTree::new(seed).rng();
    (0..length).map(|_| rng.random_range(-1.0..1.0)).collect()
}

/// The result of `run` and the gradients of its inputs under the gradient `dy` of the result, by candle.
pub(crate) fn gradients(inputs: &[(&[f32], &[usize])], dy: &[f32], run: impl Fn(&[Tensor]) -> Result<Tensor>) -> (Vec<f32>, Vec<Vec<f32>>) {
    let inputs: Vec<Var> = inputs.iter().map(|(data, shape)| Var::from_slice(data, *shape, &Device::Cpu).unwrap()).collect();
    let tensors: Vec<Tensor> = inputs.iter().map(|var| var.as_tensor().clone()).collect();
    let y = run(&tensors).unwrap().contiguous().unwrap();
    let weighted = (&y * Tensor::from_slice(dy, y.shape(), &Device::Cpu).unwrap()).unwrap();
    let grads = weighted.sum_all().unwrap().backward().unwrap();
    let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    (flat(&y), inputs.iter().map(|var| flat(grads.get(var).unwrap())).collect())
}

/// The gradient of `sum(dy * run(x))` by central differences.
pub(crate) fn slopes(x: &[f32], dy: &[f32], run: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
    const STEP: f32 = 1e-2;
    let value = |x: &[f32]| run(x).iter().zip(dy).map(|(y, dy)| f64::from(*y) * f64::from(*dy)).sum::<f64>();
    let mut moved = x.to_vec();
    (0..x.len())
        .map(|i| {
            moved[i] = x[i] + STEP;
            let above = value(&moved);
            moved[i] = x[i] - STEP;
            let below = value(&moved);
            moved[i] = x[i];
            #[expect(clippy::cast_possible_truncation, reason = "compared at single precision")]
            let slope = ((above - below) / (2.0 * f64::from(STEP))) as f32;
            slope
        })
        .collect()
}

/// Asserts that two lists differ by at most `tolerance`, relative to the largest element.
pub(crate) fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let scale = expected.iter().fold(1e-6_f32, |most, x| most.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * scale, "{what}: element {i} is {a}, expected {b} (scale {scale})");
    }
}
