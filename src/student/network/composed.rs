//! A layer of stock operations, differentiated by candle: for other devices and number types.

use candle_core::{Result, Tensor, Var, bail};

use super::layer::Layer;
use super::linear::Pass;
use super::parameter::Gradients;
use crate::student::ops::heads::HeadShape;
use crate::student::ops::{attention, rms_norm, rotary, swiglu};

/// What the tokens of a pass share in every layer.
#[derive(Clone, Copy)]
pub(crate) struct TokenTensors<'a> {
    /// The heads.
    pub shape: HeadShape,
    /// Added to the mean square in norms.
    pub epsilon: f64,
    /// Cosines and sines `(tokens, head_dim / 2)`.
    pub table: &'a (Tensor, Tensor),
    /// Rows of the batch.
    pub rows: usize,
    /// Added to the scores: `(rows, 1, length, length)`.
    pub mask: &'a Tensor,
    /// Dropout.
    pub pass: Pass<'a>,
}

/// The graph of one layer.
pub(crate) struct Graph {
    input: Var,
    output: Tensor,
}

impl Graph {
    /// The layer's input alone.
    pub(crate) fn into_input(self) -> Tensor {
        self.input.as_detached_tensor()
    }
}

/// The output `(tokens, hidden)` for the input of the same shape.
pub(crate) fn forward(layer: &Layer, tokens: TokenTensors<'_>, input: &Tensor) -> Result<(Tensor, Graph)> {
    // A variable of its own ends the graph here: depth and memory do not grow with the layers.
    let input = Var::from_tensor(&input.detach())?;
    let (q, k, v) = project(layer, tokens.shape, tokens.epsilon, tokens.table, tokens.pass, input.as_tensor())?;
    let row = |x: &Tensor| {
        let (count, heads, width) = x.dims3()?;
        x.reshape((tokens.rows, count / tokens.rows, heads, width))
    };
    let context = attention::composed(&row(&q)?, &row(&k)?, &row(&v)?, tokens.mask)?;
    let context = context.reshape((q.dim(0)?, tokens.shape.query_width()))?;
    let output = finish(layer, tokens.epsilon, tokens.pass, input.as_tensor(), &context)?;
    Ok((output.detach(), Graph { input, output }))
}

/// Queries, keys and values, each `(tokens, heads, head_dim)`; queries and keys rotated.
pub(crate) fn project(
    layer: &Layer,
    shape: HeadShape,
    epsilon: f64,
    table: &(Tensor, Tensor),
    pass: Pass<'_>,
    input: &Tensor,
) -> Result<(Tensor, Tensor, Tensor)> {
    let count = input.dim(0)?;
    let normed = rms_norm::composed(input, layer.input_norm.tensor(), epsilon)?;
    let split = |x: Tensor, heads: usize| x.reshape((count, heads, shape.head_dim));
    let mut q = split(layer.query.composed(&normed, pass)?, shape.heads)?;
    let mut k = split(layer.key.composed(&normed, pass)?, shape.kv_heads)?;
    let v = split(layer.value.composed(&normed, pass)?, shape.kv_heads)?;
    if let Some((queries, keys)) = &layer.head_norms {
        q = rms_norm::composed(&q, queries.tensor(), epsilon)?;
        k = rms_norm::composed(&k, keys.tensor(), epsilon)?;
    }
    Ok((rotary::composed(&q, table)?, rotary::composed(&k, table)?, v))
}

/// The second half, from the context of attention `(tokens, query_width)`.
pub(crate) fn finish(layer: &Layer, epsilon: f64, pass: Pass<'_>, input: &Tensor, context: &Tensor) -> Result<Tensor> {
    let middle = (input + layer.output.composed(context, pass)?)?;
    let normed = rms_norm::composed(&middle, layer.inner_norm.tensor(), epsilon)?;
    let unit = swiglu::composed(&layer.gate.composed(&normed, pass)?, &layer.up.composed(&normed, pass)?)?;
    middle + layer.down.composed(&unit, pass)?
}

/// The gradient of the input from that of the output; adds those of the weights that train.
pub(crate) fn backward(layer: &Layer, graph: Graph, gradient: &Tensor, gradients: &mut Gradients) -> Result<Tensor> {
    let mut found = (graph.output * gradient)?.sum_all()?.backward()?;
    for parameter in layer.parameters().filter(|parameter| parameter.trains()) {
        if let Some(gradient) = found.remove(parameter.tensor()) {
            gradients.add(parameter, &gradient)?;
        }
    }
    match found.remove(graph.input.as_tensor()) {
        Some(gradient) => Ok(gradient.detach()),
        None => bail!("a layer's input received no gradient"),
    }
}
