//! Causal attention between the tokens of a document, several documents to a row.
//!
//! A row of the batch holds documents one after the other; token `i` sees the tokens from the start of its own document
//! up to itself. Scores are never kept: forwards, a block of queries takes its scores against the keys it can see, and
//! backwards they are computed again from the logarithm of each row's sum (Dao et al. 2022, without the online part: a
//! block's scores fit the cache). Memory grows with the length, not with its square.

use candle_core::{D, DType, Device, Result, Tensor};
use rayon::prelude::*;

use super::heads::HeadShape;
use super::product::{Matrix, Target, Threads, Write, product};
use super::wide::{dot, exp, exponentials, largest, wide};

/// Queries whose scores are taken together.
const BLOCK: usize = 64;

/// Keys and values of one row, tokens `stride` numbers apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys<'a> {
    /// Begins at the first key head of the first token.
    pub keys: &'a [f32],
    /// Numbers between the keys of two tokens.
    pub key_stride: usize,
    /// Begins at the first value head of the first token.
    pub values: &'a [f32],
    /// Numbers between the values of two tokens.
    pub value_stride: usize,
}

/// A batch of rows, each `length` tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The heads.
    pub shape: HeadShape,
    /// Tokens of a row.
    pub length: usize,
    /// For each token the index, within its row, of the first token of its document; not above the token's own.
    pub starts: &'a [u32],
    /// Queries and keys, `(rows * length, rotated_width)`.
    pub rotated: &'a [f32],
    /// Queries, keys and values before rotation, `(rows * length, qkv_width)`: the values are used.
    pub qkv: &'a [f32],
}

impl Rows<'_> {
    fn keys(&self, row: usize) -> Keys<'_> {
        let shape = self.shape;
        let (rotated, qkv) = (shape.rotated_width(), shape.qkv_width());
        Keys {
            keys: &self.rotated[row * self.length * rotated + shape.query_width()..],
            key_stride: rotated,
            values: &self.qkv[row * self.length * qkv + rotated..],
            value_stride: qkv,
        }
    }
}

/// The context of every token, `(rows * length, query_width)`, and the logarithm of each softmax's denominator,
/// `(rows * length, heads)`.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn forward(rows: Rows<'_>, context: &mut [f32], log_sums: &mut [f32]) -> Result<()> {
    let (shape, length) = (rows.shape, rows.length);
    let (query_width, stride) = (shape.query_width(), shape.rotated_width());
    // A task is a block of queries of one row with all its heads: its results lie together.
    let tasks = context.par_chunks_mut(length * query_width).zip(log_sums.par_chunks_mut(length * shape.heads)).enumerate();
    tasks.try_for_each(|(row, (context, log_sums))| {
        let keys = rows.keys(row);
        let blocks = context.par_chunks_mut(BLOCK * query_width).zip(log_sums.par_chunks_mut(BLOCK * shape.heads)).enumerate();
        blocks.try_for_each_init(Vec::new, |scores, (block, (context, log_sums))| {
            let first = block * BLOCK;
            let token = row * length + first;
            let count = context.len() / query_width;
            let queries = Queries { data: &rows.rotated[token * stride..], stride, first, starts: &rows.starts[token..token + count] };
            block_forward(shape, queries, keys, scores, context, log_sums)
        })
    })
}

/// A block of queries of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queries<'a> {
    /// Begins at the first head of the block's first query.
    pub data: &'a [f32],
    /// Numbers between two queries.
    pub stride: usize,
    /// Index of the first query among the row's keys.
    pub first: usize,
    /// For each query the first key it sees.
    pub starts: &'a [u32],
}

impl Queries<'_> {
    /// The first key that some query of the block sees.
    fn first_key(&self) -> usize {
        self.starts.iter().map(|start| *start as usize).min().unwrap_or(self.first)
    }

    /// The keys that query `i` of the block sees, counted from `first_key`.
    #[inline(always)]
    fn visible(&self, i: usize, first_key: usize) -> std::ops::Range<usize> {
        self.starts[i] as usize - first_key..self.first + i + 1 - first_key
    }
}

/// The context of a block of queries, `(queries, query_width)`; `log_sums` is `(queries, heads)`.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn block_forward(
    shape: HeadShape,
    queries: Queries<'_>,
    keys: Keys<'_>,
    scores: &mut Vec<f32>,
    context: &mut [f32],
    log_sums: &mut [f32],
) -> Result<()> {
    let (width, count) = (shape.head_dim, queries.starts.len());
    let first_key = queries.first_key();
    let seen = queries.first + count - first_key;
    let scale = scale(shape);
    scores.resize(count * seen, 0.0);
    for head in 0..shape.heads {
        let at = head / shape.group() * width;
        let q = Matrix::strided(&queries.data[head * width..], count, width, queries.stride)?;
        let k = Matrix::strided(&keys.keys[first_key * keys.key_stride + at..], seen, width, keys.key_stride)?;
        let v = Matrix::strided(&keys.values[first_key * keys.value_stride + at..], seen, width, keys.value_stride)?;
        product(Target::new(scores, count, seen)?, Write::Replace, 1.0, q, k.transposed(), Threads::One)?;
        wide(|| {
            for (i, scores) in scores.chunks_exact_mut(seen).enumerate() {
                let visible = queries.visible(i, first_key);
                scores[..visible.start].fill(0.0);
                scores[visible.end..].fill(0.0);
                let scores = &mut scores[visible];
                let shift = largest(scores) * scale;
                let sum = exponentials(scores, scale, shift);
                log_sums[i * shape.heads + head] = shift + sum.ln();
                let inverse = 1.0 / sum;
                scores.iter_mut().for_each(|p| *p *= inverse);
            }
        });
        let target = Target::strided(&mut context[head * width..], count, width, shape.query_width())?;
        product(target, Write::Replace, 1.0, Matrix::new(scores, count, seen)?, v, Threads::One)?;
    }
    Ok(())
}

/// The gradients of queries, keys and values, `(rows, kv_heads, length, grouped_width)`, from that of the context.
///
/// # Errors
/// Where the shapes do not fit each other.
pub(crate) fn backward(rows: Rows<'_>, context: &[f32], log_sums: &[f32], d_context: &[f32], grouped: &mut [f32]) -> Result<()> {
    let (shape, length) = (rows.shape, rows.length);
    // A task is a key head of one row with the queries of its group: nobody else adds to its gradients.
    grouped.par_chunks_mut(length * shape.grouped_width()).enumerate().try_for_each_init(Scratch::default, |scratch, (task, grouped)| {
        let (row, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        grouped.fill(0.0);
        for member in 0..shape.group() {
            for first in (0..length).step_by(BLOCK) {
                let block = Block { rows, row, kv_head, member, first, count: BLOCK.min(length - first) };
                block.backward(context, log_sums, d_context, scratch, grouped)?;
            }
        }
        Ok(())
    })
}

/// Probabilities and their gradients of a block.
#[derive(Default)]
struct Scratch {
    probabilities: Vec<f32>,
    gradients: Vec<f32>,
}

/// A block of queries of one head, for the backward.
struct Block<'a> {
    rows: Rows<'a>,
    row: usize,
    kv_head: usize,
    member: usize,
    first: usize,
    count: usize,
}

impl Block<'_> {
    fn backward(&self, context: &[f32], log_sums: &[f32], d_context: &[f32], scratch: &mut Scratch, grouped: &mut [f32]) -> Result<()> {
        let (shape, count) = (self.rows.shape, self.count);
        let (width, stride, query_width, grouped_width) =
            (shape.head_dim, shape.rotated_width(), shape.query_width(), shape.grouped_width());
        let head = self.kv_head * shape.group() + self.member;
        let token = self.row * self.rows.length + self.first;
        let starts = &self.rows.starts[token..token + count];
        let queries = Queries { data: &self.rows.rotated[token * stride..], stride, first: self.first, starts };
        let first_key = queries.first_key();
        let seen = self.first + count - first_key;
        let keys = self.rows.keys(self.row);
        let at = self.kv_head * width;
        let q = Matrix::strided(&queries.data[head * width..], count, width, stride)?;
        let k = Matrix::strided(&keys.keys[first_key * keys.key_stride + at..], seen, width, keys.key_stride)?;
        let v = Matrix::strided(&keys.values[first_key * keys.value_stride + at..], seen, width, keys.value_stride)?;
        let from = token * query_width + head * width;
        let d_out = Matrix::strided(&d_context[from..], count, width, query_width)?;
        let Scratch { probabilities, gradients } = scratch;
        probabilities.resize(count * seen, 0.0);
        gradients.resize(count * seen, 0.0);
        product(Target::new(probabilities, count, seen)?, Write::Replace, 1.0, q, k.transposed(), Threads::One)?;
        product(Target::new(gradients, count, seen)?, Write::Replace, 1.0, d_out, v.transposed(), Threads::One)?;
        let scale = scale(shape);
        wide(|| {
            let lines = probabilities.chunks_exact_mut(seen).zip(gradients.chunks_exact_mut(seen)).enumerate();
            for (i, (p, g)) in lines {
                let visible = queries.visible(i, first_key);
                for hidden in [0..visible.start, visible.end..seen] {
                    p[hidden.clone()].fill(0.0);
                    g[hidden].fill(0.0);
                }
                let place = from + i * query_width;
                let mean = dot(&context[place..place + width], &d_context[place..place + width]);
                let log_sum = log_sums[(token + i) * shape.heads + head];
                for (p, g) in p[visible.clone()].iter_mut().zip(&mut g[visible]) {
                    *p = exp(scale * *p - log_sum);
                    *g = *p * (*g - mean) * scale;
                }
            }
        });
        let p = Matrix::new(probabilities, count, seen)?;
        let g = Matrix::new(gradients, count, seen)?;
        let d_query = Target::strided(&mut grouped[self.first * grouped_width + self.member * width..], count, width, grouped_width)?;
        product(d_query, Write::Replace, 1.0, g, k, Threads::One)?;
        let key_at = first_key * grouped_width + shape.group() * width;
        product(Target::strided(&mut grouped[key_at..], seen, width, grouped_width)?, Write::Add, 1.0, g.transposed(), q, Threads::One)?;
        let value_at = key_at + width;
        product(
            Target::strided(&mut grouped[value_at..], seen, width, grouped_width)?,
            Write::Add,
            1.0,
            p.transposed(),
            d_out,
            Threads::One,
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "the width of a head is small")]
fn scale(shape: HeadShape) -> f32 {
    1.0 / (shape.head_dim as f32).sqrt()
}

/// The context `(rows, queries, heads, head_dim)` of queries of that shape over keys and values
/// `(rows, keys, kv_heads, head_dim)`, of stock operations; `mask` `(rows, 1, queries, keys)` is added to the scores.
///
/// # Errors
/// Those of candle.
pub(crate) fn composed(queries: &Tensor, keys: &Tensor, values: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (rows, _, heads, width) = queries.dims4()?;
    let (_, seen, kv_heads, _) = keys.dims4()?;
    let spread = |x: &Tensor| {
        let x = x.transpose(1, 2)?.unsqueeze(2)?.expand((rows, kv_heads, heads / kv_heads, seen, width))?;
        x.reshape((rows, heads, seen, width))
    };
    #[expect(clippy::cast_precision_loss, reason = "the width of a head is small")]
    let scale = 1.0 / (width as f64).sqrt();
    let q = queries.transpose(1, 2)?.contiguous()?;
    let scores = (q.matmul(&spread(keys)?.t()?)?.to_dtype(DType::F32)? * scale)?.broadcast_add(mask)?;
    let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    let probabilities = shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)?.to_dtype(queries.dtype())?;
    probabilities.matmul(&spread(values)?)?.transpose(1, 2)?.contiguous()
}

/// The mask for [`composed`] over a batch of rows of `length` tokens; `starts` as in [`Rows`].
///
/// # Errors
/// Those of candle.
pub(crate) fn mask(starts: &[u32], length: usize, device: &Device) -> Result<Tensor> {
    let rows = starts.len() / length.max(1);
    let mut mask = vec![f32::NEG_INFINITY; rows * length * length];
    for (i, (line, start)) in mask.chunks_exact_mut(length.max(1)).zip(starts).enumerate() {
        line[*start as usize..=i % length].fill(0.0);
    }
    Tensor::from_vec(mask, (rows, 1, length, length), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::ops::testing::{assert_close, gradients, random};

    /// Splits `qkv` into its three parts, each `(rows, length, heads, head_dim)`.
    fn parts(qkv: &Tensor, rows: usize, length: usize, s: HeadShape) -> Result<[Tensor; 3]> {
        let part = |from: usize, heads: usize| qkv.narrow(1, from, heads * s.head_dim)?.reshape((rows, length, heads, s.head_dim));
        Ok([part(0, s.heads)?, part(s.query_width(), s.kv_heads)?, part(s.rotated_width(), s.kv_heads)?])
    }

    fn check(rows: usize, length: usize, starts: &[u32]) {
        let shape = HeadShape { heads: 4, kv_heads: 2, head_dim: 8 };
        let tokens = rows * length;
        let qkv = random(1, tokens * shape.qkv_width());
        let dy = random(2, tokens * shape.query_width());
        let mask = mask(starts, length, &Device::Cpu).unwrap();
        let (expected, d_expected) = gradients(&[(&qkv, &[tokens, shape.qkv_width()])], &dy, |t| {
            let [q, k, v] = parts(&t[0], rows, length, shape)?;
            composed(&q, &k, &v, &mask)
        });
        // No rotation: queries and keys as they are.
        let rotated: Vec<f32> = qkv.chunks(shape.qkv_width()).flat_map(|token| token[..shape.rotated_width()].to_vec()).collect();
        let batch = Rows { shape, length, starts, rotated: &rotated, qkv: &qkv };
        let mut context = vec![f32::NAN; tokens * shape.query_width()];
        let mut log_sums = vec![f32::NAN; tokens * shape.heads];
        forward(batch, &mut context, &mut log_sums).unwrap();
        assert_close("context", &context, &expected, 1e-5);
        let mut grouped = vec![f32::NAN; rows * shape.kv_heads * length * shape.grouped_width()];
        backward(batch, &context, &log_sums, &dy, &mut grouped).unwrap();
        // A table of no angle: the heads' backward only puts the gradients in order.
        let table = crate::student::ops::rotary::RotaryTable::new(&vec![0; tokens], shape.head_dim, 1e4);
        let mut d_qkv = vec![f32::NAN; qkv.len()];
        crate::student::ops::heads::backward(shape, length, &qkv, None, &table, &grouped, &mut d_qkv);
        assert_close("d_qkv", &d_qkv, &d_expected[0], 1e-4);
    }

    #[test]
    fn one_document_to_a_row() {
        check(2, 5, &[0; 10]);
    }

    #[test]
    fn several_documents_over_several_blocks() {
        let length = 2 * BLOCK + 9;
        let first: Vec<u32> = (0..length).map(|i| if i < 70 { 0 } else { 70 }).collect();
        let second: Vec<u32> = (0..length)
            .map(|i| {
                if i < BLOCK {
                    0
                } else if i < 130 {
                    64
                } else {
                    u32::try_from(i).unwrap()
                }
            })
            .collect();
        check(2, length, &[first, second].concat());
    }

    #[test]
    fn a_document_does_not_see_the_one_before() {
        let shape = HeadShape { heads: 1, kv_heads: 1, head_dim: 2 };
        let starts = [0, 0, 2, 2];
        let run = |qkv: &[f32]| {
            let rotated: Vec<f32> = qkv.chunks(6).flat_map(|token| token[..4].to_vec()).collect();
            let (mut context, mut log_sums) = (vec![0.0; 8], vec![0.0; 4]);
            forward(Rows { shape, length: 4, starts: &starts, rotated: &rotated, qkv }, &mut context, &mut log_sums).unwrap();
            context
        };
        let qkv = random(3, 24);
        let mut other = qkv.clone();
        other[..12].copy_from_slice(&random(4, 12));
        assert_eq!(run(&qkv)[4..], run(&other)[4..]);
        assert_ne!(run(&qkv)[..4], run(&other)[..4]);
        // The first token of a document sees itself alone: its context is its value.
        assert_close("alone", &run(&qkv)[4..6], &qkv[16..18], 1e-6);
    }
}
