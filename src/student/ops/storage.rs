//! The numbers of candle's tensors on the CPU, as slices.

use std::cell::Cell;
use std::ops::{Deref, Range};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, StorageRef, Tensor, bail};

/// The numbers of a tensor; the tensor cannot be written while this lives.
pub(crate) struct Numbers<'a> {
    guard: StorageRef<'a>,
    range: Range<usize>,
}

impl Deref for Numbers<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.guard {
            Storage::Cpu(CpuStorage::F32(numbers)) => &numbers[self.range.clone()],
            // `numbers` lets nothing else through.
            _ => &[],
        }
    }
}

/// Looks at the numbers of a contiguous `f32` tensor on the CPU.
///
/// # Errors
/// For any other tensor.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Numbers<'_>> {
    let (guard, layout) = tensor.storage_and_layout();
    let range = contiguous(layout)?;
    match &*guard {
        Storage::Cpu(CpuStorage::F32(_)) => Ok(Numbers { guard, range }),
        _ => bail!("a tensor of {:?} on {:?} where f32 on the CPU is needed", tensor.dtype(), tensor.device().location()),
    }
}

/// Changes the numbers of a contiguous `f32` tensor on the CPU in place.
///
/// # Errors
/// For any other tensor, and those of `change`.
pub(crate) fn change_numbers<R>(tensor: &Tensor, change: impl FnOnce(&mut [f32]) -> Result<R>) -> Result<R> {
    let op = Change { state: Cell::new(State::Waiting(change)) };
    tensor.inplace_op1(&op)?;
    match op.state.into_inner() {
        State::Done(result) => result,
        State::Waiting(_) | State::Running => bail!("a change in place that did not run"),
    }
}

struct Change<F, R> {
    state: Cell<State<F, R>>,
}

enum State<F, R> {
    Waiting(F),
    Running,
    Done(Result<R>),
}

impl<R, F: FnOnce(&mut [f32]) -> Result<R>> InplaceOp1 for Change<F, R> {
    fn name(&self) -> &'static str {
        "change-numbers"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let range = contiguous(layout)?;
        let CpuStorage::F32(numbers) = storage else { bail!("a change in place needs f32") };
        if let State::Waiting(change) = self.state.replace(State::Running) {
            self.state.set(State::Done(change(&mut numbers[range])));
        }
        Ok(())
    }
}

fn contiguous(layout: &Layout) -> Result<Range<usize>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => bail!("a tensor whose numbers do not lie one after the other: {:?}", layout.shape()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};

    #[test]
    fn numbers_are_read_and_changed_in_place() {
        let tensor = Tensor::arange(0_f32, 6.0, &Device::Cpu).unwrap().reshape((2, 3)).unwrap();
        assert_eq!(&*numbers(&tensor.get(1).unwrap()).unwrap(), [3.0, 4.0, 5.0]);
        let sum = change_numbers(&tensor, |numbers| {
            numbers[0] = 10.0;
            Ok(numbers.iter().sum::<f32>())
        });
        assert_eq!((sum.unwrap(), numbers(&tensor).unwrap()[0]), (25.0, 10.0));
        assert!(numbers(&tensor.t().unwrap()).is_err());
        assert!(numbers(&tensor.to_dtype(DType::BF16).unwrap()).is_err());
    }
}
