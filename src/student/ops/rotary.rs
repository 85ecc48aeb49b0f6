//! Rotary position embedding (Su et al. 2021), halves rotated against each other as Hugging Face's models do.

use candle_core::{D, Device, Result, Tensor};
use rayon::prelude::*;

use super::ROWS_PER_TASK;

/// Cosines and sines for the tokens of a batch: `(tokens, head_dim / 2)` each.
#[derive(Debug, Clone)]
pub(crate) struct RotaryTable {
    half: usize,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl RotaryTable {
    /// The table for tokens at `positions`; `theta` is the base of the wavelengths. Angles are rounded to `f32` as the
    /// reference implementation rounds them, so that long contexts agree with it.
    pub(crate) fn new(positions: &[u32], head_dim: usize, theta: f64) -> Self {
        let half = head_dim / 2;
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "frequencies are f32 by definition")]
        let frequencies: Vec<f32> = (0..half).map(|i| theta.powf(-(i as f64) / half as f64) as f32).collect();
        let mut cosines = vec![0.0; positions.len() * half];
        let mut sines = vec![0.0; positions.len() * half];
        let task = half.max(1);
        cosines.par_chunks_mut(task).zip(sines.par_chunks_mut(task)).zip(positions).with_min_len(ROWS_PER_TASK).for_each(
            |((cosines, sines), position)| {
                for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(&frequencies) {
                    #[expect(clippy::cast_precision_loss, reason = "positions are far below 2^24")]
                    let angle = *position as f32 * frequency;
                    (*sine, *cosine) = angle.sin_cos();
                }
            },
        );
        Self { half, cosines, sines }
    }

    /// Cosines and sines of one token.
    #[inline(always)]
    pub(crate) fn token(&self, token: usize) -> (&[f32], &[f32]) {
        let range = token * self.half..(token + 1) * self.half;
        (&self.cosines[range.clone()], &self.sines[range])
    }

    /// The table as tensors `(tokens, half)`.
    ///
    /// # Errors
    /// Those of candle.
    pub(crate) fn tensors(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        let shape = (self.cosines.len() / self.half.max(1), self.half);
        Ok((Tensor::from_slice(&self.cosines, shape, device)?, Tensor::from_slice(&self.sines, shape, device)?))
    }
}

/// Rotates one head of one token in place.
#[inline(always)]
pub(crate) fn rotate(x: &mut [f32], (cosines, sines): (&[f32], &[f32])) {
    let (first, second) = x.split_at_mut(cosines.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}

/// The gradient of [`rotate`]: the rotation by the opposite angle.
#[inline(always)]
pub(crate) fn rotate_back(x: &mut [f32], (cosines, sines): (&[f32], &[f32])) {
    let (first, second) = x.split_at_mut(cosines.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
        (*a, *b) = (*a * c + *b * s, *b * c - *a * s);
    }
}

/// The rotation of `x` of shape `(tokens, heads, head_dim)`, of stock operations; `table` as [`RotaryTable::tensors`].
///
/// # Errors
/// Those of candle.
pub(crate) fn composed(x: &Tensor, (cosines, sines): &(Tensor, Tensor)) -> Result<Tensor> {
    let half = x.dim(D::Minus1)? / 2;
    let (cosines, sines) = (cosines.to_dtype(x.dtype())?.unsqueeze(1)?, sines.to_dtype(x.dtype())?.unsqueeze(1)?);
    let (first, second) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let turned_first = (first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?;
    let turned_second = (second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?;
    Tensor::cat(&[turned_first, turned_second], D::Minus1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::ops::testing::{assert_close, gradients, random};

    #[test]
    fn a_quarter_turn_by_hand() {
        // theta^0 = 1: the first pair turns by the position itself.
        let table = RotaryTable::new(&[0, 1], 4, 10_000.0);
        let mut x = [1.0, 0.0, 0.0, 1.0];
        rotate(&mut x, table.token(0));
        assert_eq!(x, [1.0, 0.0, 0.0, 1.0]);
        rotate(&mut x, table.token(1));
        // cos 1, -sin 0.01, sin 1, cos 0.01.
        assert_close("turned", &x, &[0.540_302_3, -0.009_999_83, 0.841_471, 0.999_95], 1e-6);
        rotate_back(&mut x, table.token(1));
        assert_close("turned back", &x, &[1.0, 0.0, 0.0, 1.0], 1e-6);
    }

    #[test]
    fn forward_and_backward_are_those_of_the_composition() {
        let (tokens, heads, width) = (3, 2, 6);
        let table = RotaryTable::new(&[5, 0, 9], width, 1e4);
        let (x, dy) = (random(1, tokens * heads * width), random(2, tokens * heads * width));
        let tensors = table.tensors(&Device::Cpu).unwrap();
        let (y, dx) = gradients(&[(&x, &[tokens, heads, width])], &dy, |t| composed(&t[0], &tensors));
        let each = |data: &[f32], turn: &dyn Fn(&mut [f32], usize)| {
            let mut data = data.to_vec();
            for (i, head) in data.chunks_mut(width).enumerate() {
                turn(head, i / heads);
            }
            data
        };
        let forward = each(&x, &|head, token| rotate(head, table.token(token)));
        let backward = each(&dy, &|head, token| rotate_back(head, table.token(token)));
        assert_close("y", &forward, &y, 1e-6);
        assert_close("dx", &backward, &dx[0], 1e-6);
    }
}
