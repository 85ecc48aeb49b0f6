//! Cross-entropy fused with the head's projection: a chunk of logits at a time, never all of them.

use candle_core::{D, DType, Result, Tensor};
use rayon::prelude::*;

use super::product::{Matrix, Target, Threads, Write, product};
use super::wide::{exponentials, largest, wide};
use super::workspace::Workspace;

/// Logits that exist at one time.
const CHUNK: usize = 1 << 20;

/// Rows whose logits are taken together, for a vocabulary.
pub(crate) fn chunk_rows(vocabulary: usize) -> usize {
    (CHUNK / vocabulary.max(1)).clamp(16, 1024)
}

/// The projection onto the vocabulary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    /// `(vocabulary, width)`.
    pub weight: &'a [f32],
    /// Tokens.
    pub vocabulary: usize,
    /// Width of the hidden states.
    pub width: usize,
}

/// The log-probability of each row's target; `hidden` is `(rows, width)`.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn log_probabilities(head: Head<'_>, hidden: &[f32], targets: &[u32], workspace: &Workspace) -> Result<Vec<f32>> {
    let step = chunk_rows(head.vocabulary);
    let mut found = Vec::with_capacity(targets.len());
    for (hidden, targets) in hidden.chunks(step * head.width).zip(targets.chunks(step)) {
        let mut logits = workspace.take(targets.len() * head.vocabulary);
        project(head, hidden, targets.len(), &mut logits)?;
        let lines = logits.par_chunks_mut(head.vocabulary).zip(targets);
        found.par_extend(lines.map(|(logits, target)| {
            let chosen = logits[*target as usize];
            wide(|| {
                let shift = largest(logits);
                chosen - shift - exponentials(logits, 1.0, shift).ln()
            })
        }));
    }
    Ok(found)
}

/// The log-probability of each row's target and, for the loss `sum(weights * -log_probability)`, the gradient of
/// `hidden`, written to `d_hidden`; that of the head is added to `d_head`, if it trains.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn forward_backward(
    head: Head<'_>,
    hidden: &[f32],
    targets: &[u32],
    weights: &[f32],
    d_hidden: &mut [f32],
    mut d_head: Option<&mut [f32]>,
    workspace: &Workspace,
) -> Result<Vec<f32>> {
    let (step, width, vocabulary) = (chunk_rows(head.vocabulary), head.width, head.vocabulary);
    let mut found = Vec::with_capacity(targets.len());
    let chunks = hidden.chunks(step * width).zip(d_hidden.chunks_mut(step * width)).zip(targets.chunks(step).zip(weights.chunks(step)));
    for ((hidden, d_hidden), (targets, weights)) in chunks {
        let rows = targets.len();
        let mut logits = workspace.take(rows * vocabulary);
        project(head, hidden, rows, &mut logits)?;
        let lines = logits.par_chunks_mut(vocabulary).zip(targets.par_iter().zip(weights));
        found.par_extend(lines.map(|(logits, (target, weight))| {
            let chosen = logits[*target as usize];
            let log_probability = wide(|| {
                let shift = largest(logits);
                let sum = exponentials(logits, 1.0, shift);
                let factor = weight / sum;
                logits.iter_mut().for_each(|x| *x *= factor);
                chosen - shift - sum.ln()
            });
            logits[*target as usize] -= weight;
            log_probability
        }));
        let d_logits = Matrix::new(&logits, rows, vocabulary)?;
        let weight = Matrix::new(head.weight, vocabulary, width)?;
        product(Target::new(d_hidden, rows, width)?, Write::Replace, 1.0, d_logits, weight, Threads::All)?;
        if let Some(d_head) = d_head.as_deref_mut() {
            let target = Target::new(d_head, vocabulary, width)?;
            product(target, Write::Add, 1.0, d_logits.transposed(), Matrix::new(hidden, rows, width)?, Threads::All)?;
        }
    }
    Ok(found)
}

/// The logits `(rows, vocabulary)` of `hidden`.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn project(head: Head<'_>, hidden: &[f32], rows: usize, logits: &mut [f32]) -> Result<()> {
    let weight = Matrix::new(head.weight, head.vocabulary, head.width)?.transposed();
    product(Target::new(logits, rows, head.vocabulary)?, Write::Replace, 1.0, Matrix::new(hidden, rows, head.width)?, weight, Threads::All)
}

/// The log-probabilities `(rows)` of `targets` `(rows, 1)` under `logits` `(rows, vocabulary)`, of stock operations.
///
/// # Errors
/// Those of candle.
pub(crate) fn composed(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let logits = logits.to_dtype(DType::F32)?;
    let shift = logits.max_keepdim(D::Minus1)?.detach();
    let shifted = logits.broadcast_sub(&shift)?;
    let sums = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
    (shifted.gather(targets, 1)? - sums)?.squeeze(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::ops::testing::{assert_close, gradients, random, slopes};
    use candle_core::Device;

    #[test]
    fn a_uniform_head_gives_the_logarithm_of_the_vocabulary() {
        let head = Head { weight: &[0.0; 12], vocabulary: 4, width: 3 };
        let found = log_probabilities(head, &random(1, 6), &[0, 3], &Workspace::default()).unwrap();
        assert_close("ln 1/4", &found, &[-1.386_294_4; 2], 1e-6);
    }

    #[test]
    fn gradients_are_those_of_the_composition_and_of_differences() {
        // More rows than a chunk has, so that the head's gradient adds up over chunks.
        let (vocabulary, width) = (1 << 16, 2);
        let rows = chunk_rows(vocabulary) + 3;
        assert!(rows < 40);
        let (hidden, weight) = (random(1, rows * width), random(2, vocabulary * width));
        let targets: Vec<u32> = (0..rows).map(|i| u32::try_from(i * 7 % vocabulary).unwrap()).collect();
        let mut weights = random(3, rows);
        weights[1] = 0.0;
        let head = Head { weight: &weight, vocabulary, width };
        let (mut d_hidden, mut d_head) = (vec![f32::NAN; hidden.len()], vec![0.0; weight.len()]);
        let pool = Workspace::default();
        let found = forward_backward(head, &hidden, &targets, &weights, &mut d_hidden, Some(&mut d_head), &pool).unwrap();
        let negative: Vec<f32> = weights.iter().map(|w| -w).collect();
        let ids = Tensor::from_slice(&targets, (rows, 1), &Device::Cpu).unwrap();
        let inputs: [(&[f32], &[usize]); 2] = [(&hidden, &[rows, width]), (&weight, &[vocabulary, width])];
        let (expected, d_expected) = gradients(&inputs, &negative, |t| composed(&t[0].matmul(&t[1].t()?)?, &ids));
        assert_close("log-probabilities", &found, &expected, 1e-5);
        assert_close("without gradients", &log_probabilities(head, &hidden, &targets, &pool).unwrap(), &expected, 1e-5);
        assert_close("d_hidden", &d_hidden, &d_expected[0], 1e-4);
        assert_close("d_head", &d_head, &d_expected[1], 1e-4);
        let run = |hidden: &[f32]| log_probabilities(head, hidden, &targets, &pool).unwrap();
        assert_close("d_hidden by differences", &d_hidden, &slopes(&hidden, &negative, run), 1e-2);
    }
}
