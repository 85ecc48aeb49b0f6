//! `y = x W^T`, with a gradient for the weight only where it trains.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape, Storage, Tensor, bail};

/// A linear map whose weight `(out, in)` does not train. Stock products compute the gradient of both operands whoever
/// needs them: for adapters on a frozen network that would be most of the backward.
struct FrozenLinear {
    weight: Tensor,
}

impl FrozenLinear {
    fn multiply<B: BackendStorage>(&self, x: &B, layout: &Layout, weight: &B, weight_layout: &Layout) -> Result<(B, Shape)> {
        let (width_out, width_in) = self.weight.dims2()?;
        if !layout.is_contiguous() || layout.dims().last() != Some(&width_in) {
            bail!("a linear map of {width_in} numbers over {:?}", layout.shape())
        }
        let rows = layout.shape().elem_count() / width_in;
        let flat = Layout::contiguous_with_offset((rows, width_in), layout.start_offset());
        let out = x.matmul(weight, (1, rows, width_out, width_in), &flat, &weight_layout.transpose(0, 1)?)?;
        let mut dims = layout.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = width_out;
        }
        Ok((out, Shape::from(dims)))
    }
}

impl CustomOp1 for FrozenLinear {
    fn name(&self) -> &'static str {
        "frozen-linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (weight, weight_layout) = self.weight.storage_and_layout();
        match &*weight {
            Storage::Cpu(weight) => self.multiply(x, layout, weight, weight_layout),
            _ => bail!("a linear map whose weight lies on another device than its input"),
        }
    }

    fn cuda_fwd(&self, x: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let (weight, weight_layout) = self.weight.storage_and_layout();
        match &*weight {
            Storage::Cuda(weight) => self.multiply(x, layout, weight, weight_layout),
            _ => bail!("a linear map whose weight lies on another device than its input"),
        }
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        let width_out = self.weight.dim(0)?;
        let dy = dy.contiguous()?.reshape(((), width_out))?;
        dy.matmul(&self.weight)?.reshape(x.shape()).map(Some)
    }
}

/// `x W^T` over the last dimension, of stock operations where `weight` trains (is a variable).
///
/// # Errors
/// Those of candle.
pub(crate) fn composed(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    if !weight.track_op() {
        return x.apply_op1(FrozenLinear { weight: weight.clone() });
    }
    let (width_out, width_in) = weight.dims2()?;
    let mut dims = x.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = width_out;
    }
    x.reshape(((), width_in))?.matmul(&weight.t()?)?.reshape(dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::ops::testing::{assert_close, gradients, random};
    use candle_core::Device;

    #[test]
    fn a_frozen_weight_gives_the_same_gradient_to_its_input() {
        let (x, w, dy) = (random(1, 2 * 3 * 4), random(2, 5 * 4), random(3, 2 * 3 * 5));
        let (y, both) = gradients(&[(&x, &[2, 3, 4]), (&w, &[5, 4])], &dy, |t| composed(&t[0], &t[1]));
        let frozen = Tensor::from_slice(&w, (5, 4), &Device::Cpu).unwrap();
        let (y_frozen, dx) = gradients(&[(&x, &[2, 3, 4])], &dy, |t| composed(&t[0], &frozen));
        assert_close("y", &y_frozen, &y, 1e-6);
        assert_close("dx", &dx[0], &both[0], 1e-6);
    }
}
