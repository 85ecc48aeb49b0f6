//! What a decoder computes, forwards and backwards.
//!
//! One file per operation. Each holds a kernel for the CPU in `f32` (over slices, in parallel, with its backward written
//! by hand) and, under the name `composed`, the same made of stock candle operations, which candle differentiates: that
//! is what other devices and number types use, and what the kernels are tested against.
//!
//! Why by hand: several stock operations of candle cut gradients silently, its backward fills every gradient with zeros
//! before adding to it, and it multiplies out the gradient of frozen weights too. Here gradients accumulate in place and
//! nothing is computed for what does not train.

pub(crate) mod attention;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod heads;
pub(crate) mod linear;
pub(crate) mod product;
pub(crate) mod rms_norm;
pub(crate) mod rotary;
pub(crate) mod storage;
pub(crate) mod swiglu;
pub(crate) mod wide;
pub(crate) mod workspace;

#[cfg(test)]
pub(crate) mod testing;

/// Rows of a matrix that one parallel task works on: enough to outweigh the task's cost.
const ROWS_PER_TASK: usize = 32;
