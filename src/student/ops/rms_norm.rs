//! Root-mean-square norm: `y = w * x / sqrt(mean(x^2) + epsilon)` over the last dimension (Zhang and Sennrich 2019).

use candle_core::{D, DType, Result, Tensor};
use rayon::prelude::*;

use super::ROWS_PER_TASK;
use super::wide::{dot, dot_of_three, wide};

/// `1 / sqrt(mean(x^2) + epsilon)` of one row.
#[inline(always)]
pub(crate) fn inverse(x: &[f32], epsilon: f32) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "a row is far shorter than 2^24")]
    let width = x.len() as f32;
    1.0 / (dot(x, x) / width + epsilon).sqrt()
}

/// The norm of one row.
#[inline(always)]
pub(crate) fn row(x: &[f32], weight: &[f32], epsilon: f32, y: &mut [f32]) {
    let inverse = inverse(x, epsilon);
    for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
        *y = x * inverse * w;
    }
}

/// Adds the gradient of one row to `dx`, and to `d_weight` what the row contributes, if the weight trains; `dy` is the
/// gradient of the result.
#[inline(always)]
pub(crate) fn row_backward(x: &[f32], weight: &[f32], epsilon: f32, dy: &[f32], dx: &mut [f32], d_weight: Option<&mut [f32]>) {
    let inverse = inverse(x, epsilon);
    #[expect(clippy::cast_precision_loss, reason = "a row is far shorter than 2^24")]
    let width = x.len() as f32;
    let along = dot_of_three(dy, weight, x) * inverse * inverse * inverse / width;
    for (((dx, dy), x), w) in dx.iter_mut().zip(dy).zip(x).zip(weight) {
        *dx += dy * w * inverse - x * along;
    }
    if let Some(d_weight) = d_weight {
        for ((dw, dy), x) in d_weight.iter_mut().zip(dy).zip(x) {
            *dw += dy * x * inverse;
        }
    }
}

/// `y` = the norm of each row of `x`; rows are as wide as `weight`.
pub(crate) fn forward(x: &[f32], weight: &[f32], epsilon: f32, y: &mut [f32]) {
    let width = weight.len();
    let task = width * ROWS_PER_TASK;
    y.par_chunks_mut(task).zip(x.par_chunks(task)).for_each(|(y, x)| {
        wide(|| {
            for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                row(x, weight, epsilon, y);
            }
        });
    });
}

/// Adds the gradient of `x` to `dx` (which so takes up the residual's gradient in the same pass) and returns that of
/// the weight, if it trains.
pub(crate) fn backward(x: &[f32], weight: &[f32], epsilon: f32, dy: &[f32], dx: &mut [f32], trains: bool) -> Option<Vec<f32>> {
    let width = weight.len();
    let task = width * ROWS_PER_TASK;
    let parts: Vec<Vec<f32>> = dx
        .par_chunks_mut(task)
        .zip(x.par_chunks(task))
        .zip(dy.par_chunks(task))
        .map(|((dx, x), dy)| {
            let mut d_weight = vec![0.0; if trains { width } else { 0 }];
            wide(|| {
                for ((dx, x), dy) in dx.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(dy.chunks_exact(width)) {
                    row_backward(x, weight, epsilon, dy, dx, trains.then_some(&mut d_weight));
                }
            });
            d_weight
        })
        .collect();
    trains.then(|| sum_in_order(&parts, width))
}

/// The sum of the tasks' contributions, in the order of the tasks: the same on any number of threads.
pub(crate) fn sum_in_order(parts: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    for part in parts {
        for (sum, part) in sum.iter_mut().zip(part) {
            *sum += part;
        }
    }
    sum
}

/// The norm over the last dimension of `x`, of stock operations; computed in `f32` whatever the type of `x`.
///
/// # Errors
/// Those of candle.
pub(crate) fn composed(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let wide = x.to_dtype(DType::F32)?;
    let mean = wide.sqr()?.mean_keepdim(D::Minus1)?;
    let normed = wide.broadcast_div(&(mean + epsilon)?.sqrt()?)?;
    normed.to_dtype(x.dtype())?.broadcast_mul(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::ops::testing::{assert_close, gradients, random, slopes};

    #[test]
    fn forward_and_backward_are_those_of_the_composition_and_of_differences() {
        let (rows, width, epsilon) = (3, 20, 1e-5);
        let (x, w, dy) = (random(1, rows * width), random(2, width), random(3, rows * width));
        let run = |x: &[f32], w: &[f32]| {
            let mut y = vec![0.0; x.len()];
            forward(x, w, epsilon, &mut y);
            y
        };
        let mut dx = vec![0.0; x.len()];
        let dw = backward(&x, &w, epsilon, &dy, &mut dx, true).unwrap();
        let (y, composed) = gradients(&[(&x, &[rows, width]), (&w, &[width])], &dy, |t| super::composed(&t[0], &t[1], f64::from(epsilon)));
        assert_close("y", &run(&x, &w), &y, 1e-5);
        assert_close("dx", &dx, &composed[0], 1e-4);
        assert_close("dw", &dw, &composed[1], 1e-4);
        assert_close("dx by differences", &dx, &slopes(&x, &dy, |x| run(x, &w)), 2e-2);
        assert_close("dw by differences", &dw, &slopes(&w, &dy, |w| run(&x, w)), 2e-2);
    }
}
