//! The two ways to run a network: kernels on the CPU in `f32`, stock operations elsewhere.

use candle_core::{DType, Result, Tensor, Var, bail};

use super::composed::{self, Graph, TokenTensors};
use super::fused::{self, Tape, Tokens};
use super::layer::Layer;
use super::parameter::{Gradients, Parameter};
use super::{Network, PackedBatch};
use crate::student::ops::cross_entropy::{self, Head, chunk_rows};
use crate::student::ops::rms_norm;
use crate::student::ops::storage::numbers;
use crate::student::ops::workspace::Buffer;

/// How hidden states `(tokens, hidden)` pass through a network, layer by layer, forwards and back.
pub(crate) trait Engine {
    /// Hidden states, or their gradient.
    type Hidden;
    /// What a layer's backward needs.
    type Tape;

    /// The embeddings of the batch's tokens.
    fn embed(&self, batch: &PackedBatch) -> Result<Self::Hidden>;
    /// A layer's output and tape.
    fn layer(&self, layer: &Layer, input: Self::Hidden) -> Result<(Self::Hidden, Self::Tape)>;
    /// The input on a tape.
    fn input(&self, tape: Self::Tape) -> Self::Hidden;
    /// The gradient of a layer's input.
    fn layer_backward(&self, layer: &Layer, tape: Self::Tape, gradient: Self::Hidden, gradients: &mut Gradients) -> Result<Self::Hidden>;
    /// The log-probabilities of `targets` after the tokens `chosen`.
    fn log_probabilities(&self, last: &Self::Hidden, chosen: &[usize], targets: &[u32]) -> Result<Vec<f32>>;
    /// The same, and the gradient of `last` for the loss `sum(weights * -log_probability)`.
    fn head_backward(
        &self,
        last: &Self::Hidden,
        chosen: &[usize],
        targets: &[u32],
        weights: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(Vec<f32>, Self::Hidden)>;
    /// Adds the gradient of the embedding.
    fn embed_backward(&self, batch: &PackedBatch, gradient: Self::Hidden, gradients: &mut Gradients) -> Result<()>;
}

/// Kernels of our own.
pub(crate) struct Fused<'a> {
    pub network: &'a Network,
    pub tokens: Tokens<'a>,
}

impl Fused<'_> {
    fn head<'a>(&self, weight: &'a [f32]) -> Head<'a> {
        let config = self.network.config();
        Head { weight, vocabulary: config.vocabulary, width: config.hidden }
    }

    /// The chosen rows of the last hidden states, before and after the norm.
    fn gathered(&self, last: &[f32], chosen: &[usize]) -> Result<(Buffer, Buffer)> {
        let width = self.network.config().hidden;
        let mut rows = self.tokens.pass.workspace.take(chosen.len() * width);
        for (row, token) in rows.chunks_exact_mut(width).zip(chosen) {
            row.copy_from_slice(&last[token * width..(token + 1) * width]);
        }
        let mut normed = self.tokens.pass.workspace.take(rows.len());
        rms_norm::forward(&rows, &numbers(self.network.norm.tensor())?, self.tokens.epsilon, &mut normed);
        Ok((rows, normed))
    }
}

impl Engine for Fused<'_> {
    type Hidden = Buffer;
    type Tape = Tape;

    fn embed(&self, batch: &PackedBatch) -> Result<Buffer> {
        let width = self.network.config().hidden;
        let table = numbers(self.network.embedding.tensor())?;
        let mut out = self.tokens.pass.workspace.take(batch.tokens() * width);
        for (out, id) in out.chunks_exact_mut(width).zip(batch.ids()) {
            let start = *id as usize * width;
            out.copy_from_slice(&table[start..start + width]);
        }
        Ok(out)
    }

    fn layer(&self, layer: &Layer, input: Buffer) -> Result<(Buffer, Tape)> {
        fused::forward(layer, self.tokens, input)
    }

    fn input(&self, tape: Tape) -> Buffer {
        tape.into_input()
    }

    fn layer_backward(&self, layer: &Layer, tape: Tape, gradient: Buffer, gradients: &mut Gradients) -> Result<Buffer> {
        fused::backward(layer, self.tokens, tape, gradient, gradients)
    }

    fn log_probabilities(&self, last: &Buffer, chosen: &[usize], targets: &[u32]) -> Result<Vec<f32>> {
        let (_, normed) = self.gathered(last, chosen)?;
        let weight = numbers(self.network.head().tensor())?;
        cross_entropy::log_probabilities(self.head(&weight), &normed, targets, self.tokens.pass.workspace)
    }

    fn head_backward(
        &self,
        last: &Buffer,
        chosen: &[usize],
        targets: &[u32],
        weights: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(Vec<f32>, Buffer)> {
        let workspace = self.tokens.pass.workspace;
        let (rows, normed) = self.gathered(last, chosen)?;
        let mut d_normed = workspace.take(normed.len());
        let parameter = self.network.head();
        let weight = numbers(parameter.tensor())?;
        let head = self.head(&weight);
        let mut found = None;
        gradients.change(parameter, |d_head| {
            found = Some(cross_entropy::forward_backward(head, &normed, targets, weights, &mut d_normed, Some(d_head), workspace)?);
            Ok(())
        })?;
        let found = match found {
            Some(found) => found,
            None => cross_entropy::forward_backward(head, &normed, targets, weights, &mut d_normed, None, workspace)?,
        };
        let mut d_rows = workspace.zeros(rows.len());
        fused::norm_backward(&self.network.norm, self.tokens.epsilon, &rows, &d_normed, &mut d_rows, gradients)?;
        let mut d_last = workspace.zeros(last.len());
        let width = self.network.config().hidden;
        for (row, token) in d_rows.chunks_exact(width).zip(chosen) {
            d_last[token * width..(token + 1) * width].copy_from_slice(row);
        }
        Ok((found, d_last))
    }

    fn embed_backward(&self, batch: &PackedBatch, gradient: Buffer, gradients: &mut Gradients) -> Result<()> {
        let width = self.network.config().hidden;
        gradients.change(&self.network.embedding, |sum| {
            for (gradient, id) in gradient.chunks_exact(width).zip(batch.ids()) {
                let start = *id as usize * width;
                sum[start..start + width].iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
            }
            Ok(())
        })
    }
}

/// Stock operations.
pub(crate) struct Composed<'a> {
    pub network: &'a Network,
    pub tokens: TokenTensors<'a>,
}

impl Composed<'_> {
    fn indices(&self, values: impl ExactSizeIterator<Item = u32>) -> Result<Tensor> {
        let count = values.len();
        Tensor::from_vec(values.collect(), count, self.network.embedding.tensor().device())
    }

    fn places(&self, chosen: &[usize]) -> Result<Tensor> {
        // A batch has fewer than 2^32 tokens: its starts are counted so.
        #[expect(clippy::cast_possible_truncation, reason = "an index within a batch")]
        self.indices(chosen.iter().map(|token| *token as u32))
    }

    /// Log-probabilities of a chunk of rows, as a graph over `rows`.
    fn scores(&self, rows: &Tensor, targets: &[u32]) -> Result<Tensor> {
        let normed = rms_norm::composed(rows, self.network.norm.tensor(), self.tokens.epsilon)?;
        let logits = crate::student::ops::linear::composed(&normed, self.network.head().tensor())?;
        let targets = self.indices(targets.iter().copied())?.unsqueeze(1)?;
        cross_entropy::composed(&logits, &targets)
    }
}

impl Engine for Composed<'_> {
    type Hidden = Tensor;
    type Tape = Graph;

    fn embed(&self, batch: &PackedBatch) -> Result<Tensor> {
        let ids = self.indices(batch.ids().iter().copied())?;
        self.network.embedding.tensor().detach().index_select(&ids, 0)
    }

    fn layer(&self, layer: &Layer, input: Tensor) -> Result<(Tensor, Graph)> {
        composed::forward(layer, self.tokens, &input)
    }

    fn input(&self, tape: Graph) -> Tensor {
        tape.into_input()
    }

    fn layer_backward(&self, layer: &Layer, tape: Graph, gradient: Tensor, gradients: &mut Gradients) -> Result<Tensor> {
        composed::backward(layer, tape, &gradient, gradients)
    }

    fn log_probabilities(&self, last: &Tensor, chosen: &[usize], targets: &[u32]) -> Result<Vec<f32>> {
        let step = chunk_rows(self.network.config().vocabulary);
        let mut found = Vec::with_capacity(chosen.len());
        for (chosen, targets) in chosen.chunks(step).zip(targets.chunks(step)) {
            let rows = last.index_select(&self.places(chosen)?, 0)?;
            found.extend(self.scores(&rows, targets)?.to_vec1::<f32>()?);
        }
        Ok(found)
    }

    fn head_backward(
        &self,
        last: &Tensor,
        chosen: &[usize],
        targets: &[u32],
        weights: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(Vec<f32>, Tensor)> {
        let step = chunk_rows(self.network.config().vocabulary);
        let mut found = Vec::with_capacity(chosen.len());
        let mut d_last = last.zeros_like()?;
        for ((chosen, targets), weights) in chosen.chunks(step).zip(targets.chunks(step)).zip(weights.chunks(step)) {
            let places = self.places(chosen)?;
            let rows = Var::from_tensor(&last.index_select(&places, 0)?)?;
            let scores = self.scores(rows.as_tensor(), targets)?;
            found.extend(scores.to_vec1::<f32>()?);
            let weights = Tensor::from_slice(weights, weights.len(), last.device())?;
            let mut grads = (scores * weights)?.sum_all()?.neg()?.backward()?;
            let parameters: [&Parameter; 2] = [&self.network.norm, self.network.head()];
            for parameter in parameters.into_iter().filter(|parameter| parameter.trains()) {
                if let Some(gradient) = grads.remove(parameter.tensor()) {
                    gradients.add(parameter, &gradient)?;
                }
            }
            let Some(d_rows) = grads.remove(rows.as_tensor()) else { bail!("the head's input received no gradient") };
            d_last = d_last.index_add(&places, &d_rows.detach(), 0)?;
        }
        Ok((found, d_last))
    }

    fn embed_backward(&self, batch: &PackedBatch, gradient: Tensor, gradients: &mut Gradients) -> Result<()> {
        let parameter = &self.network.embedding;
        if !parameter.trains() {
            return Ok(());
        }
        let zeros = Tensor::zeros(parameter.tensor().shape(), DType::F32, gradient.device())?;
        let ids = self.indices(batch.ids().iter().copied())?;
        gradients.add(parameter, &zeros.index_add(&ids, &gradient.to_dtype(DType::F32)?, 0)?)
    }
}
