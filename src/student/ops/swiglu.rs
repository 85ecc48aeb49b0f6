//! The gated unit of the feed-forward block: `silu(gate) * up` (Shazeer 2020).

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::ROWS_PER_TASK;
use super::wide::{sigmoid, wide};

/// From `gates` `(rows, 2 * width)`, gate and up side by side, the unit `(rows, width)`.
pub(crate) fn forward(gates: &[f32], width: usize, out: &mut [f32]) {
    out.par_chunks_mut(width * ROWS_PER_TASK).zip(gates.par_chunks(2 * width * ROWS_PER_TASK)).for_each(|(out, gates)| {
        wide(|| {
            for (out, gates) in out.chunks_exact_mut(width).zip(gates.chunks_exact(2 * width)) {
                let (gate, up) = gates.split_at(width);
                for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                    *out = gate * sigmoid(*gate) * up;
                }
            }
        });
    });
}

/// Replaces `gates` by their gradients; `dy` `(rows, width)` is that of the unit.
pub(crate) fn backward(gates: &mut [f32], width: usize, dy: &[f32]) {
    gates.par_chunks_mut(2 * width * ROWS_PER_TASK).zip(dy.par_chunks(width * ROWS_PER_TASK)).for_each(|(gates, dy)| {
        wide(|| {
            for (gates, dy) in gates.chunks_exact_mut(2 * width).zip(dy.chunks_exact(width)) {
                let (gate, up) = gates.split_at_mut(width);
                for ((gate, up), dy) in gate.iter_mut().zip(up).zip(dy) {
                    let s = sigmoid(*gate);
                    let silu = *gate * s;
                    *gate = dy * *up * (s + silu * (1.0 - s));
                    *up = dy * silu;
                }
            }
        });
    });
}

/// The unit of stock operations.
///
/// # Errors
/// Those of candle.
pub(crate) fn composed(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.silu()? * up
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::ops::testing::{assert_close, gradients, random, slopes};

    #[test]
    fn forward_and_backward_are_those_of_the_composition_and_of_differences() {
        let (rows, width) = (3, 5);
        let (gates, dy) = (random(1, rows * 2 * width), random(2, rows * width));
        let run = |gates: &[f32]| {
            let mut out = vec![0.0; rows * width];
            forward(gates, width, &mut out);
            out
        };
        let mut d_gates = gates.clone();
        backward(&mut d_gates, width, &dy);
        let (y, expected) =
            gradients(&[(&gates, &[rows, 2 * width])], &dy, |t| composed(&t[0].narrow(1, 0, width)?, &t[0].narrow(1, width, width)?));
        assert_close("y", &run(&gates), &y, 1e-5);
        assert_close("d_gates", &d_gates, &expected[0], 1e-5);
        assert_close("d_gates by differences", &d_gates, &slopes(&gates, &dy, run), 1e-3);
    }
}
