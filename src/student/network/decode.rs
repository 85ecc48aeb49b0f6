//! Generation: rows with keys and values kept from token to token.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::fused::{Tokens, finish, project};
use super::layer::head_shape;
use super::linear::Pass;
use super::{Kernels, Network, NetworkError, composed};
use crate::student::ops::attention::{self, Keys, Queries};
use crate::student::ops::cross_entropy::{Head, project as project_logits};
use crate::student::ops::heads::HeadShape;
use crate::student::ops::rotary::RotaryTable;
use crate::student::ops::storage::numbers;
use crate::student::ops::{linear, rms_norm};

/// Keys and values of one row. A clone shares nothing with its origin: it starts a second row after the same prefix.
#[derive(Debug, Clone)]
pub struct RowCache {
    length: usize,
    layers: Vec<LayerCache>,
}

/// Keys and values of one layer, `(length, kv_heads, head_dim)`.
#[derive(Debug, Clone, Default)]
enum LayerCache {
    #[default]
    Empty,
    Host {
        keys: Vec<f32>,
        values: Vec<f32>,
    },
    Device {
        keys: Tensor,
        values: Tensor,
    },
}

impl RowCache {
    /// Tokens in it.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Forgets the tokens from `length` on.
    ///
    /// # Errors
    /// Those of candle.
    pub fn truncate(&mut self, length: usize) -> Result<(), NetworkError> {
        if length >= self.length {
            return Ok(());
        }
        for layer in &mut self.layers {
            match layer {
                LayerCache::Empty => {}
                LayerCache::Host { keys, values } => {
                    let width = keys.len() / self.length;
                    keys.truncate(length * width);
                    values.truncate(length * width);
                }
                LayerCache::Device { keys, values } => {
                    *keys = keys.narrow(0, 0, length)?.contiguous()?;
                    *values = values.narrow(0, 0, length)?.contiguous()?;
                }
            }
        }
        self.length = length;
        Ok(())
    }
}

/// A run of new tokens of one row, within all new tokens.
struct Run {
    first: usize,
    count: usize,
    before: usize,
}

impl Network {
    /// A row without tokens.
    #[must_use]
    pub fn new_row(&self) -> RowCache {
        RowCache { length: 0, layers: vec![LayerCache::default(); self.layers.len()] }
    }

    /// Appends to each row its tokens (one or more; rows may differ) and returns for each the logits after its last.
    ///
    /// # Errors
    /// For a row without new tokens, tokens outside the vocabulary, or rows of another network. The rows are then of no
    /// further use.
    pub fn extend(&self, rows: &mut [RowCache], tokens: &[&[u32]]) -> Result<Vec<Vec<f32>>, NetworkError> {
        if rows.len() != tokens.len() || tokens.iter().any(|tokens| tokens.is_empty()) {
            return Err(NetworkError::Batch(format!(
                "{} rows extended by {} lists of tokens, none of which may be empty",
                rows.len(),
                tokens.len()
            )));
        }
        if rows.iter().any(|row| row.layers.len() != self.layers.len()) {
            return Err(NetworkError::Batch("a row of another network".into()));
        }
        let (mut ids, mut positions, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for (row, tokens) in rows.iter().zip(tokens) {
            self.check_tokens(tokens)?;
            runs.push(Run { first: ids.len(), count: tokens.len(), before: row.length });
            ids.extend_from_slice(tokens);
            let end = u32::try_from(row.length + tokens.len()).map_err(|_| NetworkError::Batch("a row longer than 2^32".into()))?;
            #[expect(clippy::cast_possible_truncation, reason = "checked one line above")]
            positions.extend(row.length as u32..end);
        }
        let table = RotaryTable::new(&positions, self.config.head_dim, self.config.rope_theta);
        let logits = match self.kernels {
            Kernels::Fused => self.extend_host(rows, &ids, &runs, &table)?,
            Kernels::Composed => self.extend_device(rows, &ids, &runs, &table)?,
        };
        for (row, run) in rows.iter_mut().zip(&runs) {
            row.length += run.count;
        }
        Ok(logits)
    }

    fn extend_host(&self, rows: &mut [RowCache], ids: &[u32], runs: &[Run], table: &RotaryTable) -> Result<Vec<Vec<f32>>, NetworkError> {
        let (shape, width) = (head_shape(&self.config), self.config.hidden);
        #[expect(clippy::cast_possible_truncation, reason = "single precision is what it is added to")]
        let epsilon = self.config.norm_epsilon as f32;
        let pass = Pass { workspace: &self.workspace, dropout: None };
        // One document to a row: every token sees its row from the first key on.
        let starts = vec![0; ids.len()];
        let tokens = Tokens { shape, epsilon, table, length: ids.len(), starts: &starts, pass };
        let mut hidden = self.workspace.take(ids.len() * width);
        {
            let embedding = numbers(self.embedding.tensor())?;
            for (hidden, id) in hidden.chunks_exact_mut(width).zip(ids) {
                hidden.copy_from_slice(&embedding[*id as usize * width..][..width]);
            }
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let projected = project(layer, tokens, &hidden)?;
            let mut context = self.workspace.take(ids.len() * shape.query_width());
            for (row, run) in rows.iter_mut().zip(runs) {
                let context = &mut context[run.first * shape.query_width()..][..run.count * shape.query_width()];
                row.layers[index].attend(shape, run, &projected.rotated, &projected.qkv, &starts[..run.count], context)?;
            }
            hidden = finish(layer, tokens, &hidden, &context)?;
        }
        let mut last = self.workspace.take(runs.len() * width);
        for (last, run) in last.chunks_exact_mut(width).zip(runs) {
            last.copy_from_slice(&hidden[(run.first + run.count - 1) * width..][..width]);
        }
        let mut normed = self.workspace.take(last.len());
        rms_norm::forward(&last, &numbers(self.norm.tensor())?, epsilon, &mut normed);
        let weight = numbers(self.head().tensor())?;
        let head = Head { weight: &weight, vocabulary: self.config.vocabulary, width };
        let mut logits = self.workspace.take(runs.len() * head.vocabulary);
        project_logits(head, &normed, runs.len(), &mut logits)?;
        Ok(logits.chunks_exact(head.vocabulary).map(<[f32]>::to_vec).collect())
    }

    fn extend_device(&self, rows: &mut [RowCache], ids: &[u32], runs: &[Run], table: &RotaryTable) -> Result<Vec<Vec<f32>>, NetworkError> {
        let (shape, epsilon) = (head_shape(&self.config), self.config.norm_epsilon);
        let pass = Pass { workspace: &self.workspace, dropout: None };
        let device = self.embedding.tensor().device();
        let table = table.tensors(device)?;
        let mut hidden = self.embedding.tensor().detach().index_select(&Tensor::new(ids, device)?, 0)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let (q, k, v) = composed::project(layer, shape, epsilon, &table, pass, &hidden)?;
            let mut contexts = Vec::with_capacity(runs.len());
            for (row, run) in rows.iter_mut().zip(runs) {
                let part = |x: &Tensor| x.narrow(0, run.first, run.count)?.detach().contiguous();
                contexts.push(row.layers[index].attend_device(run, &part(&q)?, &part(&k)?, &part(&v)?)?);
            }
            let context = Tensor::cat(&contexts, 0)?.reshape((ids.len(), shape.query_width()))?;
            hidden = composed::finish(layer, epsilon, pass, &hidden, &context)?.detach();
        }
        #[expect(clippy::cast_possible_truncation, reason = "positions were counted in 32 bits before")]
        let last: Vec<u32> = runs.iter().map(|run| (run.first + run.count - 1) as u32).collect();
        let last = hidden.index_select(&Tensor::new(last, device)?, 0)?;
        let normed = rms_norm::composed(&last, &self.norm.tensor().detach(), epsilon)?;
        let logits = linear::composed(&normed, &self.head().tensor().detach())?;
        Ok(logits.to_dtype(DType::F32)?.to_device(&Device::Cpu)?.to_vec2::<f32>()?)
    }
}

impl LayerCache {
    /// Appends the run's keys and values and writes its context, `(count, query_width)`.
    fn attend(
        &mut self,
        shape: HeadShape,
        run: &Run,
        rotated: &[f32],
        qkv: &[f32],
        starts: &[u32],
        context: &mut [f32],
    ) -> Result<(), NetworkError> {
        if let Self::Empty = self {
            *self = Self::Host { keys: Vec::new(), values: Vec::new() };
        }
        let Self::Host { keys, values } = self else { return Err(NetworkError::Batch("a row of another device".into())) };
        let (stride, width) = (shape.rotated_width(), shape.kv_width());
        for token in run.first..run.first + run.count {
            keys.extend_from_slice(&rotated[token * stride + shape.query_width()..][..width]);
            values.extend_from_slice(&qkv[token * shape.qkv_width() + stride..][..width]);
        }
        let cached = Keys { keys, key_stride: width, values, value_stride: width };
        let block = QUERIES * shape.query_width();
        context.par_chunks_mut(block).enumerate().try_for_each_init(
            || (Vec::new(), Vec::new()),
            |(scores, log_sums), (index, context)| {
                let first = index * QUERIES;
                let count = context.len() / shape.query_width();
                log_sums.resize(count * shape.heads, 0.0);
                let data = &rotated[(run.first + first) * stride..];
                let queries = Queries { data, stride, first: run.before + first, starts: &starts[first..first + count] };
                attention::block_forward(shape, queries, cached, scores, context, log_sums)
            },
        )?;
        Ok(())
    }

    /// The same of stock operations; returns the context `(count, heads, head_dim)`.
    fn attend_device(&mut self, run: &Run, q: &Tensor, k: &Tensor, v: &Tensor) -> candle_core::Result<Tensor> {
        let (keys, values) = match self {
            Self::Device { keys, values } => (Tensor::cat(&[&*keys, k], 0)?, Tensor::cat(&[&*values, v], 0)?),
            _ => (k.clone(), v.clone()),
        };
        let seen = run.before + run.count;
        let mut mask = vec![0.0_f32; run.count * seen];
        for (i, line) in mask.chunks_exact_mut(seen).enumerate() {
            line[run.before + i + 1..].fill(f32::NEG_INFINITY);
        }
        let mask = Tensor::from_vec(mask, (1, 1, run.count, seen), q.device())?;
        let context = attention::composed(&q.unsqueeze(0)?, &keys.unsqueeze(0)?, &values.unsqueeze(0)?, &mask)?.squeeze(0)?;
        *self = Self::Device { keys, values };
        Ok(context)
    }
}

/// Queries of a long run that are taken together.
const QUERIES: usize = 64;
