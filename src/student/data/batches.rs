//! Samples into batches of similar length, for training without packing.

use rand::seq::SliceRandom as _;

use crate::base::SeedTree;

/// Samples by number, in batches in which the longest sample times the number of samples is at most `tokens` (a longer sample is a
/// batch of its own). Samples of similar length stand together, so that little is padded; which ones, and the order of the batches, is
/// drawn from `seeds`. `width` is the step between lengths that count as equal.
#[must_use]
pub fn bucketed(lengths: &[usize], tokens: usize, width: usize, seeds: &SeedTree) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.shuffle(&mut seeds.child("samples").rng());
    order.sort_by_key(|index| lengths[*index].div_ceil(width.max(1)));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut longest = 0;
    for index in order {
        match batches.last_mut() {
            Some(batch) if longest.max(lengths[index]).saturating_mul(batch.len() + 1) <= tokens => {
                longest = longest.max(lengths[index]);
                batch.push(index);
            }
            _ => {
                longest = lengths[index];
                batches.push(vec![index]);
            }
        }
    }
    batches.shuffle(&mut seeds.child("batches").rng());
    batches
}
