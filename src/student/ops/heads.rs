//! Queries and keys made ready for attention: their norm (where the family has one) and their rotation in one pass.

use rayon::prelude::*;

use super::ROWS_PER_TASK;
use super::rms_norm::{row, row_backward, sum_in_order};
use super::rotary::{RotaryTable, rotate, rotate_back};
use super::wide::wide;

/// The heads of an attention block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of each.
    pub head_dim: usize,
}

impl HeadShape {
    /// Query heads that share a key head.
    pub(crate) fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    /// Numbers per token in the queries.
    pub(crate) fn query_width(self) -> usize {
        self.heads * self.head_dim
    }

    /// Numbers per token in the keys, and in the values.
    pub(crate) fn kv_width(self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Numbers per token in queries, keys and values side by side.
    pub(crate) fn qkv_width(self) -> usize {
        self.query_width() + 2 * self.kv_width()
    }

    /// Numbers per token in queries and keys side by side.
    pub(crate) fn rotated_width(self) -> usize {
        self.query_width() + self.kv_width()
    }

    /// Numbers per token and key head in the gradients of attention: the group's queries, the key, the value.
    pub(crate) fn grouped_width(self) -> usize {
        (self.group() + 2) * self.head_dim
    }
}

/// The weights of the heads' norms, each `head_dim` long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadNorms<'a> {
    /// For queries.
    pub queries: &'a [f32],
    /// For keys.
    pub keys: &'a [f32],
    /// Added to the mean square.
    pub epsilon: f32,
}

impl<'a> HeadNorms<'a> {
    #[inline(always)]
    fn weight(&self, shape: HeadShape, head: usize) -> &'a [f32] {
        if head < shape.heads { self.queries } else { self.keys }
    }
}

/// From `qkv` `(tokens, qkv_width)` the queries and keys ready for attention, `(tokens, rotated_width)`.
pub(crate) fn forward(shape: HeadShape, qkv: &[f32], norms: Option<HeadNorms<'_>>, table: &RotaryTable, rotated: &mut [f32]) {
    let (from, to, width) = (shape.qkv_width(), shape.rotated_width(), shape.head_dim);
    rotated.par_chunks_mut(to * ROWS_PER_TASK).zip(qkv.par_chunks(from * ROWS_PER_TASK)).enumerate().for_each(|(task, (rotated, qkv))| {
        wide(|| {
            for (i, (rotated, qkv)) in rotated.chunks_exact_mut(to).zip(qkv.chunks_exact(from)).enumerate() {
                let turn = table.token(task * ROWS_PER_TASK + i);
                for (head, (y, x)) in rotated.chunks_exact_mut(width).zip(qkv.chunks_exact(width)).enumerate() {
                    match &norms {
                        Some(norms) => row(x, norms.weight(shape, head), norms.epsilon, y),
                        None => y.copy_from_slice(x),
                    }
                    rotate(y, turn);
                }
            }
        });
    });
}

/// From the gradients of attention, `grouped` `(rows, kv_heads, length, grouped_width)`, those of `qkv`
/// `(rows * length, qkv_width)`; returns those of the norms of queries and keys, if they train.
pub(crate) fn backward(
    shape: HeadShape,
    length: usize,
    qkv: &[f32],
    norms: Option<(HeadNorms<'_>, bool)>,
    table: &RotaryTable,
    grouped: &[f32],
    d_qkv: &mut [f32],
) -> Option<(Vec<f32>, Vec<f32>)> {
    let (from, width) = (shape.qkv_width(), shape.head_dim);
    let trains = norms.is_some_and(|(_, trains)| trains);
    let parts: Vec<(Vec<f32>, Vec<f32>)> = d_qkv
        .par_chunks_mut(from * ROWS_PER_TASK)
        .zip(qkv.par_chunks(from * ROWS_PER_TASK))
        .enumerate()
        .map(|(task, (d_qkv, qkv))| {
            let size = if trains { width } else { 0 };
            let (mut d_queries, mut d_keys, mut unturned) = (vec![0.0; size], vec![0.0; size], vec![0.0; width]);
            wide(|| {
                for (i, (d_qkv, qkv)) in d_qkv.chunks_exact_mut(from).zip(qkv.chunks_exact(from)).enumerate() {
                    let token = task * ROWS_PER_TASK + i;
                    let turn = table.token(token);
                    for (head, (dx, x)) in d_qkv.chunks_exact_mut(width).zip(qkv.chunks_exact(width)).enumerate() {
                        let dy = gradient_of_head(shape, length, grouped, token, head);
                        if head >= shape.heads + shape.kv_heads {
                            dx.copy_from_slice(dy);
                            continue;
                        }
                        let Some((norms, _)) = &norms else {
                            dx.copy_from_slice(dy);
                            rotate_back(dx, turn);
                            continue;
                        };
                        unturned.copy_from_slice(dy);
                        rotate_back(&mut unturned, turn);
                        dx.fill(0.0);
                        let d_weight = if head < shape.heads { &mut d_queries } else { &mut d_keys };
                        row_backward(x, norms.weight(shape, head), norms.epsilon, &unturned, dx, trains.then_some(d_weight));
                    }
                }
            });
            (d_queries, d_keys)
        })
        .collect();
    trains.then(|| {
        let (queries, keys): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (sum_in_order(&queries, width), sum_in_order(&keys, width))
    })
}

/// Where the gradient of one head (queries first, then keys, then values) of one token lies in `grouped`.
#[inline(always)]
fn gradient_of_head(shape: HeadShape, length: usize, grouped: &[f32], token: usize, head: usize) -> &[f32] {
    let (group, kv_heads) = (shape.group(), shape.kv_heads);
    let (kv_head, place) = if head < shape.heads {
        (head / group, head % group)
    } else {
        ((head - shape.heads) % kv_heads, group + (head - shape.heads) / kv_heads)
    };
    let (row, index) = (token / length, token % length);
    let start = ((row * kv_heads + kv_head) * length + index) * shape.grouped_width() + place * shape.head_dim;
    &grouped[start..start + shape.head_dim]
}
