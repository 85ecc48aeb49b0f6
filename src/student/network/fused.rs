//! A layer on the CPU in `f32`, forwards and backwards by hand.

use candle_core::{Result, Tensor};

use super::layer::Layer;
use super::linear::{Columns, Input, Linear, Pass};
use super::parameter::{Gradients, Parameter};
use crate::student::ops::heads::{HeadNorms, HeadShape};
use crate::student::ops::product::Write;
use crate::student::ops::rotary::RotaryTable;
use crate::student::ops::storage::{Numbers, numbers};
use crate::student::ops::workspace::Buffer;
use crate::student::ops::{attention, heads, rms_norm, swiglu};

/// What the tokens of a pass share in every layer.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    /// The heads.
    pub shape: HeadShape,
    /// Added to the mean square in norms.
    pub epsilon: f32,
    /// A row for every token.
    pub table: &'a RotaryTable,
    /// Tokens of a row of the batch.
    pub length: usize,
    /// Where each token's document starts within its row.
    pub starts: &'a [u32],
    /// Buffers and dropout.
    pub pass: Pass<'a>,
}

impl Tokens<'_> {
    fn count(&self) -> usize {
        self.starts.len()
    }
}

/// Queries and keys ready for attention, and what they came from.
pub(crate) struct Projected {
    normed: Buffer,
    /// `(tokens, qkv_width)`: the values are used as they are.
    pub qkv: Buffer,
    /// `(tokens, rotated_width)`.
    pub rotated: Buffer,
    reduced: [Option<Buffer>; 3],
}

/// What a layer's backward needs: all that its forward computed.
pub(crate) struct Tape {
    input: Buffer,
    projected: Projected,
    context: Buffer,
    log_sums: Buffer,
    feed: Feed,
}

impl Tape {
    /// The layer's input alone; the rest is given back.
    pub(crate) fn into_input(self) -> Buffer {
        self.input
    }
}

struct Feed {
    middle: Buffer,
    normed: Buffer,
    gates: Buffer,
    unit: Buffer,
    reduced: [Option<Buffer>; 4],
}

/// The output `(tokens, hidden)` for the input of the same shape.
pub(crate) fn forward(layer: &Layer, tokens: Tokens<'_>, input: Buffer) -> Result<(Buffer, Tape)> {
    let projected = project(layer, tokens, &input)?;
    let mut context = tokens.pass.workspace.take(tokens.count() * tokens.shape.query_width());
    let mut log_sums = tokens.pass.workspace.take(tokens.count() * tokens.shape.heads);
    attention::forward(rows(tokens, &projected), &mut context, &mut log_sums)?;
    let (output, feed) = feed_forward(layer, tokens, &input, &context)?;
    Ok((output, Tape { input, projected, context, log_sums, feed }))
}

/// The first half up to attention.
pub(crate) fn project(layer: &Layer, tokens: Tokens<'_>, input: &[f32]) -> Result<Projected> {
    let (shape, pass, count) = (tokens.shape, tokens.pass, tokens.count());
    let width = shape.qkv_width();
    let mut normed = pass.workspace.take(input.len());
    rms_norm::forward(input, &numbers(layer.input_norm.tensor())?, tokens.epsilon, &mut normed);
    let mut qkv = pass.workspace.take(count * width);
    let query = layer.query.forward(&normed, count, &mut qkv, width, Write::Replace, pass)?;
    let key = layer.key.forward(&normed, count, &mut qkv[shape.query_width()..], width, Write::Replace, pass)?;
    let value = layer.value.forward(&normed, count, &mut qkv[shape.rotated_width()..], width, Write::Replace, pass)?;
    let mut rotated = pass.workspace.take(count * shape.rotated_width());
    let norms = NormWeights::of(layer)?;
    heads::forward(shape, &qkv, norms.as_ref().map(|norms| norms.with(tokens.epsilon)), tokens.table, &mut rotated);
    Ok(Projected { normed, qkv, rotated, reduced: [query, key, value] })
}

/// The second half, from the context of attention `(tokens, query_width)`.
fn feed_forward(layer: &Layer, tokens: Tokens<'_>, input: &[f32], context: &[f32]) -> Result<(Buffer, Feed)> {
    let (pass, count) = (tokens.pass, tokens.count());
    let hidden = input.len() / count.max(1);
    let width = layer.up.weight.tensor().dim(0)?;
    // The product adds to the residual where it lies.
    let mut middle = pass.workspace.copy_of(input);
    let output = layer.output.forward(context, count, &mut middle, hidden, Write::Add, pass)?;
    let mut normed = pass.workspace.take(input.len());
    rms_norm::forward(&middle, &numbers(layer.inner_norm.tensor())?, tokens.epsilon, &mut normed);
    let mut gates = pass.workspace.take(count * 2 * width);
    let gate = layer.gate.forward(&normed, count, &mut gates, 2 * width, Write::Replace, pass)?;
    let up = layer.up.forward(&normed, count, &mut gates[width..], 2 * width, Write::Replace, pass)?;
    let mut unit = pass.workspace.take(count * width);
    swiglu::forward(&gates, width, &mut unit);
    let mut result = pass.workspace.copy_of(&middle);
    let down = layer.down.forward(&unit, count, &mut result, hidden, Write::Add, pass)?;
    Ok((result, Feed { middle, normed, gates, unit, reduced: [output, gate, up, down] }))
}

/// The second half for generation.
pub(crate) fn finish(layer: &Layer, tokens: Tokens<'_>, input: &[f32], context: &[f32]) -> Result<Buffer> {
    feed_forward(layer, tokens, input, context).map(|(output, _)| output)
}

/// The gradient of the input, in the place of that of the output; adds those of the weights that train.
pub(crate) fn backward(layer: &Layer, tokens: Tokens<'_>, tape: Tape, mut gradient: Buffer, gradients: &mut Gradients) -> Result<Buffer> {
    let (shape, pass) = (tokens.shape, tokens.pass);
    let Tape { input, projected, context, log_sums, feed } = tape;
    let (middle, reduced) = feed_backward(layer, tokens, feed, &mut gradient, gradients)?;
    drop(middle);
    let mut d_context = pass.workspace.take(context.len());
    let columns = Columns { data: &gradient, stride: gradient.len() / tokens.count().max(1) };
    let given = Input { x: &context, rows: tokens.count(), reduced: reduced.as_ref() };
    layer.output.backward(given, columns, (&mut d_context, Write::Replace), pass, gradients)?;
    let mut grouped = pass.workspace.take(tokens.count() * shape.kv_heads * shape.grouped_width());
    attention::backward(rows(tokens, &projected), &context, &log_sums, &d_context, &mut grouped)?;
    drop((d_context, context, log_sums));
    let d_qkv = heads_backward(layer, tokens, &projected, &grouped, gradients)?;
    drop(grouped);
    let mut d_normed = pass.workspace.take(input.len());
    let places = [(&layer.query, 0), (&layer.key, shape.query_width()), (&layer.value, shape.rotated_width())];
    for (i, (linear, start)) in places.into_iter().enumerate() {
        let columns = Columns { data: &d_qkv[start..], stride: shape.qkv_width() };
        let given = Input { x: &projected.normed, rows: tokens.count(), reduced: projected.reduced[i].as_ref() };
        linear.backward(given, columns, (&mut d_normed, write_of(i)), pass, gradients)?;
    }
    norm_backward(&layer.input_norm, tokens.epsilon, &input, &d_normed, &mut gradient, gradients)?;
    Ok(gradient)
}

/// Turns the gradient of the layer's output into that of its middle; returns the middle and what the output's map kept.
fn feed_backward(
    layer: &Layer,
    tokens: Tokens<'_>,
    feed: Feed,
    gradient: &mut Buffer,
    gradients: &mut Gradients,
) -> Result<(Buffer, Option<Buffer>)> {
    let (pass, count) = (tokens.pass, tokens.count());
    let Feed { middle, normed, mut gates, unit, reduced: [output, gate, up, down] } = feed;
    let hidden = middle.len() / count.max(1);
    let width = unit.len() / count.max(1);
    let mut d_unit = pass.workspace.take(unit.len());
    let given = Input { x: &unit, rows: count, reduced: down.as_ref() };
    layer.down.backward(given, Columns { data: gradient, stride: hidden }, (&mut d_unit, Write::Replace), pass, gradients)?;
    drop(unit);
    swiglu::backward(&mut gates, width, &d_unit);
    drop(d_unit);
    let mut d_normed = pass.workspace.take(normed.len());
    let maps: [(&Linear, Option<&Buffer>, usize); 2] = [(&layer.gate, gate.as_ref(), 0), (&layer.up, up.as_ref(), width)];
    for (i, (linear, reduced, start)) in maps.into_iter().enumerate() {
        let columns = Columns { data: &gates[start..], stride: 2 * width };
        linear.backward(Input { x: &normed, rows: count, reduced }, columns, (&mut d_normed, write_of(i)), pass, gradients)?;
    }
    norm_backward(&layer.inner_norm, tokens.epsilon, &middle, &d_normed, gradient, gradients)?;
    Ok((middle, output))
}

/// The gradients of queries, keys and values from those that attention grouped.
fn heads_backward(layer: &Layer, tokens: Tokens<'_>, projected: &Projected, grouped: &[f32], gradients: &mut Gradients) -> Result<Buffer> {
    let mut d_qkv = tokens.pass.workspace.take(projected.qkv.len());
    let norms = NormWeights::of(layer)?;
    let trains = layer.head_norms.as_ref().is_some_and(|(queries, keys)| queries.trains() || keys.trains());
    let norms = norms.as_ref().map(|norms| (norms.with(tokens.epsilon), trains));
    let found = heads::backward(tokens.shape, tokens.length, &projected.qkv, norms, tokens.table, grouped, &mut d_qkv);
    if let (Some((d_queries, d_keys)), Some((queries, keys))) = (found, &layer.head_norms) {
        gradients.add_numbers(queries, &d_queries)?;
        gradients.add_numbers(keys, &d_keys)?;
    }
    Ok(d_qkv)
}

/// Adds the gradient of a norm's input to `dx`.
pub(crate) fn norm_backward(
    weight: &Parameter,
    epsilon: f32,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    gradients: &mut Gradients,
) -> Result<()> {
    let found = rms_norm::backward(x, &numbers(weight.tensor())?, epsilon, dy, dx, weight.trains());
    found.map_or(Ok(()), |found| gradients.add_numbers(weight, &found))
}

/// The first of several maps of one input overwrites its gradient, the others add.
fn write_of(place: usize) -> Write {
    if place == 0 { Write::Replace } else { Write::Add }
}

fn rows<'a>(tokens: Tokens<'a>, projected: &'a Projected) -> attention::Rows<'a> {
    attention::Rows { shape: tokens.shape, length: tokens.length, starts: tokens.starts, rotated: &projected.rotated, qkv: &projected.qkv }
}

/// The weights of the heads' norms, held readable.
struct NormWeights<'a> {
    queries: Numbers<'a>,
    keys: Numbers<'a>,
}

impl<'a> NormWeights<'a> {
    fn of(layer: &'a Layer) -> Result<Option<Self>> {
        let tensors: Option<(&Tensor, &Tensor)> = layer.head_norms.as_ref().map(|(queries, keys)| (queries.tensor(), keys.tensor()));
        tensors.map(|(queries, keys)| Ok(Self { queries: numbers(queries)?, keys: numbers(keys)? })).transpose()
    }

    fn with(&self, epsilon: f32) -> HeadNorms<'_> {
        HeadNorms { queries: &self.queries, keys: &self.keys, epsilon }
    }
}
