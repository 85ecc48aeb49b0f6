//! Dropout whose mask is a function of a seed and the element's index: drawn again for the backward, never kept.

use rayon::prelude::*;

/// Elements of one parallel task.
const TASK: usize = 1 << 14;

/// What is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dropout {
    /// Share of elements set to zero, in `[0, 1)`.
    pub rate: f64,
    /// A node of the seed tree, as a number.
    pub seed: u64,
}

impl Dropout {
    /// The factor of element `index`: zero, or what keeps the mean.
    #[inline(always)]
    fn factor(self, index: usize) -> f32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32, rounded")]
        let dropped = (self.rate * 4_294_967_296.0) as u64;
        #[expect(clippy::cast_possible_truncation, reason = "single precision is what it multiplies")]
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        if scrambled(self.seed, index as u64) >> 32 < dropped { 0.0 } else { kept }
    }

    /// Multiplies each element by its factor.
    pub(crate) fn apply(self, data: &mut [f32]) {
        data.par_chunks_mut(TASK).enumerate().for_each(|(task, data)| {
            for (i, x) in data.iter_mut().enumerate() {
                *x *= self.factor(task * TASK + i);
            }
        });
    }

    /// The factors of `length` elements.
    pub(crate) fn factors(self, length: usize) -> Vec<f32> {
        (0..length).map(|index| self.factor(index)).collect()
    }
}

/// The output function of SplitMix64 (Steele et al. 2014) at place `index` of the stream `seed`.
#[inline(always)]
fn scrambled(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_dropped_and_the_mean_kept() {
        let length = 100_000;
        let dropout = Dropout { rate: 0.1, seed: 7 };
        let factors = dropout.factors(length);
        let dropped = factors.iter().filter(|x| **x == 0.0).count();
        // Five standard deviations of a binomial of 100,000 at 0.1: 474.
        assert!(dropped.abs_diff(10_000) < 474, "{dropped}");
        assert!(factors.iter().all(|x| *x == 0.0 || (*x - 1.0 / 0.9).abs() < 1e-6));
        let mut data = vec![1.0; length];
        dropout.apply(&mut data);
        assert_eq!(data, factors);
        assert_ne!(Dropout { rate: 0.1, seed: 8 }.factors(length), factors);
    }

    #[test]
    fn the_stream_is_that_of_the_paper() {
        // The first outputs of SplitMix64 from seed 1234567, as published with its reference implementation.
        assert_eq!(scrambled(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(scrambled(1_234_567, 1), 3_203_168_211_198_807_973);
    }
}
